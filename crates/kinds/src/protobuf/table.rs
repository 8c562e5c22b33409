//! The messages of the built-in kinds: field numbers, JSON names and types, parsed from a text on first use.
//!
//! One line of the text is one message: its name, then `name:number:type` per field in the order of the numbers. A
//! field without a name is embedded: in JSON its fields are part of the parent. Around the type: `*` a pointer in Go,
//! `[]` a list, `{}` a map keyed by strings, `@` another message; `!` means that JSON shows the field even if it is
//! zero, `~` that even an empty struct is omitted.

use std::collections::HashMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("messages.txt");

/// The section whose kinds belong to every group.
const META: &str = "meta.k8s.io/v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON in the bytes of a message's only field.
    Raw,
    /// A list of strings as a message of its own, so that it can be a map's value.
    Texts,
    SchemaOrList,
    SchemaOrBool,
    SchemaOrTexts,
    Message(MessageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Always present in Go; a zero value equals an absent one.
    Plain,
    Pointer,
    List,
    Map,
    /// Present like `Plain`, without its own name in JSON.
    Embedded,
}

/// The JSON representation of a zero value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    OmitEmpty,
    OmitStruct,
    Shown,
}

#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub number: u32,
    pub shape: Shape,
    pub ty: Type,
    pub zero: Zero,
}

pub struct MessageTable {
    /// All fields, message after message, sorted by number within each.
    fields: Vec<Field>,
    /// End of each message's fields; they start at the end of the previous one.
    ends: Vec<u32>,
    by_name: HashMap<(&'static str, &'static str), MessageId>,
}

impl MessageTable {
    /// Parsed once per process, on the first use of protobuf: constants do not differ between control planes.
    pub fn get() -> &'static Self {
        static TABLE: OnceLock<MessageTable> = OnceLock::new();
        TABLE.get_or_init(|| Self::parse(TEXT))
    }

    pub fn fields(&self, message: MessageId) -> &[Field] {
        let index = usize::from(message.0);
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.fields[start as usize..self.ends[index] as usize]
    }

    pub fn field(&self, message: MessageId, number: u32) -> Option<&Field> {
        let fields = self.fields(message);
        fields.binary_search_by_key(&number, |field| field.number).ok().map(|index| &fields[index])
    }

    pub fn kind(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        self.by_name.get(&(api_version, kind)).copied().or_else(|| {
            let shared = kind.ends_with("Options")
                || matches!(
                    kind,
                    "Status"
                        | "APIGroup"
                        | "APIGroupList"
                        | "APIResourceList"
                        | "APIVersions"
                        | "PartialObjectMetadata"
                        | "PartialObjectMetadataList"
                        | "WatchEvent"
                );
            if shared { self.by_name.get(&(META, kind)).copied() } else { None }
        })
    }

    /// The message of the schemas in a CustomResourceDefinition, which the three either-or types refer to.
    pub fn schema_props(&self) -> MessageId {
        self.by_name[&("apiextensions.k8s.io/v1", "JSONSchemaProps")]
    }

    fn parse(text: &'static str) -> Self {
        let mut by_name = HashMap::new();
        for (index, (section, line)) in lines(text).enumerate() {
            let name = line.split(' ').next().unwrap_or_default();
            by_name.insert((section, name), MessageId(index as u16));
        }
        let (mut fields, mut ends) = (Vec::with_capacity(text.len() / 24), Vec::with_capacity(by_name.len()));
        for (section, line) in lines(text) {
            fields.extend(line.split(' ').skip(1).map(|field| parse_field(&by_name, section, field)));
            ends.push(fields.len() as u32);
        }
        fields.shrink_to_fit();
        Self { fields, ends, by_name }
    }
}

/// The messages in order, each with its section.
fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut section = "";
    text.lines().filter_map(move |line| match line.strip_prefix('[') {
        Some(name) => {
            section = name.trim_end_matches(']');
            None
        }
        None => Some((section, line)),
    })
}

fn parse_field(
    by_name: &HashMap<(&'static str, &'static str), MessageId>,
    section: &'static str,
    text: &'static str,
) -> Field {
    let mut parts = text.split(':');
    let mut part = || parts.next().expect("a field has a name, a number and a type");
    let (name, number, ty) = (part(), part(), part());
    let (ty, zero) = match (ty.strip_suffix('!'), ty.strip_suffix('~')) {
        (Some(ty), _) => (ty, Zero::Shown),
        (None, Some(ty)) => (ty, Zero::OmitStruct),
        (None, None) => (ty, Zero::OmitEmpty),
    };
    let prefixes = [("*", Shape::Pointer), ("[]", Shape::List), ("{}", Shape::Map)];
    let prefixed = prefixes.iter().find_map(|(prefix, shape)| Some((*shape, ty.strip_prefix(prefix)?)));
    let (shape, ty) = prefixed.unwrap_or((if name.is_empty() { Shape::Embedded } else { Shape::Plain }, ty));
    let number = number.parse().expect("field numbers are numbers");
    Field { name, number, shape, ty: parse_type(by_name, section, ty), zero }
}

fn parse_type(
    by_name: &HashMap<(&'static str, &'static str), MessageId>,
    section: &'static str,
    text: &'static str,
) -> Type {
    match text {
        "string" => Type::Text,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrString,
        "raw" => Type::Raw,
        "strings" => Type::Texts,
        "schema-or-list" => Type::SchemaOrList,
        "schema-or-bool" => Type::SchemaOrBool,
        "schema-or-strings" => Type::SchemaOrTexts,
        reference => {
            let name = reference.strip_prefix('@').expect("a type is a known word or a reference");
            let (section, name) = match name.split_once('.') {
                Some(("meta", name)) => (META, name),
                Some(("core", name)) => ("v1", name),
                _ => (section, name),
            };
            Type::Message(*by_name.get(&(section, name)).expect("references name messages of the table"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_parsed_and_numbers_increase() {
        let table = MessageTable::get();
        assert!(table.ends.len() > 600, "{}", table.ends.len());
        for index in 0..table.ends.len() {
            let numbers: Vec<u32> = table.fields(MessageId(index as u16)).iter().map(|field| field.number).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        }
    }

    #[test]
    fn every_built_in_kind_and_its_list_have_a_message() {
        for kind in crate::builtin() {
            let api_version = kind.gvk.api_version();
            assert!(
                MessageTable::get().kind(&api_version, &kind.gvk.kind).is_some(),
                "{api_version} {}",
                kind.gvk.kind
            );
            let listed = kind.stored || kind.gvk.kind == "ComponentStatus";
            assert!(!listed || MessageTable::get().kind(&api_version, &kind.list_kind).is_some(), "{}", kind.list_kind);
        }
        assert!(MessageTable::get().kind("example.com/v1", "Widget").is_none());
        assert!(MessageTable::get().kind("apps/v1", "DeleteOptions").is_some());
    }
}
