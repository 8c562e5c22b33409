//! The `fieldPath` of a rule: a JSON path of fields and map keys, checked against the schema.

use crate::schema::Schema;
use object::FieldPath;

/// The path in the notation of errors; `None` if it does not exist in the schema.
pub(super) fn normalize(path: &str, schema: &Schema) -> Option<FieldPath> {
    let mut normal = FieldPath::root();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            (name.to_owned(), after)
        } else {
            let (quoted, after) = read_quoted(rest.strip_prefix("['")?)?;
            (quoted, after.strip_prefix(']')?)
        };
        if name.is_empty() {
            return None;
        }
        rest = after;
        match &schema.properties {
            Some(properties) => {
                normal = normal.child(&name);
                schema = properties.get(&name)?;
            }
            None => {
                normal = normal.key(&name);
                schema = schema.additional.as_deref()?;
            }
        }
    }
    Some(normal)
}

/// The text up to the closing quote, unescaped, and the rest after the quote.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((out, &text[at + 1..])),
            '\\' => out.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                kept @ ('\'' | '\\') => kept,
                _ => return None,
            }),
            other => out.push(other),
        }
    }
    None
}
