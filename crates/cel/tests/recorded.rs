//! Expressions with the results of kube-apiserver 1.36.4's libraries: errors, types, values and exact costs.
//!
//! `testdata/expressions.jsonl` has one case per line. `data` names a file in `testdata/data` that holds the value
//! of `self` and, if it is typed, its schema. `compile` is the compile error, `err` the run-time error.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use cel::{Activation, Budget, Env, Schema, Type, Value, type_of_schema};
use data_encoding::HEXLOWER;
use serde_json::Value as Json;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

struct Data {
    object: Json,
    schema: Option<Schema>,
    env: Env,
}

fn read_data(name: &str) -> Data {
    let file = fs::read_to_string(testdata().join("data").join(name)).expect("the data file is there");
    let file: Json = serde_json::from_str(&file).expect("the data file is JSON");
    let schema = file.get("schema").map(|schema| Schema::from_json(schema).complete_embedded());
    let env = match &schema {
        None => Env::builder().variable("self", Type::Dyn).build(),
        Some(schema) => {
            let decl = type_of_schema(schema, "selfType1").expect("the schema has a type");
            Env::builder().variable("self", decl.ty.clone()).size_root(decl).build()
        }
    };
    Data { object: file["self"].clone(), schema, env }
}

/// Our result for an expression, in the format of the recording.
fn outcome(data: &Data, expression: &str) -> Vec<(&'static str, String)> {
    let program = match data.env.compile(expression) {
        Err(error) if error.is_program_failure() => return vec![("program", "failed".to_owned())],
        Err(error) => return vec![("compile", error.to_string())],
        Ok(program) => program,
    };
    let object = match &data.schema {
        Some(schema) => Value::from_json_with_schema(&data.object, schema).expect("the object fits its schema"),
        None => Value::from_json(&data.object),
    };
    let mut budget = Budget::for_validation();
    let result = program.eval(&Activation::new().with("self", object), &mut budget);
    let cost = program.static_cost();
    let mut seen = vec![
        ("type", program.result_type().to_string()),
        ("min", cost.min.to_string()),
        ("max", cost.max.to_string()),
        ("cost", budget.last_cost().to_string()),
    ];
    seen.push(match result {
        Ok(value) => ("val", show(&value)),
        Err(error) => ("err", error.to_string()),
    });
    seen
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) => format!("d{value}").replace("inf", "+Inf"),
        Value::String(text) => go_quoted(text),
        Value::Bytes(bytes) => format!("b{}", HEXLOWER.encode(bytes)),
        Value::Timestamp(time) => format!("timestamp({time})"),
        Value::Duration(duration) => format!("duration({})", duration.0),
        Value::Type(_) => "type".to_owned(),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", show(value)),
        Value::List(list) => {
            let items: Vec<String> = list.items().expect("items are readable").iter().map(show).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries = map.entries().expect("entries are readable");
            let mut entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Opaque(_) => value.type_of().to_string(),
    }
}

/// Like Go's `%q` for the characters the cases contain.
fn go_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// The recording, reduced to comparable parts.
fn expected(case: &Json, key: &str) -> String {
    let recorded = match &case[key] {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    match key {
        "program" => "failed".to_owned(),
        "val" if recorded.starts_with("type(") => "type".to_owned(),
        "val" if recorded.starts_with('d') && recorded.parse::<f64>().is_err() => match recorded[1..].parse::<f64>() {
            Ok(number) => show(&Value::Double(number)),
            Err(_) => recorded,
        },
        "val" if recorded.ends_with('>') => recorded.split('<').next().unwrap_or_default().to_owned(),
        _ => recorded,
    }
}

fn check(data: &Data, case: &Json) -> Result<(), String> {
    let expression = case["expr"].as_str().expect("a case has an expression");
    let seen = outcome(data, expression);
    let keys = ["compile", "program", "type", "min", "max", "cost", "val", "err"];
    // A program that cannot be built has a type and an estimate upstream, but they are not visible.
    let is_shown = |key: &str| case.get(key).is_some() && (key == "program" || case.get("program").is_none());
    for key in keys.iter().filter(|key| is_shown(key)) {
        let wanted = expected(case, key);
        let found = seen.iter().find(|(name, _)| name == key).map(|(_, found)| found.clone());
        if found.as_deref() != Some(wanted.as_str()) {
            return Err(format!("{expression}\n  {key} wanted {wanted}\n  {key} found  {found:?}\n  all {seen:?}"));
        }
    }
    Ok(())
}

#[test]
fn results_match_the_recording() {
    // Another recording can be compared without making it part of the tests.
    let file = std::env::var("CEL_CASES").map_or_else(|_| testdata().join("expressions.jsonl"), PathBuf::from);
    let cases = fs::read_to_string(file).expect("the cases are there");
    let mut data: HashMap<String, Data> = HashMap::new();
    let mut failures = Vec::new();
    for line in cases.lines() {
        let case: Json = serde_json::from_str(line).expect("a case is JSON");
        let name = case["data"].as_str().expect("a case names its data").to_owned();
        let data = data.entry(name.clone()).or_insert_with(|| read_data(&name));
        if let Err(failure) = check(data, &case) {
            failures.push(failure);
        }
    }
    assert!(cases.lines().count() > 900);
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}
