//! Readers of texts: selectors, paths, templates, expressions, scripts, configuration files.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use apiserver::audit::Policy;
use apiserver::request::{Deletion, ListSelection, RequestInfo, patch_kind, write_options};
use cluster_client::Kubeconfig;
use encryption::config::EncryptionConfiguration;
use interpreter::check::{Inputs, ORDER, run_all};
use interpreter::{Operation, ScriptEnvironment};
use karmadactl::go_template::GoTemplate;
use object::jsonpath::{JsonPath, Template};
use object::quantity::Quantity;
use object::query::Query;
use object::selector::{FieldSelector, LabelSelector};
use object::{Object, depth};
use serde_json::{Value, json};

/// A path and a template over it print at most this much for a small document.
const PRINTED_BYTES_MAX: usize = 64 << 20;

/// An object with every shape of value.
fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(
        || json!({"a": [1, 2.5, "x", null, {"b": [true, {}]}], "b": {"c": true, "d.e": "f"}, "n": -1, "items": [{"k": "v"}, {"k": 2}]}),
    );
    &DOCUMENT
}

pub fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(selector) = LabelSelector::parse(&text) {
        let _ = selector.matches_with(|key| (key.len() % 2 == 0).then_some("v"));
    }
    if let Ok(selector) = FieldSelector::parse(&text) {
        let _ = selector.matches_with(|_| "v");
    }
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        let _ = LabelSelector::from_value(Some(&value));
    }
}

pub fn quantity(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(read) = Quantity::parse(&text) else { return };
    let written = read.to_string();
    let again =
        Quantity::parse(&written).unwrap_or_else(|error| panic!("{text:?} was formatted as {written:?}: {error}"));
    assert_eq!(written, again.to_string(), "{text:?}");
    let _ = (read.value(), read.milli_value());
    for computed in [read.plus(&again), read.minus(&again), read.negated(), read.times(i64::MAX)] {
        let written = computed.to_string();
        assert!(Quantity::parse(&written).is_ok(), "{text:?} led to {written:?}, which cannot be parsed");
    }
}

pub fn jsonpath(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let document = document();
    for path in [JsonPath::parse(&text), JsonPath::parse_relaxed(&text)].into_iter().flatten() {
        let _ = path.find(document);
    }
    if let Ok(template) = Template::parse(&text) {
        for printed in [template.render(document), template.render_strict(document)].into_iter().flatten() {
            assert!(printed.len() < PRINTED_BYTES_MAX, "{} bytes were printed", printed.len());
        }
    }
}

pub fn go_template(data: &[u8]) {
    let Ok(template) = GoTemplate::parse(&String::from_utf8_lossy(data)) else { return };
    let _ = template.render(document());
}

pub fn cel(data: &[u8]) {
    static ENV: LazyLock<cel::Env> = LazyLock::new(|| cel::Env::builder().variable("self", cel::Type::Dyn).build());
    static HELD: LazyLock<Value> = LazyLock::new(|| json!({"a": [1, 2.5, "x", null], "b": {"c": true}, "n": -1}));
    let text = String::from_utf8_lossy(data);
    let Ok(program) = ENV.compile(&text) else { return };
    let variables = cel::Activation::new().with("self", cel::Value::from_json(&HELD));
    let mut budget = cel::Budget::new(100_000).per_call_limit(100_000);
    let _ = program.eval(&variables, &mut budget);
}

/// A script of a customization: it ends within its limits, and what it returns is within the depth limit.
pub fn lua(data: &[u8]) {
    let script = String::from_utf8_lossy(data);
    let operation = ORDER[data.len() % ORDER.len()];
    let customization = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": "c"},
        "spec": {"target": {"apiVersion": "example.com/v1", "kind": "Thing"}, "customizations": rule(operation, &script)},
    });
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": document(), "status": {"a": 1}});
    let (Some(customization), Some(thing)) = (Object::from_value(customization), Object::from_value(thing)) else {
        return;
    };
    let inputs = Inputs { desired: Some(thing.clone()), observed: Some(thing), items: Vec::new(), replicas: 2 };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let outputs = run_all(&[Arc::new(customization)], operation, &inputs, now, script_environment());
    for output in outputs.into_iter().flatten() {
        assert!(depth::of(&output.value) <= depth::DEPTH_MAX, "a script returned a value that is too deep");
    }
}

fn script_environment() -> ScriptEnvironment {
    let started = Instant::now();
    // A script that does not end costs a fraction of the usual limit.
    let stopwatch = Arc::new(move || started.elapsed() * 20);
    ScriptEnvironment { zone: jiff::tz::TimeZone::UTC, stopwatch, print: Arc::new(|_| {}) }
}

fn rule(operation: Operation, script: &str) -> Value {
    let field = match operation {
        Operation::Retain => "retention",
        Operation::InterpretReplica => "replicaResource",
        Operation::InterpretComponent => "componentResource",
        Operation::ReviseReplica => "replicaRevision",
        Operation::InterpretStatus => "statusReflection",
        Operation::AggregateStatus => "statusAggregation",
        Operation::InterpretHealth => "healthInterpretation",
        Operation::InterpretDependency => "dependencyInterpretation",
    };
    json!({field: {"luaScript": script}})
}

/// A request line: the path and the query with all options.
pub fn http_path(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, query) = text.split_once('?').unwrap_or((&text, ""));
    for method in [http::Method::GET, http::Method::POST, http::Method::PUT, http::Method::PATCH, http::Method::DELETE]
    {
        let info = RequestInfo::parse(&method, path, query);
        let _ = (info.is_read_only(), info.is_long_running());
    }
    let query = Query::parse(query);
    let _ = ListSelection::parse(&query);
    let _ = write_options(&query, "Thing");
    let _ = Deletion::parse(&query, serde_json::from_slice(data).ok());
    let _ = patch_kind(Some(path), &query);
}

pub fn kubeconfig(data: &[u8]) {
    let Ok(config) = Kubeconfig::parse(&String::from_utf8_lossy(data), Path::new("/nonexistent")) else { return };
    let contexts: Vec<Option<String>> = config.contexts().map(|name| Some(name.to_owned())).chain([None]).collect();
    for context in contexts {
        let context = context.as_deref();
        let _ = (config.namespace(context), config.cluster_name(context), config.proxy_url(context));
        let _ = config.remote(context);
    }
}

/// Configuration files that an operator may have received from elsewhere: audit policy, encryption, schedules.
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = Policy::parse(&text);
    if let Ok(config) = EncryptionConfiguration::parse(&text) {
        let _ = config.to_yaml();
    }
    if let Ok(schedule) = cron::Schedule::parse(&text, Some("UTC")) {
        let _ = schedule.next_after(jiff::Timestamp::UNIX_EPOCH);
    }
}
