//! The query language of lists and of search: `kind:deploy name~web ns:shop label:app=web field:status.phase!=Running age<2h`.

use jiff::{SignedDuration, Timestamp};
use object::{Object, Status, time};
use serde_json::Value;

/// Longer queries are refused.
const LENGTH_MAX: usize = 2000;
const TERMS_MAX: usize = 50;

/// An object with the place it was found in.
pub struct Found<'a> {
    pub instance: &'a str,
    pub cluster: &'a str,
    pub object: &'a Object,
}

/// Conditions that all must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    terms: Vec<Term>,
    /// Names of kinds, which the caller resolves.
    pub kinds: Vec<String>,
    /// Fields to sort by; true for descending.
    pub sort: Vec<(String, bool)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    /// A field and patterns, of which one must match.
    OneOf(Place, Vec<String>),
    Contains(String),
    Label {
        key: String,
        value: Option<String>,
        negated: bool,
    },
    Field {
        path: Vec<String>,
        value: String,
        negated: bool,
    },
    Owner {
        kind: String,
        name: String,
    },
    After(Timestamp),
    Before(Timestamp),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Name,
    Namespace,
    Instance,
    Cluster,
}

/// Fields that results may be sorted by.
pub const SORT_FIELDS: [&str; 6] = ["name", "namespace", "kind", "instance", "cluster", "created"];

impl Query {
    /// Reads a query. Unknown terms are refused, so that a spelling mistake does not widen a result.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, Status> {
        if text.len() > LENGTH_MAX {
            return Err(Status::bad_request(format!("the query has more than {LENGTH_MAX} characters")));
        }
        let mut query = Self::default();
        for word in text.split_whitespace() {
            query.add(word, now).map_err(|problem| Status::bad_request(format!("{word}: {problem}")))?;
            if query.terms.len() > TERMS_MAX {
                return Err(Status::bad_request(format!("the query has more than {TERMS_MAX} terms")));
            }
        }
        Ok(query)
    }

    fn add(&mut self, word: &str, now: Timestamp) -> Result<(), String> {
        let operator = word.find([':', '~', '<', '>']);
        let Some(at) = operator else {
            self.terms.push(Term::Contains(word.to_lowercase()));
            return Ok(());
        };
        let (key, value) = (&word[..at], &word[at + 1..]);
        let values = || value.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let term = match (key, &word[at..=at]) {
            ("kind", ":") => {
                self.kinds.extend(values());
                return Ok(());
            }
            ("sort", ":") => {
                let (field, descending) = value.strip_prefix('-').map_or((value, false), |field| (field, true));
                self.sort.push((sort_field(field)?, descending));
                return Ok(());
            }
            ("name", ":") => Term::OneOf(Place::Name, values()),
            ("name", "~") => Term::Contains(value.to_lowercase()),
            ("ns" | "namespace", ":") => Term::OneOf(Place::Namespace, values()),
            ("instance", ":") => Term::OneOf(Place::Instance, values()),
            ("cluster", ":") => Term::OneOf(Place::Cluster, values()),
            ("label", ":") => label(value)?,
            ("field", ":") => field(value)?,
            ("owner", ":") => match value.split_once('/') {
                Some((kind, name)) => Term::Owner { kind: kind.to_lowercase(), name: name.to_owned() },
                None => return Err("must be owner:KIND/NAME".to_owned()),
            },
            ("age", "<") => Term::After(before(now, value)?),
            ("age", ">") => Term::Before(before(now, value)?),
            ("created", ">") => Term::After(moment(value)?),
            ("created", "<") => Term::Before(moment(value)?),
            _ => return Err(
                "unknown term; known are kind, name, ns, instance, cluster, label, field, owner, age, created, sort"
                    .to_owned(),
            ),
        };
        self.terms.push(term);
        Ok(())
    }

    pub fn matches(&self, found: &Found) -> bool {
        self.terms.iter().all(|term| term.matches(found))
    }

    /// Reports whether results of an instance can match at all.
    pub fn covers_instance(&self, instance: &str) -> bool {
        self.covers(Place::Instance, instance)
    }

    pub fn covers_cluster(&self, cluster: &str) -> bool {
        self.covers(Place::Cluster, cluster)
    }

    fn covers(&self, place: Place, name: &str) -> bool {
        self.terms.iter().all(|term| match term {
            Term::OneOf(of, patterns) if *of == place => patterns.iter().any(|pattern| glob(pattern, name)),
            _ => true,
        })
    }

    /// The only namespace the query asks for.
    pub fn namespace(&self) -> Option<&str> {
        self.terms.iter().find_map(|term| match term {
            Term::OneOf(Place::Namespace, names) if names.len() == 1 && !names[0].contains('*') => Some(&*names[0]),
            _ => None,
        })
    }
}

fn sort_field(field: &str) -> Result<String, String> {
    match SORT_FIELDS.contains(&field) {
        true => Ok(field.to_owned()),
        false => Err(format!("{field:?} is not one of {}", SORT_FIELDS.join(", "))),
    }
}

/// Reads `name, created desc`.
pub fn order_by(text: &str) -> Result<Vec<(String, bool)>, Status> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = parts.map(|part| {
        let (field, descending) = match part.strip_suffix(" desc") {
            Some(field) => (field.trim(), true),
            None => (part.strip_suffix(" asc").unwrap_or(part).trim(), false),
        };
        let field = if field == "create_time" || field == "createTime" { "created" } else { field };
        sort_field(field).map(|field| (field, descending))
    });
    read.collect::<Result<_, _>>().map_err(|problem| Status::bad_request(format!("orderBy: {problem}")))
}

/// The value of a field to sort by.
pub fn sort_value<'a>(found: &Found<'a>, field: &str) -> &'a str {
    match field {
        "namespace" => found.object.namespace(),
        "kind" => found.object.kind(),
        "instance" => found.instance,
        "cluster" => found.cluster,
        "created" => found.object.creation_timestamp(),
        _ => found.object.name(),
    }
}

fn label(value: &str) -> Result<Term, String> {
    let (key, rest, negated) = match (value.split_once("!="), value.split_once('=')) {
        (Some((key, rest)), _) => (key, Some(rest), true),
        (None, Some((key, rest))) => (key, Some(rest), false),
        (None, None) => (value, None, false),
    };
    match key.is_empty() {
        true => Err("must be label:KEY=VALUE, label:KEY!=VALUE or label:KEY".to_owned()),
        false => Ok(Term::Label { key: key.to_owned(), value: rest.map(str::to_owned), negated }),
    }
}

fn field(value: &str) -> Result<Term, String> {
    let (path, value, negated) = match (value.split_once("!="), value.split_once('=')) {
        (Some((path, value)), _) => (path, value, true),
        (None, Some((path, value))) => (path, value, false),
        (None, None) => return Err("must be field:PATH=VALUE or field:PATH!=VALUE".to_owned()),
    };
    Ok(Term::Field { path: path.split('.').map(str::to_owned).collect(), value: value.to_owned(), negated })
}

fn before(now: Timestamp, text: &str) -> Result<Timestamp, String> {
    let problem = || format!("{text:?} is not a time such as 30m, 2h or 7d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(problem)?;
    let number: i64 = number.parse().ok().filter(|number| (0..=1_000_000).contains(number)).ok_or_else(problem)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(problem()),
    };
    now.checked_sub(SignedDuration::from_secs(number * seconds)).map_err(|_| problem())
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    time::parse(&whole).ok_or_else(|| format!("{text:?} is not a date or an RFC 3339 time"))
}

/// Matches `*` against any text, in time linear in both lengths times the number of stars.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Term {
    fn matches(&self, found: &Found) -> bool {
        let object = found.object;
        match self {
            Self::OneOf(place, patterns) => {
                let text = match place {
                    Place::Name => object.name(),
                    Place::Namespace => object.namespace(),
                    Place::Instance => found.instance,
                    Place::Cluster => found.cluster,
                };
                patterns.iter().any(|pattern| glob(pattern, text))
            }
            Self::Contains(text) => object.name().to_lowercase().contains(text.as_str()),
            Self::Label { key, value, negated } => {
                let is = match (object.label(key), value) {
                    (Some(_), None) => true,
                    (Some(has), Some(value)) => has == value,
                    (None, _) => false,
                };
                is != *negated
            }
            Self::Field { path, value, negated } => {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let is = match object.get(&path) {
                    Some(Value::String(text)) => text == value,
                    Some(Value::Null) | None => value.is_empty(),
                    Some(other) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *other),
                };
                is != *negated
            }
            Self::Owner { kind, name } => object
                .owner_references()
                .iter()
                .any(|owner| owner.name == *name && owner.kind.to_lowercase().starts_with(kind.as_str())),
            Self::After(start) => created(object).is_some_and(|at| at > *start),
            Self::Before(end) => created(object).is_some_and(|at| at < *end),
        }
    }
}

fn created(object: &Object) -> Option<Timestamp> {
    time::parse(object.creation_timestamp())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().expect("a time")
    }

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let object = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "Web-1", "namespace": "shop", "labels": {"app": "web"},
                "creationTimestamp": "2026-06-01T11:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}]},
            "status": {"phase": "Running", "replicas": 3},
        }));
        let object = object.expect("an object");
        let query = Query::parse(text, now()).expect("a query");
        let found = Found { instance: "east", cluster: "eu-1", object: &object };
        assert_eq!(query.matches(&found), expected, "{text}");
    }

    #[test]
    fn terms_restrict_the_result() {
        for (text, expected) in [
            ("", true),
            ("web", true),
            ("name~EB-", true),
            ("name:web", false),
            ("name:Web-*", true),
            ("name:x,Web-1", true),
            ("ns:shop,pay instance:east cluster:eu-*", true),
            ("ns:pay", false),
            ("cluster:us-*", false),
            ("label:app=web", true),
            ("label:app!=web", false),
            ("label:tier", false),
            ("label:tier!=x", true),
            ("field:status.phase!=Running", false),
            ("field:status.replicas=3", true),
            ("field:status.missing=", true),
            ("owner:deploy/web", true),
            ("owner:deploy/other", false),
            ("age<2h", true),
            ("age<30m", false),
            ("age>30m", true),
            ("created>2026-06-01 created<2026-06-02", true),
            ("created<2026-06-01", false),
            ("kind:rs sort:-created", true),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn invalid_queries_are_refused() {
        for text in
            ["nmae:web", "age<x", "age<", "created>soon", "label:=x", "field:a", "owner:web", "sort:spec", "age:1h"]
        {
            assert!(Query::parse(text, now()).is_err(), "{text}");
        }
        assert!(Query::parse(&"a ".repeat(60), now()).is_err());
        assert!(order_by("name; drop table").is_err());
        assert_eq!(
            order_by("name, created desc").expect("an order"),
            [("name".into(), false), ("created".into(), true)]
        );
    }

    #[test]
    fn stars_match_any_text() {
        let check =
            |pattern: &str, text: &str, expected: bool| assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        check("a*c", "abc", true);
        check("a*c", "ab", false);
        check("*", "", true);
        check("**b*", "abc", true);
        check("ab*b", "ab", false);
        check("abc", "abcd", false);
    }
}
