//! Decodes request bodies into objects: JSON, YAML or protobuf. Reports duplicate and unknown fields; refuses hostile
//! input early.

mod order;
mod refusal;
mod yaml;

use std::fmt;

use bytes::Bytes;
use kinds::protobuf::{self, ProtobufError};
use object::depth::{self, DEPTH_MAX};
use object::{GroupVersion, GroupVersionKind, Object, Status};
use refusal::{cannot_be_handled, json_problem, not_a_map, not_registered, unrecognized, wrong_kind};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::served_resources::Resource;

/// Bodies above this are refused before they are read to the end, as in kube-apiserver.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

pub const READABLE_TYPES: &[&str] = &["application/json", "application/yaml", PROTOBUF_TYPE];

/// Custom kinds have no protobuf messages.
const READABLE_TYPES_CUSTOM: &[&str] = &["application/json", "application/yaml"];

const PROTOBUF_TYPE: &str = "application/vnd.kubernetes.protobuf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

impl BodyFormat {
    /// An absent content type is JSON.
    pub fn of_content_type(header: Option<&str>) -> Result<Self, Status> {
        let media_type = header.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
        match media_type {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Self::Yaml),
            PROTOBUF_TYPE => Ok(Self::Protobuf),
            _ => Err(Status::unsupported_media_type(READABLE_TYPES)),
        }
    }
}

/// Repeated fields beyond this many are not reported, and paths are cut after so many bytes, so that an error does not take
/// more memory than its body.
const REPORTED_MAX: usize = 100;
const PATH_BYTES_MAX: usize = 1024;

/// A body as a tree, with what a strict reader finds wrong with it.
pub struct Decoded {
    pub value: Value,
    pub findings: Findings,
}

/// Fields of a body that occur twice.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Paths in JSON, with the number of keys before each.
    duplicates: Vec<(usize, String)>,
    /// Keys in YAML, as `line 5: key "a" already set in map`.
    yaml: Vec<String>,
    /// The JSON document, to find the order of other fields in it.
    body: Option<Bytes>,
}

impl Findings {
    /// All complaints of a strict reader about an object of a built-in kind: in the order of the document.
    pub fn of_typed(self, unknown: Vec<String>) -> Complaints {
        let paths: Vec<&str> = unknown.iter().map(String::as_str).collect();
        let positions = match &self.body {
            Some(body) if !paths.is_empty() => order::positions(body, &paths),
            _ => vec![usize::MAX; paths.len()],
        };
        // A field that is unknown and repeated is only unknown.
        let repeated = self.duplicates.iter().filter(|(_, path)| !unknown.contains(path));
        let repeated = repeated.map(|(position, path)| (*position, format!("duplicate field {path:?}")));
        let unknown = positions.into_iter().zip(unknown.iter().map(|path| format!("unknown field {path:?}")));
        let mut complaints: Vec<(usize, String)> = repeated.chain(unknown).collect();
        complaints.sort_by_key(|(position, _)| *position);
        Complaints::new(self.yaml, complaints.into_iter().map(|(_, text)| text))
    }

    /// The same for a custom kind: repeated fields first.
    pub fn of_custom(self, unknown: Vec<String>) -> Complaints {
        let repeated = self.duplicates.into_iter().map(|(_, path)| format!("duplicate field {path:?}"));
        let unknown = unknown.into_iter().map(|path| format!("unknown field {path:?}"));
        Complaints::new(self.yaml, repeated.chain(unknown))
    }
}

/// The complaints of a strict reader about a body; those of the YAML reader are separate.
#[derive(Clone, Debug, Default)]
pub struct Complaints {
    yaml: Vec<String>,
    others: Vec<String>,
}

impl Complaints {
    fn new(yaml: Vec<String>, texts: impl Iterator<Item = String>) -> Self {
        let mut others = Vec::new();
        for text in texts {
            if yaml.len() + others.len() < REPORTED_MAX && !others.contains(&text) {
                others.push(text);
            }
        }
        Self { yaml, others }
    }

    pub fn is_empty(&self) -> bool {
        self.yaml.is_empty() && self.others.is_empty()
    }

    pub fn into_texts(self) -> impl Iterator<Item = String> {
        self.yaml.into_iter().chain(self.others)
    }

    /// All of them as one error: those of the YAML reader are a block of lines.
    pub fn as_error(&self) -> String {
        let mut parts = self.others.clone();
        if !self.yaml.is_empty() {
            let lines: Vec<String> = self.yaml.iter().map(|line| format!("\n  {line}")).collect();
            parts.insert(0, format!("yaml: unmarshal errors:{}", lines.concat()));
        }
        parts.join(", ")
    }
}

/// Memory of a map with its first entry, and of an element of a list.
const MAP_BYTES: usize = 640;
const ELEMENT_BYTES: usize = 64;
/// Memory for each byte of a protobuf message with small parts.
const PROTOBUF_FACTOR: usize = 24;

/// Estimates the memory of a body as a tree, rather too high than too low: small maps take a hundred times their text.
pub fn tree_bytes(body: &[u8], format: BodyFormat) -> usize {
    if format == BodyFormat::Protobuf {
        return body.len() * PROTOBUF_FACTOR;
    }
    let parts = body.iter().map(|byte| match byte {
        // A line of YAML can be a map.
        b'{' | b'\n' => MAP_BYTES,
        b',' | b'[' => ELEMENT_BYTES,
        _ => 1,
    });
    parts.sum()
}

pub fn decode(bytes: &[u8], format: BodyFormat) -> Result<Decoded, Status> {
    if bytes.is_empty() {
        return Err(Status::bad_request("the request body is empty"));
    }
    match format {
        BodyFormat::Json => decode_json(bytes).map_err(|error| {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {}", json_problem(bytes, &error)))
        }),
        BodyFormat::Yaml => decode_yaml(bytes),
        BodyFormat::Protobuf => {
            let value = protobuf::decode(bytes).map_err(|error| Status::bad_request(error.to_string()))?;
            check_depth(&value)?;
            Ok(Decoded { value, findings: Findings::default() })
        }
    }
}

/// The same for a body that must be an object of the resource; errors name the resource.
pub fn decode_as(resource: &Resource, bytes: &Bytes, format: BodyFormat) -> Result<Decoded, Status> {
    let expected = &resource.kind.gvk;
    match format {
        BodyFormat::Json => {
            let read = decode_json(bytes).map_err(|error| json_problem(bytes, &error));
            let read = read.and_then(|mut decoded| match not_a_map(&decoded.value) {
                Some(problem) => Err(problem),
                None => {
                    decoded.findings.body = Some(bytes.clone());
                    Ok(decoded)
                }
            });
            read.map_err(|problem| {
                unrecognized(expected, &format!("couldn't get version/kind; json parse error: {problem}"), bytes)
            })
        }
        BodyFormat::Yaml => decode(bytes, format),
        BodyFormat::Protobuf if resource.custom.is_some() => Err(Status::unsupported_media_type(READABLE_TYPES_CUSTOM)),
        BodyFormat::Protobuf => decode_protobuf(expected, bytes),
    }
}

/// A message without a kind is taken for one of the resource's kind, as Go's typed decoders do.
fn decode_protobuf(expected: &GroupVersionKind, bytes: &[u8]) -> Result<Decoded, Status> {
    let found = match protobuf::kind_of(bytes) {
        Ok((api_version, kind)) => GroupVersion::parse(&api_version).unwrap_or_default().kind(kind),
        Err(error) => return Err(unrecognized(expected, &error.to_string(), bytes)),
    };
    let found = if found.kind.is_empty() { expected } else { &found };
    let value = protobuf::decode_as(bytes, &found.api_version(), &found.kind).map_err(|error| match error {
        ProtobufError::UnknownKind { .. } => not_registered(found, expected),
        error => cannot_be_handled(found, expected, &error.to_string()),
    })?;
    check_depth(&value)?;
    Ok(Decoded { value, findings: Findings::default() })
}

fn decode_json(bytes: &[u8]) -> Result<Decoded, serde_json::Error> {
    let mut seen = SeenKeys::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = ValueSeed { place: None, seen: &mut seen };
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Decoded { value, findings: Findings { duplicates: seen.duplicates, ..Findings::default() } })
}

fn decode_yaml(bytes: &[u8]) -> Result<Decoded, Status> {
    let text = std::str::from_utf8(bytes).map_err(|e| Status::bad_request(format!("yaml: invalid UTF-8: {e}")))?;
    let (value, lines) = match serde_saphyr::from_str(text) {
        Ok(value) => (value, Vec::new()),
        Err(error) => match yaml::read_repeated(text) {
            Some(repeated) => (repeated.value, repeated.lines),
            None => return Err(Status::bad_request(format!("error converting YAML to JSON: yaml: {error}"))),
        },
    };
    check_depth(&value)?;
    Ok(Decoded { value, findings: Findings { yaml: lines, ..Findings::default() } })
}

/// The JSON parser limits the depth of bodies itself. The readers of other formats have limits of their own, which may be
/// higher than that of stored objects.
fn check_depth(value: &Value) -> Result<(), Status> {
    match depth::of(value) {
        depth if depth > DEPTH_MAX => {
            let text = format!("the request body is nested {depth} levels deep, at most {DEPTH_MAX} are allowed");
            Err(Status::bad_request(text))
        }
        _ => Ok(()),
    }
}

/// Takes a decoded body as an object of the resource; an error when it is of another kind.
pub fn object_of(resource: &Resource, value: Value) -> Result<Object, Status> {
    // A bare null decodes into an object without fields, as in Go.
    let value = if value.is_null() && resource.custom.is_none() { Value::Object(Map::new()) } else { value };
    let Some(mut object) = Object::from_value(value) else {
        return Err(Status::bad_request("the request body must be a JSON object"));
    };
    check_kind(resource, &mut object)?;
    Ok(object)
}

/// Fills in a missing apiVersion and kind and refuses others than the resource's own.
fn check_kind(resource: &Resource, object: &mut Object) -> Result<(), Status> {
    let gvk = &resource.kind.gvk;
    let version_fits = object.api_version().is_empty() || object.api_version() == gvk.api_version();
    let kind_fits = object.kind().is_empty() || object.kind() == gvk.kind;
    if version_fits && kind_fits && resource.custom.is_none() {
        object.set_gvk(gvk);
        return Ok(());
    }
    if object.kind().is_empty() {
        return Err(Status::bad_request("Object 'Kind' is missing in the request body"));
    }
    if object.gvk() == *gvk {
        return Ok(());
    }
    Err(wrong_kind(&object.gvk(), object.api_version(), gvk, resource.custom.is_some()))
}

/// Builds a tree and notes fields that occur twice, which a plain map would silently merge.
struct ValueSeed<'p, 'd> {
    place: Option<&'p Place<'p>>,
    seen: &'d mut SeenKeys,
}

#[derive(Default)]
struct SeenKeys {
    count: usize,
    duplicates: Vec<(usize, String)>,
}

impl SeenKeys {
    fn note_duplicate(&mut self, position: usize, place: &Place<'_>) {
        if self.duplicates.len() < REPORTED_MAX && place.length() <= PATH_BYTES_MAX {
            self.duplicates.push((position, place.to_string()));
        }
    }
}

/// The position of the reader, linked to its parent: only written out for a field that an error names.
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl Place<'_> {
    /// About as many bytes as its text has.
    fn length(&self) -> usize {
        let step = match self.step {
            Step::Key(key) => key.len() + 1,
            Step::Index(_) => 4,
        };
        self.parent.map_or(0, Place::length) + step
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Key(key) if self.parent.is_none() => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        if value.is_finite() { Ok(value.into()) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = Place { parent: self.place, step: Step::Index(list.len()) };
            let seed = ValueSeed { place: Some(&place), seen: &mut *self.seen };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let place = Place { parent: self.place, step: Step::Key(&key) };
            self.seen.count += 1;
            if map.contains_key(&key) {
                self.seen.note_duplicate(self.seen.count, &place);
            }
            let seed = ValueSeed { place: Some(&place), seen: &mut *self.seen };
            let value = entries.next_value_seed(seed)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(complaints: Complaints) -> Vec<String> {
        complaints.into_texts().collect()
    }

    #[test]
    fn duplicate_fields_are_found_where_they_are() {
        let body = br#"{"a":1,"spec":{"x":[{"y":1,"y":2}]},"a":2}"#;
        let mut decoded = decode(body, BodyFormat::Json).expect("valid JSON");
        decoded.findings.body = Some(Bytes::from_static(body));
        let unknown = vec!["spec.x".to_owned()];
        let expected = ["unknown field \"spec.x\"", "duplicate field \"spec.x[0].y\"", "duplicate field \"a\""];
        assert_eq!(texts(decoded.findings.clone().of_typed(unknown.clone())), expected);
        let expected = ["duplicate field \"spec.x[0].y\"", "duplicate field \"a\"", "unknown field \"spec.x\""];
        assert_eq!(texts(decoded.findings.of_custom(unknown)), expected);
    }

    #[test]
    fn repeated_fields_take_little_memory() {
        let long = "k".repeat(PATH_BYTES_MAX + 1);
        let many = "\"a\":1,".repeat(10_000);
        for body in [format!("{{{many}\"b\":1}}"), format!("{{\"{long}\":{{{many}\"b\":1}}}}")] {
            let decoded = decode(body.as_bytes(), BodyFormat::Json).expect("valid JSON");
            assert!(decoded.findings.duplicates.len() <= REPORTED_MAX);
            assert!(decoded.findings.duplicates.iter().all(|(_, path)| path.len() <= PATH_BYTES_MAX));
        }
    }

    #[test]
    fn yaml_errors_are_one_block() {
        let decoded = decode(b"a: 1\na: 2\n", BodyFormat::Yaml).expect("readable YAML");
        let complaints = decoded.findings.of_typed(vec!["b".to_owned()]);
        let expected = "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map, unknown field \"b\"";
        assert_eq!(complaints.as_error(), expected);
    }

    #[test]
    fn hostile_bodies_are_refused() {
        let deep = "[".repeat(100_000);
        for body in ["", "{", "{}x", "nul", "\"\\ud800\"", "{\"a\":1e999}", &deep] {
            let status = decode(body.as_bytes(), BodyFormat::Json).err().expect("refused");
            assert_eq!(status.code, 400, "{}", &body[..body.len().min(20)]);
        }
        assert!(decode(b"\xff\xfe", BodyFormat::Json).is_err());
        assert!(decode(b"\xff\xfe", BodyFormat::Yaml).is_err());
    }
}
