//! `describe`: the details of an object and its events.

mod autoscalers;
mod containers;
mod kinds;
mod networking;
mod nodes;
mod related;
mod roles;
mod storage;
mod text;

use std::fmt::Write;

use anyhow::bail;
use api::Resource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use cluster_client::{ApiResource, ApiResources, ClusterClient, ListOptions, ResourceRef};
use object::Object;
use serde_json::{Map, Value};

use crate::console::Console;
use crate::describe::kinds::Related;
use crate::durations;
use crate::files::{FileArgs, FileObject};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::resources::{self, RequestedObjects};
use crate::scope::{self, Scope};
use crate::selection::{self, Namespace};
use crate::tabs;

const EVENTS: Resource = Resource::namespaced("", "v1", "Event", "events");
/// Maximum length of annotations.
const ANNOTATION_LENGTH_MAX: usize = 140;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ACRONYMS: [&str; 5] = ["API", "URL", "UID", "OSB", "GUID"];

/// Show details of a specific resource or group of resources in Karmada control plane or a member cluster.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Describe a cluster, or all of them
  flotilla describe cluster member1
  flotilla describe clusters

  # Describe a deployment of the control plane
  flotilla describe deployment/nginx -n default

  # Describe a pod in a member
  flotilla describe pod nginx-7d9b8-x2x -s members -C member1

  # Describe pods by label, or all whose names start with frontend
  flotilla describe po -l name=myLabel -s members -C member1
  flotilla describe pods frontend -s members -C member1")]
pub struct DescribeArgs {
    /// TYPE [NAME_PREFIX], or TYPE/NAME
    #[arg(value_name = "TYPE")]
    resources: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Scope: karmada or members
    #[arg(short = 's', long, default_value = "karmada", value_parser = scope::parse, value_name = "SCOPE")]
    operation_scope: Scope,
    /// Member, with -s members
    #[arg(short = 'C', long, value_name = "NAME")]
    cluster: Option<String>,
    /// Selector (label query) to filter on
    #[arg(short = 'l', long, visible_alias = "labels", value_name = "SELECTOR")]
    selector: Option<String>,
    /// Describe objects of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show the events of an object
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    show_events: bool,
    /// Page size of list requests
    #[arg(long, default_value_t = 500, value_name = "N")]
    chunk_size: u64,
}

pub async fn run(console: &Console, args: DescribeArgs) -> anyhow::Result<()> {
    let member = scope::single_member(args.operation_scope, args.cluster.as_deref())?.map(str::to_owned);
    let plane = PlaneClient::open(&args.plane)?;
    if !args.files.is_empty() && !args.resources.is_empty() {
        bail!("when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well");
    }
    let files = args.files.read(&console.program, "describe").await?;
    describe(console, &plane, &args, member.as_deref(), files).await.map_err(|error| plane.explain(error))
}

async fn describe(
    console: &Console,
    plane: &PlaneClient,
    args: &DescribeArgs,
    member: Option<&str>,
    files: Vec<FileObject>,
) -> anyhow::Result<()> {
    let client = match member {
        Some(cluster) => plane.existing_member(cluster).await?,
        None => plane.client.clone(),
    };
    let known = ApiResources::discover(&client).await?;
    let namespace = plane.namespace(&args.namespace);
    let mut texts: Vec<String> = Vec::new();
    if !files.is_empty() {
        let place = Namespace { name: &namespace, is_given: args.namespace.namespace.is_some() };
        for one in selection::from_files(files, &known, place)? {
            let object = client.get(one.target()).await?;
            texts.push(described(&client, &object, args.show_events).await);
        }
        console.print(&texts.join("\n\n"))?;
        return Ok(());
    }
    for RequestedObjects { resource, names } in resources::resolve(&resources::parse(&args.resources)?, &known)? {
        let place = match (resource.namespaced, args.all_namespaces) {
            (true, false) => ResourceRef::within(&resource.gvr, &namespace),
            _ => ResourceRef::all(&resource.gvr),
        };
        for object in find(&client, &resource, place, &names, args).await? {
            texts.push(described(&client, &object, args.show_events).await);
        }
    }
    if texts.is_empty() {
        console.note(match args.all_namespaces {
            true => "No resources found".to_owned(),
            false => format!("No resources found in {namespace} namespace."),
        });
    }
    console.print(&texts.join("\n\n"))?;
    Ok(())
}

/// Returns the description of an object, with what belongs to it.
async fn described(client: &ClusterClient, object: &Object, show_events: bool) -> String {
    let events = if show_events && has_events(object) { events_of(client, object).await } else { None };
    let related = related::gather(client, object).await;
    describe_object(object, &related, events, jiff::Timestamp::now())
}

/// kubectl shows no events of these kinds.
fn has_events(object: &Object) -> bool {
    let group = object.api_version().split_once('/').map_or("", |(group, _)| group);
    !matches!((group, object.kind()), ("", "Namespace") | ("networking.k8s.io", "NetworkPolicy"))
        && group != "rbac.authorization.k8s.io"
}

/// Finds objects by name, by prefix, or all.
async fn find(
    client: &ClusterClient,
    resource: &ApiResource,
    place: ResourceRef,
    names: &[String],
    args: &DescribeArgs,
) -> anyhow::Result<Vec<Object>> {
    let options = ListOptions {
        label_selector: args.selector.clone(),
        limit: Some(args.chunk_size).filter(|n| *n > 0),
        ..ListOptions::default()
    };
    let gvk = resource.gvk();
    let list = async || -> anyhow::Result<Vec<Object>> {
        let items = client.list_all(place.clone(), options.clone()).await?.items;
        let with_kind = |object: &std::sync::Arc<Object>| {
            let mut object = Object::clone(object);
            object.set_gvk(&gvk);
            object
        };
        Ok(items.iter().map(with_kind).collect())
    };
    if names.is_empty() {
        return list().await;
    }
    let mut found: Vec<Object> = Vec::new();
    for name in names {
        let target = ResourceRef { name: Some(name.clone()), ..place.clone() };
        match client.get(target).await {
            Ok(object) => found.push(Object::clone(&object)),
            Err(status) if status.is_not_found() => {
                let before = found.len();
                found.extend(list().await?.into_iter().filter(|object| object.name().starts_with(name.as_str())));
                if found.len() == before {
                    return Err(status.into());
                }
            }
            Err(status) => return Err(status.into()),
        }
    }
    if found.is_empty() {
        bail!("no objects found");
    }
    Ok(found)
}

/// Returns the events, or `None` if they may not be read.
async fn events_of(client: &ClusterClient, object: &Object) -> Option<Vec<Object>> {
    let fields = [
        ("involvedObject.name", object.name()),
        ("involvedObject.namespace", object.namespace()),
        ("involvedObject.kind", object.kind()),
        ("involvedObject.uid", object.uid()),
    ];
    let selector: Vec<String> =
        fields.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}={value}")).collect();
    let place = match object.namespace() {
        "" => ResourceRef::all(&EVENTS.gvr()),
        namespace => ResourceRef::within(&EVENTS.gvr(), namespace),
    };
    let options = ListOptions { field_selector: Some(selector.join(",")), ..ListOptions::default() };
    let list = client.list_all(place, options).await.ok()?;
    let mut events: Vec<Object> = list.items.iter().map(|event| Object::clone(event)).collect();
    events.sort_by(|a, b| last_time(a).cmp(last_time(b)));
    Some(events)
}

fn last_time(event: &Object) -> &str {
    let times = [["series", "lastObservedTime"].as_slice(), &["lastTimestamp"], &["eventTime"], &["firstTimestamp"]];
    times.iter().map(|path| event.str_at(path)).find(|time| !time.is_empty()).unwrap_or_default()
}

/// Formats the description of an object.
fn describe_object(object: &Object, related: &Related, events: Option<Vec<Object>>, now: jiff::Timestamp) -> String {
    let mut text = kinds::describe(object, related).unwrap_or_else(|| describe_fields(object));
    let Some(events) = events else { return tabs::align(&text, tabs::DESCRIPTION) };
    if events.is_empty() {
        text.push_str("Events:\t<none>\n");
        return tabs::align(&text, tabs::DESCRIPTION);
    }
    let described = tabs::align(&text, tabs::DESCRIPTION);
    let mut lines = String::from("Events:\n  Type\tReason\tAge\tFrom\tMessage\n  ----\t------\t----\t----\t-------\n");
    for event in &events {
        lines.push_str(&event_line(event, now));
    }
    described + &tabs::align(&lines, tabs::DESCRIPTION)
}

/// Describes an object of any kind by its fields.
fn describe_fields(object: &Object) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Name:\t{}", object.name());
    let _ = writeln!(text, "Namespace:\t{}", object.namespace());
    let labels = object.labels().map(|(key, value)| format!("{key}={value}\n")).collect();
    several(&mut text, "Labels", labels);
    let annotations = object.annotations().filter(|(key, _)| *key != LAST_APPLIED);
    several(&mut text, "Annotations", annotations.map(|(key, value)| annotation(key, value)).collect());
    match (object.api_version(), object.kind()) {
        ("v1", "ConfigMap") => write_config_map(&mut text, object),
        ("v1", "Secret") => write_secret(&mut text, object),
        _ => write_fields(&mut text, object.as_map(), "", Names::of(object), 0),
    }
    text
}

/// Writes the first entry next to the title, the rest below it.
fn several(text: &mut String, title: &str, mut entries: Vec<String>) {
    entries.sort();
    if entries.is_empty() {
        let _ = writeln!(text, "{title}:\t<none>");
        return;
    }
    for (index, entry) in entries.iter().enumerate() {
        let indent = title.len() - title.trim_start().len();
        let title = if index == 0 { format!("{title}:") } else { title[..indent].to_owned() };
        let _ = write!(text, "{title}\t{entry}");
    }
}

fn annotation(key: &str, value: &str) -> String {
    let value = value.strip_suffix('\n').unwrap_or(value);
    if value.len() + key.len() + 2 <= ANNOTATION_LENGTH_MAX && !value.contains('\n') {
        return format!("{key}: {value}\n");
    }
    let mut text = format!("{key}:\n");
    for line in value.split('\n') {
        let _ = writeln!(text, "\t  {}", shorten(line, ANNOTATION_LENGTH_MAX - 2));
    }
    text
}

fn shorten(text: &str, length_max: usize) -> String {
    match text.char_indices().nth(length_max) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Fields shown in the header, or not shown at all.
const SKIPPED: [&str; 5] =
    [".metadata.managedFields", ".metadata.name", ".metadata.namespace", ".metadata.labels", ".metadata.annotations"];

/// Maps in Kubernetes kinds with user-defined keys.
const USER_KEYED: [&str; 12] = [
    "annotations",
    "allocatable",
    "binaryData",
    "capacity",
    "data",
    "hard",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "requests",
    "used",
];

/// Formats of field names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// All names as words, as kubectl shows custom resources.
    Words,
    /// Field names as words, user-defined keys unchanged.
    WordsOfFields,
    /// Unchanged.
    Verbatim,
}

impl Names {
    fn of(object: &Object) -> Self {
        let group = object.api_version().split_once('/').map_or("", |(group, _)| group);
        if !group.contains('.') || group.ends_with(".k8s.io") { Self::WordsOfFields } else { Self::Words }
    }

    fn below(self, field: &str) -> Self {
        if self == Self::WordsOfFields && USER_KEYED.contains(&field) { Self::Verbatim } else { self }
    }

    fn show(self, field: &str) -> String {
        if self == Self::Verbatim { field.to_owned() } else { label_of(field) }
    }
}

fn write_config_map(text: &mut String, config_map: &Object) {
    text.push_str("\nData\n====\n");
    for (key, value) in entries(config_map, "data") {
        let _ = writeln!(text, "{key}:\n----\n{}\n", scalar_text(value));
    }
    text.push_str("\nBinaryData\n====\n");
    for (key, value) in entries(config_map, "binaryData") {
        let _ = writeln!(text, "{key}: {} bytes", decoded_length(value));
    }
    text.push('\n');
}

/// Writes only the sizes of the values.
fn write_secret(text: &mut String, secret: &Object) {
    let _ = writeln!(text, "\nType:\t{}\n\nData\n====", secret.str_at(&["type"]));
    for (key, value) in entries(secret, "data") {
        let _ = writeln!(text, "{key}:\t{} bytes", decoded_length(value));
    }
}

fn entries<'a>(object: &'a Object, field: &str) -> Vec<(&'a String, &'a Value)> {
    let mut entries: Vec<(&String, &Value)> = match object.get(&[field]) {
        Some(Value::Object(map)) => map.iter().collect(),
        _ => Vec::new(),
    };
    entries.sort_by_key(|(key, _)| key.as_str());
    entries
}

fn decoded_length(value: &Value) -> usize {
    STANDARD.decode(value.as_str().unwrap_or_default()).map_or(0, |bytes| bytes.len())
}

fn write_fields(text: &mut String, fields: &Map<String, Value>, path: &str, shown: Names, level: usize) {
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort();
    for name in names {
        let here = format!("{path}.{name}");
        if SKIPPED.contains(&here.as_str()) {
            continue;
        }
        let (indent, label) = ("  ".repeat(level), shown.show(name));
        match &fields[name] {
            Value::Object(map) => {
                let _ = writeln!(text, "{indent}{label}:");
                write_fields(text, map, &here, shown.below(name), level + 1);
            }
            Value::Array(items) => {
                let _ = writeln!(text, "{indent}{label}:");
                for item in items {
                    match item {
                        Value::Object(map) => write_fields(text, map, &here, shown, level + 1),
                        scalar => {
                            let _ = writeln!(text, "{indent}  {}", scalar_text(scalar));
                        }
                    }
                }
            }
            scalar => {
                let _ = writeln!(text, "{indent}{label}:\t{}", scalar_text(scalar));
            }
        }
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// `creationTimestamp` becomes `Creation Timestamp`.
fn label_of(field: &str) -> String {
    if field.chars().any(|c| !c.is_alphabetic() && c != '-') {
        return field.to_owned();
    }
    let words = split_camel(field).into_iter().map(|word| {
        let upper = word.to_uppercase();
        if ACRONYMS.contains(&upper.as_str()) {
            return upper;
        }
        let mut chars = word.chars();
        let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
        first + &chars.as_str().to_lowercase()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Words of a camel-case name; a run of capitals is one word, except for the capital that starts the next.
fn split_camel(text: &str) -> Vec<String> {
    let class = |c: char| match c {
        c if c.is_lowercase() => 1,
        c if c.is_uppercase() => 2,
        _ => 3,
    };
    let mut runs: Vec<Vec<char>> = Vec::new();
    for c in text.chars() {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| class(*last) == class(c)) => run.push(c),
            _ => runs.push(vec![c]),
        }
    }
    for at in 0..runs.len().saturating_sub(1) {
        let moves = class(runs[at][0]) == 2 && class(runs[at + 1][0]) == 1;
        if moves && let Some(capital) = runs[at].pop() {
            runs[at + 1].insert(0, capital);
        }
    }
    runs.into_iter().filter(|run| !run.is_empty()).map(|run| run.into_iter().collect()).collect()
}

fn event_line(event: &Object, now: jiff::Timestamp) -> String {
    let first = match event.str_at(&["eventTime"]) {
        "" => event.str_at(&["firstTimestamp"]),
        time => time,
    };
    let first = durations::since(first, now);
    let series = event.i64_at(&["series", "count"]);
    let age = match (series, event.i64_at(&["count"])) {
        (Some(count), _) => {
            format!("{} (x{count} over {first})", durations::since(event.str_at(&["series", "lastObservedTime"]), now))
        }
        (None, Some(count)) if count > 1 => {
            format!("{} (x{count} over {first})", durations::since(event.str_at(&["lastTimestamp"]), now))
        }
        _ => first,
    };
    let source = match event.str_at(&["source", "component"]) {
        "" => event.str_at(&["reportingComponent"]),
        component => component,
    };
    let message = event.str_at(&["message"]).trim().replace('\n', " ");
    let field = event.str_at(&["involvedObject", "fieldPath"]);
    let message = if field.is_empty() { message } else { format!("{field}: {message}") };
    format!("  {}\t{}\t{age}\t{source}\t{message}\n", event.str_at(&["type"]), event.str_at(&["reason"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_fields_are_printed_as_words() {
        let cases = [
            ("creationTimestamp", "Creation Timestamp"),
            ("apiVersion", "API Version"),
            ("uid", "UID"),
            ("apiEnablements", "API Enablements"),
            ("insecureSkipTLSVerification", "Insecure Skip Tls Verification"),
            ("proxyURL", "Proxy URL"),
            ("with.dot", "with.dot"),
            ("syncMode", "Sync Mode"),
            ("id", "Id"),
            ("v1", "v1"),
        ];
        for (field, expected) in cases {
            assert_eq!(label_of(field), expected);
        }
    }

    #[test]
    fn secrets_are_described_by_size() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "data": {"password": "aHVudGVyMg=="}});
        let text = describe_object(
            &Object::from_value(secret).unwrap(),
            &Related::default(),
            None,
            jiff::Timestamp::UNIX_EPOCH,
        );
        assert!(text.ends_with("\nType:  Opaque\n\nData\n====\npassword:  7 bytes\n"), "{text}");
        assert!(!text.contains("aHVu"), "{text}");
    }

    #[test]
    fn user_defined_keys_are_not_changed() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"someKey": "v"}});
        let text = describe_object(
            &Object::from_value(map).unwrap(),
            &Related::default(),
            Some(Vec::new()),
            jiff::Timestamp::UNIX_EPOCH,
        );
        assert!(
            text.ends_with("\n\nData\n====\nsomeKey:\n----\nv\n\n\nBinaryData\n====\n\nEvents:  <none>\n"),
            "{text}"
        );
        let pod = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "p"}, "spec": {"nodeSelector": {"diskType": "ssd"}}});
        let text =
            describe_object(&Object::from_value(pod).unwrap(), &Related::default(), None, jiff::Timestamp::UNIX_EPOCH);
        assert!(text.contains("  Node Selector:\n    diskType:  ssd\n"), "{text}");
    }

    #[test]
    fn an_object_is_described_with_its_events() {
        let object = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "m1", "annotations": {"a": "b"}, "managedFields": [{"x": 1}], "uid": "u"},
            "spec": {"syncMode": "Push", "zones": ["a", "b"], "taints": [{"key": "k", "effect": "NoExecute"}]},
        });
        let event = json!({
            "type": "Normal", "reason": "TaintClusterSucceed", "message": "done\n", "count": 3,
            "firstTimestamp": "2026-11-15T00:00:00Z", "lastTimestamp": "2026-11-15T00:09:00Z",
            "source": {"component": "cluster-controller"},
        });
        let now: jiff::Timestamp = "2026-11-15T00:10:00Z".parse().unwrap();
        let object = Object::from_value(object).unwrap();
        let text = describe_object(&object, &Related::default(), Some(vec![Object::from_value(event).unwrap()]), now);
        let expected = "\
Name:         m1
Namespace:    
Labels:       <none>
Annotations:  a: b
API Version:  cluster.karmada.io/v1alpha1
Kind:         Cluster
Metadata:
  UID:  u
Spec:
  Sync Mode:  Push
  Taints:
    Effect:  NoExecute
    Key:     k
  Zones:
    a
    b
Events:
  Type    Reason               Age                From                Message
  ----    ------               ----               ----                -------
  Normal  TaintClusterSucceed  60s (x3 over 10m)  cluster-controller  done
";
        assert_eq!(text, expected);
        assert!(describe_object(&object, &Related::default(), Some(Vec::new()), now).ends_with("Events:  <none>\n"));
    }
}
