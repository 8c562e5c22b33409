//! Resolves the environment variables of a container.

use std::collections::BTreeMap;

use object::Object;
use serde_json::Value;

use crate::fields::{DownwardFacts, field, resource};
use crate::pod::{flag, list, number, text};
use crate::references::References;

/// Variables in the order they were set; a later one replaces an earlier one of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Variables {
    fn set(&mut self, name: &str, value: String) {
        if self.values.insert(name.to_owned(), value).is_none() {
            self.order.push(name.to_owned());
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.get(name)?)))
    }
}

/// The API address for pods; `None` for the Service `kubernetes`.
pub(crate) type ApiAddress = Option<(String, u16)>;

/// Returns all variables of a container, or the error message for users.
pub(crate) fn variables(
    pod: &Object,
    container: &Value,
    references: &References,
    facts: &DownwardFacts,
    api_address: &ApiAddress,
) -> Result<Variables, String> {
    let mut variables = Variables::default();
    service_variables(pod, references, api_address, &mut variables);
    for source in list(container, "envFrom") {
        take_all(source, references, &mut variables)?;
    }
    for entry in list(container, "env") {
        let value = match entry.get("valueFrom") {
            Some(source) => match sourced(pod, container, source, references, facts)? {
                Some(value) => value,
                None => continue,
            },
            None => expand(text(entry, "value"), |name| variables.get(name)),
        };
        variables.set(text(entry, "name"), value);
    }
    Ok(variables)
}

fn take_all(source: &Value, references: &References, variables: &mut Variables) -> Result<(), String> {
    let prefix = text(source, "prefix");
    let (kind, reference, entries) = match (source.get("configMapRef"), source.get("secretRef")) {
        (Some(reference), _) => ("configmap", reference, references.config_map(text(reference, "name"))),
        (None, Some(reference)) => ("secret", reference, references.secret(text(reference, "name"))),
        (None, None) => return Ok(()),
    };
    let Some(entries) = entries else {
        let name = text(reference, "name");
        return if flag(reference, "optional") { Ok(()) } else { Err(format!("{kind} {name:?} not found")) };
    };
    for (key, value) in entries {
        variables.set(&format!("{prefix}{key}"), String::from_utf8_lossy(&value).into_owned());
    }
    Ok(())
}

/// `None` if an optional source is missing.
fn sourced(
    pod: &Object,
    container: &Value,
    source: &Value,
    references: &References,
    facts: &DownwardFacts,
) -> Result<Option<String>, String> {
    if let Some(reference) = source.get("fieldRef") {
        return field(pod, facts, text(reference, "fieldPath")).map(Some);
    }
    if let Some(reference) = source.get("resourceFieldRef") {
        return resource(pod, facts, reference, text(container, "name")).map(Some);
    }
    let (kind, reference, entries) = match (source.get("configMapKeyRef"), source.get("secretKeyRef")) {
        (Some(reference), _) => ("configmap", reference, references.config_map(text(reference, "name"))),
        (None, Some(reference)) => ("secret", reference, references.secret(text(reference, "name"))),
        (None, None) => return Err("unsupported environment variable source".to_owned()),
    };
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    let value = match &entries {
        None => Err(format!("{kind} {name:?} not found")),
        Some(entries) => {
            let in_object = if kind == "secret" { "Secret" } else { "ConfigMap" };
            let missing = || format!("couldn't find key {key} in {in_object} {}/{name}", pod.namespace());
            entries.get(key).ok_or_else(missing)
        }
    };
    match value {
        Ok(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        Err(_) if flag(reference, "optional") => Ok(None),
        Err(why) => Err(why),
    }
}

/// The service environment variables, as used before cluster DNS.
fn service_variables(pod: &Object, references: &References, api_address: &ApiAddress, variables: &mut Variables) {
    let links = pod.bool_at(&["spec", "enableServiceLinks"]).unwrap_or(true);
    for service in &references.services {
        let is_api = service.namespace() == "default" && service.name() == "kubernetes";
        let address = service.str_at(&["spec", "clusterIP"]);
        let in_scope = is_api || (links && service.namespace() == pod.namespace());
        if !in_scope || address.is_empty() || address == "None" {
            continue;
        }
        let ports = service.items(&["spec", "ports"]);
        let Some(first) = ports.first().and_then(|p| number(p, "port")) else { continue };
        let name = variable_name(service.name());
        variables.set(&format!("{name}_SERVICE_HOST"), address.to_owned());
        variables.set(&format!("{name}_SERVICE_PORT"), first.to_string());
        for port in ports.iter().filter(|port| !text(port, "name").is_empty()) {
            let named = format!("{name}_SERVICE_PORT_{}", variable_name(text(port, "name")));
            variables.set(&named, number(port, "port").unwrap_or_default().to_string());
        }
        link_variables(&name, address, ports, variables);
    }
    if let Some((host, port)) = api_address {
        variables.set("KUBERNETES_SERVICE_HOST", host.clone());
        variables.set("KUBERNETES_SERVICE_PORT", port.to_string());
        variables.set("KUBERNETES_SERVICE_PORT_HTTPS", port.to_string());
    }
}

fn link_variables(name: &str, address: &str, ports: &[Value], variables: &mut Variables) {
    for (index, port) in ports.iter().enumerate() {
        let protocol = Some(text(port, "protocol")).filter(|p| !p.is_empty()).unwrap_or("TCP");
        let (lower, number) = (protocol.to_lowercase(), number(port, "port").unwrap_or_default());
        let url = format!("{lower}://{address}:{number}");
        if index == 0 {
            variables.set(&format!("{name}_PORT"), url.clone());
        }
        let prefix = format!("{name}_PORT_{number}_{}", protocol.to_uppercase());
        variables.set(&prefix, url);
        variables.set(&format!("{prefix}_PROTO"), lower);
        variables.set(&format!("{prefix}_PORT"), number.to_string());
        variables.set(&format!("{prefix}_ADDR"), address.to_owned());
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

/// Expands `$(NAME)`. `$$` is a literal dollar; unset names are left as they are.
pub(crate) fn expand<'a>(input: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut output = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        output.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let named = after.strip_prefix('(').and_then(|inner| Some((inner, inner.find(')')?)));
        rest = match (after.strip_prefix('$'), named) {
            (Some(after), _) => {
                output.push('$');
                after
            }
            (None, Some((inner, end))) => {
                let name = &inner[..end];
                match value_of(name) {
                    Some(value) => output.push_str(value),
                    None => output.push_str(&format!("$({name})")),
                }
                &inner[end + 1..]
            }
            (None, None) => {
                output.push('$');
                after
            }
        };
    }
    output.push_str(rest);
    output
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::pod::pod_of;

    fn references() -> References {
        let mut references = References::default()
            .with_config_map(json!({"metadata": {"name": "settings"}, "data": {"mode": "fast", "level": "3"}}))
            .with_secret(json!({"metadata": {"name": "keys"}, "data": {"token": "czNjcmV0"}}));
        let service = json!({"metadata": {"namespace": "default", "name": "my-db"},
            "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 5432, "name": "sql"}]}});
        references.services = vec![Arc::new(Object::from_value(service).expect("a map"))];
        references
    }

    fn made(container: Value) -> Result<Variables, String> {
        let pod = pod_of(json!({"containers": [container.clone()]}));
        variables(&pod, &container, &references(), &DownwardFacts::default(), &None)
    }

    #[track_caller]
    fn check(container: Value, name: &str, expected: Option<&str>) {
        let variables = made(container).expect("valid variables");
        assert_eq!(variables.get(name), expected, "{name}");
    }

    #[test]
    fn variables_come_from_all_sources() {
        check(json!({"env": [{"name": "A", "value": "x"}]}), "A", Some("x"));
        let key = |kind: &str, name: &str, key: &str| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": key}}}]});
        check(key("configMapKeyRef", "settings", "mode"), "A", Some("fast"));
        check(key("secretKeyRef", "keys", "token"), "A", Some("s3cret"));
        check(json!({"envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}}]}), "S_level", Some("3"));
        check(
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            "A",
            Some("web"),
        );
        check(json!({}), "MY_DB_SERVICE_HOST", Some("10.96.0.9"));
        check(json!({}), "MY_DB_PORT_5432_TCP", Some("tcp://10.96.0.9:5432"));
    }

    #[test]
    fn missing_required_sources_are_named() {
        let key = |optional: bool| {
            json!({"env": [{"name": "A", "valueFrom":
            {"secretKeyRef": {"name": "keys", "key": "other", "optional": optional}}}]})
        };
        assert_eq!(made(key(false)), Err("couldn't find key other in Secret default/keys".to_owned()));
        check(key(true), "A", None);
        let all = json!({"envFrom": [{"configMapRef": {"name": "none"}}]});
        assert_eq!(made(all), Err("configmap \"none\" not found".to_owned()));
    }

    #[test]
    fn a_variable_may_reference_earlier_ones() {
        let env = json!({"env": [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)-$(C)-$$(A)"}]});
        check(env, "B", Some("x-$(C)-$(A)"));
    }

    #[track_caller]
    fn check_expanded(input: &str, expected: &str) {
        assert_eq!(expand(input, |name| (name == "A").then_some("1")), expected);
    }

    #[test]
    fn references_are_expanded_and_other_text_is_kept() {
        check_expanded("$(A)", "1");
        check_expanded("a$b", "a$b");
        check_expanded("$(A", "$(A");
        check_expanded("$$$(A)$", "$1$");
        check_expanded("é$(B)é", "é$(B)é");
    }
}
