//! Runs the cases next to the bundled rules, and Karmada's own rules and cases if they are on the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::config::DependentObjectReference;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use jiff::Timestamp;
use object::quantity::Quantity;
use serde::Deserialize;
use serde_json::Map;

use super::*;
use crate::check::{Inputs, Output, run_rules};
use crate::operation::{InterpretResult, Operation};

/// One case: the input of a rule and the expected result. Karmada's cases use other names for the same.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the file")]
    description: String,
    operation: String,
    #[serde(alias = "desiredObj")]
    desired: Option<Value>,
    #[serde(alias = "observedObj")]
    observed: Option<Value>,
    #[serde(default, alias = "statusItems")]
    items: Vec<AggregatedStatusItem>,
    #[serde(default, alias = "inputReplicas")]
    replicas: i64,
    #[serde(default)]
    output: Map<String, Value>,
}

impl Case {
    /// Aggregation only concerns the status; some of Karmada's scripts drop the spec, which has no effect.
    fn for_status_only(mut self) -> Self {
        if let Some(expected) = self.output.get_mut("aggregatedStatus") {
            *expected = serde_json::json!({"status": expected["status"]});
        }
        self
    }
}

fn read_cases(path: &Path) -> Vec<Case> {
    let text = joined(&std::fs::read_to_string(path).expect("readable"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Joins quoted texts that continue on the next line: Go accepts any indentation there, our parser does not.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.lines() {
        if is_open {
            out.push(' ');
            out.push_str(line.trim_start());
        } else {
            out.push('\n');
            out.push_str(line);
        }
        let starts_text = line.contains(": '");
        is_open = (is_open || starts_text) && (line.matches('\'').count() % 2 == 1) != is_open;
    }
    out
}

fn run_case(rules: &Customizations, case: &Case) -> InterpretResult<Vec<Output>> {
    let object = |value: &Option<Value>| value.clone().and_then(Object::from_value);
    let inputs = Inputs {
        desired: object(&case.desired),
        observed: object(&case.observed),
        items: case.items.clone(),
        replicas: case.replicas,
    };
    let operation = Operation::parse(&case.operation).expect("a known operation");
    run_rules(rules, operation, &inputs, Timestamp::UNIX_EPOCH)
}

/// Every difference between the results and the case.
fn differences(rules: &Customizations, case: &Case) -> Vec<String> {
    let outputs = match run_case(rules, case) {
        Ok(outputs) => outputs,
        Err(error) => return vec![error.0],
    };
    let mut found = Vec::new();
    for (name, expected) in &case.output {
        let Some(output) = outputs.iter().find(|output| output.name == name) else {
            found.push(format!("no result {name}"));
            continue;
        };
        let (mut expected, mut actual) = (comparable(name, expected), comparable(name, &output.value));
        if expected.as_object().is_some_and(|map| map.keys().eq(["status"])) {
            actual = serde_json::json!({"status": actual["status"]});
        }
        strip_excluded(&mut expected, &mut actual);
        if expected != actual {
            found.push(format!("{name}\n  expected {expected}\n  got      {actual}"));
        }
    }
    found
}

/// Sorts lists without an order, and normalizes quantities and numbers.
fn comparable(name: &str, value: &Value) -> Value {
    match name {
        "requires" => requirements(value),
        "components" => {
            let mut components: Vec<Component> = read(value);
            components.sort_by(|a, b| a.name.cmp(&b.name));
            let show = |component: &Component| {
                let requirements = serde_json::to_value(&component.replica_requirements).expect("encodes");
                serde_json::json!({"name": component.name, "replicas": component.replicas, "requires": self::requirements(&requirements)})
            };
            components.iter().map(show).collect()
        }
        "dependencies" => {
            let dependencies: Vec<DependentObjectReference> = read(value);
            serde_json::to_value(crate::dependency::merge(vec![dependencies])).expect("encodes")
        }
        _ => numbers(value),
    }
}

fn read<T: for<'de> Deserialize<'de> + Default>(value: &Value) -> T {
    if value.is_null() {
        T::default()
    } else {
        T::deserialize(value).unwrap_or_else(|error| panic!("{value}: {error}"))
    }
}

fn requirements(value: &Value) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    let mut requirements: ReplicaRequirements = read(value);
    for text in requirements.resource_request.values_mut() {
        let quantity = Quantity::parse(&text.0).expect("a quantity");
        // The same amount in the same notation.
        text.0 = Quantity::from_milli(quantity.milli_value(), object::quantity::QuantityFormat::DecimalSi).to_string();
    }
    serde_json::to_value(requirements).expect("encodes")
}

fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => (float as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(numbers).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), numbers(value))).collect()),
        other => other.clone(),
    }
}

/// Karmada's cases mark fields that change from run to run with a special value.
fn strip_excluded(expected: &mut Value, actual: &mut Value) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let excluded: Vec<String> =
                expected.iter().filter(|(_, value)| *value == "{{EXCLUDE}}").map(|(key, _)| key.clone()).collect();
            for key in excluded {
                expected.remove(&key);
                actual.remove(&key);
            }
            for (key, value) in expected {
                if let Some(other) = actual.get_mut(key) {
                    strip_excluded(value, other);
                }
            }
        }
        (Value::Array(expected), Value::Array(actual)) => {
            expected.iter_mut().zip(actual).for_each(|(expected, actual)| strip_excluded(expected, actual));
        }
        _ => {}
    }
}

/// Writes the results of the rules into the cases, for review.
fn update(rules: &Customizations, path: &Path) {
    let text = std::fs::read_to_string(path).expect("readable");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let mut texts = Vec::new();
    for document in &documents {
        let case = Case::deserialize(document).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let outputs =
            run_case(rules, &case).unwrap_or_else(|error| panic!("{} {}: {error}", path.display(), case.name));
        let mut text = String::new();
        for key in ["name", "operation", "desired", "observed", "replicas"] {
            if let Some(value) = document.get(key) {
                text.push_str(&format!("{key}: {value}\n"));
            }
        }
        for (index, item) in document["items"].as_array().into_iter().flatten().enumerate() {
            text.push_str(&format!("{}- {item}\n", if index == 0 { "items:\n" } else { "" }));
        }
        text.push_str("output:\n");
        for output in outputs {
            let value = match output.name {
                "aggregatedStatus" => serde_json::json!({"status": output.value["status"]}),
                _ => output.value,
            };
            text.push_str(&format!("  {}: {value}\n", output.name));
        }
        texts.push(text);
    }
    std::fs::write(path, texts.join("---\n")).expect("writable");
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("thirdparty")
}

/// All files of a name below a folder.
fn files(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(files(&path, is_wanted));
        } else if is_wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn named(name: &'static str) -> impl Fn(&Path) -> bool {
    move |path| path.file_name().is_some_and(|found| found == name)
}

#[test]
fn every_file_is_bundled_and_is_for_the_kind_of_its_folder() {
    let on_disk: BTreeSet<String> = files(&here(), &named("customization.yaml"))
        .iter()
        .map(|path| path.parent().expect("in a folder").strip_prefix(here()).expect("below").display().to_string())
        .collect();
    let bundled: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(on_disk, bundled);
    for (path, text) in FILES {
        let object = super::read(text).unwrap_or_else(|| panic!("{path} is no object"));
        let target = format!(
            "{}/{}",
            object.str_at(&["spec", "target", "apiVersion"]),
            object.str_at(&["spec", "target", "kind"])
        );
        assert_eq!(&target, path);
        for (operation, result) in crate::check::rules(&object).expect("readable") {
            assert!(!matches!(result, Some(Err(_))), "{path} {operation:?}: {result:?}");
        }
    }
}

#[test]
fn the_cases_next_to_the_rules_pass() {
    let rules = customizations(pod::PodOptions::default(), ScriptEnvironment::for_tests());
    let mut complaints = Vec::new();
    let mut tried = BTreeSet::new();
    for path in files(&here(), &named("cases.yaml")) {
        let kind = path.parent().expect("in a folder").strip_prefix(here()).expect("below").display().to_string();
        if std::env::var_os("UPDATE").is_some() {
            update(&rules, &path);
        }
        for case in read_cases(&path) {
            assert!(!case.output.is_empty(), "{kind} {}: a case without an expectation", case.name);
            let found = differences(&rules, &case);
            complaints.extend(found.iter().map(|why| format!("{kind} {} ({}): {why}", case.operation, case.name)));
            tried.insert((kind.clone(), Operation::parse(&case.operation).expect("a known operation")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    for (path, text) in FILES {
        let object = super::read(text).expect("an object");
        for (operation, result) in crate::check::rules(&object).expect("readable") {
            let has_case = tried.contains(&((*path).to_owned(), operation));
            assert_eq!(result.is_some(), has_case, "{path} {operation:?}: a rule needs a case");
        }
    }
}

/// The path of the Go module that our rules are compared with.
fn karmada_customizations() -> Option<PathBuf> {
    let modules = std::env::var_os("GOMODCACHE")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("GOPATH").map(|path| PathBuf::from(path).join("pkg/mod")))
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/pkg/mod")))?;
    let folder = modules.join(
        "github.com/karmada-io/karmada@v1.18.2/pkg/resourceinterpreter/default/thirdparty/resourcecustomizations",
    );
    folder.is_dir().then_some(folder)
}

/// Karmada's own rules for a kind.
fn karmada_rules(path: &Path) -> Customizations {
    let text = std::fs::read_to_string(path).expect("readable");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let objects: Vec<Object> = documents.into_iter().filter_map(Object::from_value).collect();
    Customizations::new(
        objects.iter(),
        pod::PodOptions::default(),
        &[],
        ScriptEnvironment::for_tests(),
        &mut Vec::new(),
    )
}

/// The origin of rules or cases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Karmada,
    Ours,
}

/// Runs the cases of one side against the rules of another. Exceptions name a case and the reason for the difference;
/// an exception without a difference is an error.
fn check_against_karmada(rules_of: Side, cases_of: Side, exceptions: &[(&str, &str)]) {
    let Some(folder) = karmada_customizations() else {
        test_skip::skip("the Go module github.com/karmada-io/karmada v1.18.2 is not downloaded");
        return;
    };
    let ours = customizations(pod::PodOptions::default(), ScriptEnvironment::for_tests());
    let mut complaints = Vec::new();
    let mut count = 0;
    for path in files(&folder, &named("customizations.yaml")) {
        let theirs = karmada_rules(&path);
        let rules = if rules_of == Side::Ours { &ours } else { &theirs };
        let kind = path.parent().expect("in a folder").strip_prefix(&folder).expect("below");
        let place = if cases_of == Side::Ours { here().join(kind) } else { path.with_file_name("testdata") };
        let is_case = |path: &Path| path.extension().is_some_and(|extension| extension == "yaml");
        let is_rule = |path: &Path| path.ends_with("customization.yaml");
        for case in files(&place, &|path| is_case(path) && !is_rule(path)).iter().flat_map(|file| read_cases(file)) {
            count += 1;
            let case = if rules_of == Side::Ours { case.for_status_only() } else { case };
            let found = differences(rules, &case);
            let shown = format!("{} {}: {}", kind.display(), case.operation, case.name);
            match exceptions.iter().find(|(name, _)| shown.ends_with(name)) {
                Some(_) if found.is_empty() => complaints.push(format!("{shown}: no exception any more")),
                Some((_, why)) => println!("{shown} differs: {why}"),
                None => complaints.extend(found.iter().map(|why| format!("{shown}: {why}"))),
            }
        }
    }
    println!("{count} cases, {} complaints", complaints.len());
    assert!(count > 100, "only {count} cases were found");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

const NO_EMPTY_LIST: (&str, &str) = (
    "AdvancedCronJob with empty statusItems list",
    "bindings without members have no list, so no script sees an empty one",
);
const NO_ORDER: &str = "pairs() is in insertion order in Karmada's Lua and unordered in ours";
const LOST_GENERATION: &str = "Karmada's script looks for the observed generation where it never is";

#[test]
fn karmadas_own_scripts_give_karmadas_results_in_our_machine() {
    let exceptions = [NO_EMPTY_LIST, ("MPIJob with failed cluster", NO_ORDER)];
    check_against_karmada(Side::Karmada, Side::Karmada, &exceptions);
}

#[test]
fn our_rules_give_karmadas_results() {
    let exceptions = [
        NO_EMPTY_LIST,
        ("HelmChart: interpret status test", LOST_GENERATION),
        ("HelmChart without resourceTemplateGeneration annotation", LOST_GENERATION),
    ];
    check_against_karmada(Side::Ours, Side::Karmada, &exceptions);
}

#[test]
fn karmadas_scripts_agree_with_our_cases() {
    let fails = "Karmada's script fails on a field that may be missing";
    let carried = "Karmada's script takes the end of one member for the end of the next";
    let never_counted = "Karmada counts failures only on top of those it counted before, so it never begins";
    let exceptions = [
        ("BroadcastJob Retain: labels that the member gave its pods", fails),
        ("BroadcastJob AggregateStatus: still running", carried),
        ("OCIRepository InterpretDependency: nothing is named", fails),
        ("UnitedDeployment AggregateStatus: of each type the last condition", NO_ORDER),
        ("volcano.sh/v1alpha1/Job AggregateStatus: running in two members", NO_ORDER),
        ("MPIJob AggregateStatus: failed in one", NO_ORDER),
        ("HelmRelease AggregateStatus: the same news become one condition", never_counted),
        ("HelmRelease AggregateStatus: a member without a status keeps the generation back", never_counted),
        ("HelmChart InterpretStatus: what is worth reporting", LOST_GENERATION),
        (
            "Workflow InterpretDependency: volumes, accounts and claims",
            "Karmada's script reads the name of a secret volume from a field that does not exist",
        ),
    ];
    check_against_karmada(Side::Karmada, Side::Ours, &exceptions);
}
