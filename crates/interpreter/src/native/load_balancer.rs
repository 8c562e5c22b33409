//! Merges the addresses of all members: deduplicated, ports merged, in a stable order.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::read::{int, list, text};
use crate::operation::InterpretResult;

/// An empty name sorts after every other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    no_hostname: bool,
    hostname: String,
    ip: String,
    no_mode: bool,
    mode: String,
}

type Port = (i64, String, Option<String>);

/// The `status` with the addresses of all given statuses.
pub fn merge<'a>(statuses: impl Iterator<Item = &'a Value>) -> InterpretResult<Value> {
    let mut merged: BTreeMap<Key, (&Value, BTreeMap<Port, &Value>)> = BTreeMap::new();
    for status in statuses {
        for ingress in list(&status["loadBalancer"], "ingress")? {
            let (hostname, mode) = (text(ingress, "hostname")?.to_owned(), text(ingress, "ipMode")?.to_owned());
            let ip = text(ingress, "ip")?.to_owned();
            let key = Key { no_hostname: hostname.is_empty(), hostname, ip, no_mode: mode.is_empty(), mode };
            let entry = merged.entry(key).or_insert((ingress, BTreeMap::new()));
            entry.0 = ingress;
            for port in list(ingress, "ports")? {
                let error = text(port, "error")?;
                let error = (!error.is_empty()).then(|| error.to_owned());
                entry.1.insert((int(port, "port")?, text(port, "protocol")?.to_owned(), error), port);
            }
        }
    }
    let entries: Vec<Value> = merged.into_values().map(|(ingress, ports)| entry(ingress, ports)).collect();
    let mut load_balancer = Map::new();
    if !entries.is_empty() {
        load_balancer.insert("ingress".to_owned(), entries.into());
    }
    Ok(Value::Object([("loadBalancer".to_owned(), Value::Object(load_balancer))].into_iter().collect()))
}

fn entry(ingress: &Value, ports: BTreeMap<Port, &Value>) -> Value {
    let mut entry = ingress.as_object().cloned().unwrap_or_default();
    entry.remove("ports");
    if !ports.is_empty() {
        entry.insert("ports".to_owned(), ports.into_values().cloned().collect());
    }
    Value::Object(entry)
}
