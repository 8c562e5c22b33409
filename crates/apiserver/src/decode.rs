//! Decodes request bodies into objects: JSON, YAML or protobuf. Reports duplicate and unknown fields; refuses hostile
//! input early.

mod refusal;

use std::fmt;

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

/// A body as a tree, with the paths of fields that occur twice.
pub struct Decoded {
    pub value: Value,
    pub duplicates: Vec<String>,
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
            Ok(Decoded { value, duplicates: Vec::new() })
        }
    }
}

/// The same for a body that must be an object of the resource; errors name the resource.
pub fn decode_as(resource: &Resource, bytes: &[u8], format: BodyFormat) -> Result<Decoded, Status> {
    let expected = &resource.kind.gvk;
    match format {
        BodyFormat::Json => {
            let read = decode_json(bytes).map_err(|error| json_problem(bytes, &error));
            let read = read.and_then(|decoded| match not_a_map(&decoded.value) {
                Some(problem) => Err(problem),
                None => Ok(decoded),
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
    Ok(Decoded { value, duplicates: Vec::new() })
}

fn decode_json(bytes: &[u8]) -> Result<Decoded, serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = ValueSeed { place: None, duplicates: &mut duplicates };
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Decoded { value, duplicates })
}

fn decode_yaml(bytes: &[u8]) -> Result<Decoded, Status> {
    let text = std::str::from_utf8(bytes).map_err(|e| Status::bad_request(format!("yaml: invalid UTF-8: {e}")))?;
    let value = serde_saphyr::from_str(text)
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: yaml: {error}")))?;
    check_depth(&value)?;
    Ok(Decoded { value, duplicates: Vec::new() })
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
    duplicates: &'d mut Vec<String>,
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
            let seed = ValueSeed { place: Some(&place), duplicates: &mut *self.duplicates };
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
            let seed = ValueSeed { place: Some(&place), duplicates: &mut *self.duplicates };
            let value = entries.next_value_seed(seed)?;
            if map.contains_key(&key) {
                self.duplicates.push(place.to_string());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_found_where_they_are() {
        let body = br#"{"a":1,"spec":{"x":[{"y":1,"y":2}]},"a":2}"#;
        let decoded = decode(body, BodyFormat::Json).expect("valid JSON");
        assert_eq!(decoded.duplicates, ["spec.x[0].y", "a"]);
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
