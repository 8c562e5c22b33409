//! The place of an instance in an external etcd. Two control planes in one place would be one.

use std::collections::BTreeSet;
use std::sync::Arc;

use manager_kinds::{annotations, spec};
use object::{FieldError, FieldPath, Object};

/// The servers of an etcd and the prefix of all keys in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdLocation {
    /// `host:port`, in lower case.
    servers: BTreeSet<String>,
    prefix: String,
}

/// The instances that one is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    All,
    /// Those that were created before it.
    Older,
}

impl EtcdLocation {
    pub fn new(endpoints: &[String], prefix: &str) -> Self {
        let servers = endpoints.iter().map(|endpoint| server_of(endpoint)).collect();
        Self { servers, prefix: prefix.trim_end_matches('/').to_owned() }
    }

    /// Returns the place that an instance asks for, `None` when it has none in an etcd.
    pub fn of(instance: &Object) -> Option<Self> {
        let mode = annotations::read(instance).0.mode;
        let etcd = spec::read(instance, mode).plane.etcd?;
        if etcd.prefix.is_none() && instance.uid().is_empty() {
            // Not stored yet: its UID will be in no other prefix.
            return None;
        }
        Some(Self::new(&etcd.endpoints, &prefix(etcd.prefix.as_deref(), instance.uid())))
    }

    /// Returns true if keys of one could be keys of the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_nested = within(&self.prefix, &other.prefix) || within(&other.prefix, &self.prefix);
        is_nested && !self.servers.is_disjoint(&other.servers)
    }
}

/// Returns the prefix of the keys of an instance.
pub fn prefix(given: Option<&str>, uid: &str) -> String {
    given.map_or_else(|| format!("/flotilla/{uid}"), str::to_owned)
}

/// Returns the `host:port` of an endpoint: scheme, case and a trailing slash do not make another server.
fn server_of(endpoint: &str) -> String {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default().to_ascii_lowercase();
    match authority.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => authority,
        _ => format!("{}:2379", authority.trim_end_matches(':')),
    }
}

/// Returns the field by which an instance asks for a place in an etcd that another one has.
pub fn conflict(instance: &Object, others: &[Arc<Object>], compared: Compared) -> Option<FieldError> {
    let own = EtcdLocation::of(instance)?;
    let age = |object: &Object| (object.str_at(&["metadata", "creationTimestamp"]).to_owned(), object.uid().to_owned());
    let is_compared = |other: &Object| {
        let is_same = (other.namespace(), other.name()) == (instance.namespace(), instance.name());
        !is_same && (compared == Compared::All || age(other) < age(instance))
    };
    let other = others
        .iter()
        .filter(|other| is_compared(other))
        .find(|other| EtcdLocation::of(other).is_some_and(|taken| taken.overlaps(&own)))?;
    let why = format!(
        "the instance {}/{} has its data there; one prefix must not contain another in the same etcd",
        other.namespace(),
        other.name()
    );
    Some(refusal(instance, &own, why))
}

/// Refuses the place of an instance, at the field that chose it.
pub fn refusal(instance: &Object, own: &EtcdLocation, why: impl Into<String>) -> FieldError {
    let components = FieldPath::new("spec").child("components");
    let given = instance.str_at(&["spec", "components", "karmadaAPIServer", "extraArgs", "etcd-prefix"]);
    let field = match given.is_empty() {
        true => components.child("etcd").child("external").child("endpoints"),
        false => components.child("karmadaAPIServer").child("extraArgs").key("etcd-prefix"),
    };
    FieldError::invalid(field, own.prefix.as_str(), why.into())
}

#[cfg(test)]
mod tests {
    use manager_kinds::KARMADAS;
    use serde_json::json;

    use super::*;

    fn instance(name: &str, uid: &str, endpoint: &str, prefix: &str) -> Arc<Object> {
        let mut object = KARMADAS.object("karmada-system", name);
        object.set(&["metadata", "uid"], uid);
        object.set(&["metadata", "creationTimestamp"], format!("2026-01-01T00:00:0{uid}Z"));
        let mut components = json!({"etcd": {"external": {"endpoints": [endpoint]}}});
        if !prefix.is_empty() {
            components["karmadaAPIServer"] = json!({"extraArgs": {"etcd-prefix": prefix}});
        }
        object.set(&["spec"], json!({"components": components}));
        Arc::new(object)
    }

    #[track_caller]
    fn check(first: (&str, &str), second: (&str, &str), expected: Option<&str>) {
        let (a, b) = (instance("a", "1", first.0, first.1), instance("b", "2", second.0, second.1));
        let both = [Arc::clone(&a), Arc::clone(&b)];
        let found = conflict(&b, &both, Compared::All).map(|error| error.to_string());
        match (&found, expected) {
            (None, None) => {}
            (Some(text), Some(field)) => assert!(text.contains(field) && text.contains("karmada-system/a"), "{text}"),
            _ => panic!("{found:?} for {first:?} and {second:?}"),
        }
        assert_eq!(conflict(&b, &both, Compared::Older).is_some(), expected.is_some());
        assert!(conflict(&a, &both, Compared::Older).is_none(), "the first one keeps its place");
    }

    #[test]
    fn no_two_instances_share_a_place_in_an_etcd() {
        const FIELD: Option<&str> = Some("spec.components.karmadaAPIServer.extraArgs[etcd-prefix]");
        const E: &str = "http://e:2379";
        check((E, "/x"), (E, "/x"), FIELD);
        check((E, "/x"), (E, "/x/"), FIELD);
        check((E, "/x"), ("https://E", "/x"), FIELD);
        check((E, "/x"), (E, "/x/y"), FIELD);
        check((E, "/x/y"), (E, "/x"), FIELD);
        check((E, ""), (E, "/flotilla/1"), FIELD);
        check((E, "/flotilla/2"), (E, ""), Some("spec.components.etcd.external.endpoints"));
        check((E, "/x"), (E, "/xy"), None);
        check((E, "/x"), ("http://f:2379", "/x"), None);
        check((E, "/x"), ("http://e:2479", "/x"), None);
        check((E, ""), (E, ""), None);
        assert_eq!(EtcdLocation::of(&instance("new", "", E, "")), None, "it has no UID yet");
    }
}
