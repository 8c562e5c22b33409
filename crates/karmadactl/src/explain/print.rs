//! The text of `explain`, as kubectl prints it.

use anyhow::bail;
use object::GroupVersionKind;
use serde_json::Value;

use crate::openapi::Schema;

const DESCRIPTION_WIDTH: usize = 76;
const FIELD_WIDTH: usize = 78;
/// Values of an enumeration that are shown in a list of fields.
const ENUM_SHOWN_MAX: usize = 4;
/// Levels of `--recursive`: schemas may refer to themselves.
const DEPTH_MAX: usize = 30;

pub fn explain(gvk: &GroupVersionKind, schema: Schema<'_>, path: &[String], recursive: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    if !gvk.group.is_empty() {
        text += &format!("GROUP:      {}\n", gvk.group);
    }
    text += &format!("KIND:       {}\nVERSION:    {}\n\n", gvk.kind, gvk.version);
    let mut at = schema;
    for (index, name) in path.iter().enumerate() {
        let Some(field) = field_of(at, name) else {
            bail!("field {:?} does not exist", path.last().map_or("", String::as_str));
        };
        if index + 1 == path.len() {
            text += &format!("FIELD: {name} <{}>\n{}\n\n", type_of(field), long_enum(field));
        }
        at = field;
    }
    let at = at.resolved_for_text();
    let description = description(at);
    let description = if description.is_empty() { "<empty>".to_owned() } else { description };
    text += &format!("DESCRIPTION:\n{}\n", indented(&wrapped(&description, DESCRIPTION_WIDTH), 4));
    text += &external_docs(at.value, 0, DESCRIPTION_WIDTH);
    let mut fields = String::new();
    write_fields(&mut fields, at, 1, recursive, &mut Vec::new());
    if !fields.is_empty() {
        text += &format!("FIELDS:\n{fields}");
    }
    Ok(text + "\n")
}

impl<'a> Schema<'a> {
    /// Follows the reference of this schema, but keeps a description of its own.
    fn resolved_for_text(self) -> Self {
        match self.value.get("$ref") {
            Some(_) => self.resolved(),
            None => self,
        }
    }

    fn alternatives(self) -> impl Iterator<Item = Schema<'a>> {
        let all = self.value["allOf"].as_array().into_iter().flatten();
        all.map(move |value| Self { value, ..self })
    }

    /// Returns the schema of items or values, for lists and maps.
    fn inner(self) -> Option<Self> {
        let of = |name: &str| self.value.get(name).filter(|value| value.is_object());
        of("items").or_else(|| of("additionalProperties")).map(|value| Self { value, ..self })
    }
}

/// Finds a field below a schema, through lists, maps and alternatives.
fn field_of<'a>(schema: Schema<'a>, name: &str) -> Option<Schema<'a>> {
    let at = schema.resolved_for_text();
    if let Some(value) = at.value["properties"].get(name) {
        return Some(Schema { value, ..at });
    }
    if let Some(inner) = at.inner() {
        return field_of(inner, name);
    }
    at.alternatives().find_map(|one| field_of(one, name))
}

/// The descriptions of a schema, its alternatives, its items and values.
fn description(schema: Schema<'_>) -> String {
    let at = schema.resolved_for_text();
    let mut text = String::new();
    if let Some(own) = at.value["description"].as_str().filter(|own| !own.is_empty()) {
        text += &format!("{own}\n");
    }
    for one in at.alternatives() {
        text += &description(one);
    }
    if let Some(inner) = at.inner() {
        text += &description(inner);
    }
    text
}

fn write_fields(text: &mut String, schema: Schema<'_>, level: usize, recursive: bool, seen: &mut Vec<String>) {
    let reference = schema.value["$ref"].as_str().unwrap_or_default().to_owned();
    if level > DEPTH_MAX || (!reference.is_empty() && seen.contains(&reference)) {
        return;
    }
    seen.push(reference);
    let at = schema.resolved_for_text();
    let mut names: Vec<&String> = at.value["properties"].as_object().into_iter().flat_map(|map| map.keys()).collect();
    names.sort();
    for name in names {
        write_field(text, at, name, level, recursive);
        if recursive {
            let below = Schema { value: &at.value["properties"][name], ..at };
            write_fields(text, below, level + 1, recursive, seen);
        }
    }
    for one in at.alternatives() {
        write_fields(text, one, level, recursive, seen);
    }
    if let Some(inner) = at.inner() {
        write_fields(text, inner, level, recursive, seen);
    }
    seen.pop();
}

fn write_field(text: &mut String, schema: Schema<'_>, name: &str, level: usize, short: bool) {
    let field = Schema { value: &schema.value["properties"][name], ..schema };
    let indent = level * 2;
    let is_required = schema.value["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    *text += &format!("{}{name}\t<{}>", " ".repeat(indent), type_of(field));
    if is_required {
        text.push_str(" -required-");
    }
    *text += &short_enum(field.value, indent);
    text.push('\n');
    if short {
        return;
    }
    let description = field.value["description"].as_str().filter(|own| !own.is_empty());
    let description = wrapped(description.unwrap_or("<no description>"), FIELD_WIDTH - indent);
    *text += &indented(&description, indent + 2);
    text.push('\n');
    let docs = external_docs(field.value, indent + 2, DESCRIPTION_WIDTH - indent);
    if !docs.is_empty() {
        *text += &format!("\n{docs}");
    }
    text.push('\n');
}

/// `string`, `[]Container`, `map[string]string`.
fn type_of(schema: Schema<'_>) -> String {
    let value = schema.value;
    let of = |inner: &'_ Value| -> String { type_of(Schema { value: inner, document: schema.document }) };
    if let Some(items) = value.get("items") {
        return format!("[]{}", of(items));
    }
    if let Some(values) = value.get("additionalProperties").filter(|values| values.is_object()) {
        return format!("map[string]{}", of(values));
    }
    if let (None, Some([only])) = (value.get("properties"), value["allOf"].as_array().map(Vec::as_slice)) {
        return of(only);
    }
    let named = |name: &str| if name == "object" || name.is_empty() { "Object".to_owned() } else { name.to_owned() };
    let Some(reference) = value["$ref"].as_str() else { return named(value["type"].as_str().unwrap_or_default()) };
    match schema.resolved().value["type"].as_str() {
        None | Some("object") => named(reference.rsplit(['/', '.']).next().unwrap_or_default()),
        Some(primitive) => primitive.to_owned(),
    }
}

fn enum_texts(value: &Value) -> Vec<String> {
    let text = |one: &Value| match one.as_str() {
        Some("") => "\"\"".to_owned(),
        Some(text) => text.to_owned(),
        None => one.to_string(),
    };
    value["enum"].as_array().into_iter().flatten().map(text).collect()
}

fn short_enum(value: &Value, indent: usize) -> String {
    let texts = enum_texts(value);
    if texts.is_empty() {
        return String::new();
    }
    let more = if texts.len() > ENUM_SHOWN_MAX { ", ...." } else { "" };
    let shown: Vec<String> = texts.into_iter().take(ENUM_SHOWN_MAX).collect();
    format!("\n{}enum: {}{more}", " ".repeat(indent), shown.join(", "))
}

fn long_enum(schema: Schema<'_>) -> String {
    let texts = enum_texts(schema.value);
    if texts.is_empty() {
        return String::new();
    }
    format!("ENUM:{}", texts.iter().map(|text| format!("\n    {text}")).collect::<String>())
}

fn external_docs(value: &Value, indent: usize, width: usize) -> String {
    let Some(docs) = value.get("externalDocs").filter(|docs| docs.is_object()) else { return String::new() };
    let mut text = format!("{}EXTERNAL DOCS:\n", " ".repeat(indent));
    if let Some(own) = docs["description"].as_str().filter(|own| !own.is_empty()) {
        text += &format!("{}\n", indented(&wrapped(own, width), indent + 4));
    }
    if let Some(url) = docs["url"].as_str().filter(|url| !url.is_empty()) {
        text += &format!("{}URL: {url}\n", " ".repeat(indent + 4));
    }
    text
}

fn indented(text: &str, count: usize) -> String {
    let indent = " ".repeat(count);
    format!("{indent}{}", text.replace('\n', &format!("\n{indent}")))
}

/// Wraps text at spaces; words longer than the width are kept. Spaces at a wrap are dropped, others are kept.
fn wrapped(text: &str, width: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width)).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    let mut out = String::new();
    let (mut spaces, mut current) = (String::new(), 0);
    for piece in pieces(line) {
        let length = piece.chars().count();
        if piece.starts_with(char::is_whitespace) {
            spaces = piece.to_owned();
            continue;
        }
        let gap = spaces.chars().count();
        if current + gap + length > width && current + gap > 1 {
            out.push('\n');
            current = length;
        } else {
            out.push_str(&spaces);
            current += gap + length;
        }
        spaces.clear();
        out.push_str(piece);
    }
    if current + spaces.chars().count() <= width {
        out.push_str(&spaces);
    }
    out
}

/// Splits a line into words and the spaces between them.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut was_space = None;
    for (at, c) in line.char_indices() {
        let is_space = c.is_whitespace() && c != '\u{a0}';
        if was_space.is_some_and(|was| was != is_space) {
            pieces.push(&line[start..at]);
            start = at;
        }
        was_space = Some(is_space);
    }
    if start < line.len() {
        pieces.push(&line[start..]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::openapi::Document;

    fn document() -> Document {
        Document::given(json!({"components": {"schemas": {
            "io.k8s.Thing": {
                "description": "A thing.",
                "x-kubernetes-group-version-kind": [{"group": "a.io", "version": "v1", "kind": "Thing"}],
                "required": ["spec"],
                "properties": {
                    "spec": {"description": "What it is.", "allOf": [{"$ref": "#/components/schemas/io.k8s.Spec"}]},
                    "names": {"type": "array", "items": {"type": "string"}},
                },
            },
            "io.k8s.Spec": {"description": "The spec.", "type": "object", "properties": {
                "mode": {"type": "string", "enum": ["", "B"], "description": "How."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "self": {"$ref": "#/components/schemas/io.k8s.Spec"},
            }},
        }}}))
    }

    fn explained(path: &[&str], recursive: bool) -> anyhow::Result<String> {
        let (document, gvk) = (document(), GroupVersionKind::new("a.io", "v1", "Thing"));
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        explain(&gvk, document.schema(&gvk).unwrap(), &path, recursive)
    }

    #[test]
    fn a_resource_is_explained_with_its_fields() {
        let expected = "GROUP:      a.io\nKIND:       Thing\nVERSION:    v1\n\nDESCRIPTION:\n    A thing.\n    \nFIELDS:\n  \
                        names\t<[]string>\n    <no description>\n\n  spec\t<Spec> -required-\n    What it is.\n\n\n";
        assert_eq!(explained(&[], false).unwrap(), expected);
    }

    #[test]
    fn a_field_shows_its_type_and_values() {
        let text = explained(&["spec", "mode"], false).unwrap();
        assert!(text.contains("FIELD: mode <string>\nENUM:\n    \"\"\n    B\n\nDESCRIPTION:\n    How.\n"), "{text}");
        let text = explained(&["spec"], true).unwrap();
        assert!(
            text.contains("  labels\t<map[string]string>\n  mode\t<string>\n  enum: \"\", B\n  self\t<Spec>\n"),
            "{text}"
        );
        assert_eq!(explained(&["spec", "nope"], false).unwrap_err().to_string(), "field \"nope\" does not exist");
    }

    #[test]
    fn text_is_wrapped_at_spaces() {
        assert_eq!(wrapped("aaa bbb ccc", 7), "aaa bbb\nccc");
        assert_eq!(wrapped("aaaaaaaaaa bbb", 7), "aaaaaaaaaa\nbbb");
        assert_eq!(wrapped("a\n\nb  c", 7), "a\n\nb  c");
    }
}
