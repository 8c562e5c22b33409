//! The JSON form of protobuf types that differ from the one serde derives: enums by name, 64-bit integers as strings,
//! timestamps, field masks and objects.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An enum with the names of its values.
pub trait Named: Copy + TryFrom<i32> + Into<i32> {
    fn name(self) -> &'static str;
    fn named(name: &str) -> Option<Self>;
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Integer(i64),
    Text(String),
}

pub mod enumeration {
    use super::*;

    pub fn serialize<E: Named, S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match E::try_from(*value) {
            Ok(known) => serializer.serialize_str(known.name()),
            Err(_) => serializer.serialize_i32(*value),
        }
    }

    pub fn deserialize<'de, E: Named, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        match Number::deserialize(deserializer)? {
            Number::Integer(number) => i32::try_from(number).map_err(serde::de::Error::custom),
            Number::Text(name) => match E::named(&name) {
                Some(value) => Ok(value.into()),
                None => Err(serde::de::Error::custom(format!("{name:?} is not a value of this enum"))),
            },
        }
    }
}

pub mod int64 {
    use super::*;

    pub fn serialize<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        match Number::deserialize(deserializer)? {
            Number::Integer(number) => Ok(number),
            Number::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

pub mod int64_map {
    use std::collections::BTreeMap;

    use super::*;

    pub fn serialize<S: Serializer>(map: &BTreeMap<String, i64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(key, value)| (key, value.to_string())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, i64>, D::Error> {
        let texts = BTreeMap::<String, Number>::deserialize(deserializer)?;
        let numbers = texts.into_iter().map(|(key, number)| match number {
            Number::Integer(number) => Ok((key, number)),
            Number::Text(text) => text.parse().map(|number| (key, number)).map_err(serde::de::Error::custom),
        });
        numbers.collect()
    }
}

pub mod timestamp {
    use prost_types::Timestamp;

    use super::*;

    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

pub mod field_mask {
    use prost_types::FieldMask;

    use super::*;

    pub fn serialize<S: Serializer>(mask: &Option<FieldMask>, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |mask: &FieldMask| mask.paths.iter().map(|path| camel(path)).collect::<Vec<_>>().join(",");
        mask.as_ref().map(text).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FieldMask>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let paths = |text: String| text.split(',').filter(|path| !path.is_empty()).map(snake).collect();
        Ok(text.map(|text| FieldMask { paths: paths(text) }))
    }

    fn camel(path: &str) -> String {
        let mut upper = false;
        let mut text = String::new();
        for letter in path.chars() {
            match letter {
                '_' => upper = true,
                _ if upper => {
                    text.push(letter.to_ascii_uppercase());
                    upper = false;
                }
                _ => text.push(letter),
            }
        }
        text
    }

    fn snake(path: &str) -> String {
        let mut text = String::new();
        for letter in path.chars() {
            if letter.is_ascii_uppercase() {
                text.push('_');
            }
            text.push(letter.to_ascii_lowercase());
        }
        text
    }
}

pub mod object {
    use prost_types::value::Kind;
    use prost_types::{ListValue, Struct, Value};
    use serde_json::{Map, Value as Json};

    use super::*;

    pub fn serialize<S: Serializer>(object: &Option<Struct>, serializer: S) -> Result<S::Ok, S::Error> {
        object.as_ref().map(to_json).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Struct>, D::Error> {
        Ok(Option::<Map<String, Json>>::deserialize(deserializer)?.map(from_json))
    }

    pub fn to_json(object: &Struct) -> Map<String, Json> {
        object.fields.iter().map(|(name, value)| (name.clone(), value_to_json(value))).collect()
    }

    pub fn from_json(fields: Map<String, Json>) -> Struct {
        Struct { fields: fields.into_iter().map(|(name, value)| (name, value_from_json(value))).collect() }
    }

    /// Whole numbers are written without a fraction: Kubernetes refuses `3.0` as an integer.
    fn value_to_json(value: &Value) -> Json {
        match &value.kind {
            None | Some(Kind::NullValue(_)) => Json::Null,
            Some(Kind::BoolValue(value)) => (*value).into(),
            Some(Kind::NumberValue(value)) if value.fract() == 0.0 && value.abs() < 9e15 => (*value as i64).into(),
            Some(Kind::NumberValue(value)) => (*value).into(),
            Some(Kind::StringValue(value)) => value.clone().into(),
            Some(Kind::ListValue(list)) => list.values.iter().map(value_to_json).collect(),
            Some(Kind::StructValue(object)) => Json::Object(to_json(object)),
        }
    }

    fn value_from_json(value: Json) -> Value {
        let kind = match value {
            Json::Null => Kind::NullValue(0),
            Json::Bool(value) => Kind::BoolValue(value),
            Json::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or_default()),
            Json::String(value) => Kind::StringValue(value),
            Json::Array(items) => {
                Kind::ListValue(ListValue { values: items.into_iter().map(value_from_json).collect() })
            }
            Json::Object(fields) => Kind::StructValue(from_json(fields)),
        };
        Value { kind: Some(kind) }
    }
}
