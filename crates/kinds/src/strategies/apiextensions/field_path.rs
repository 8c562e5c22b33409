//! Paths such as `.spec.size` or `.labels['a.b']` that must lead to a declared field.

use serde_json::Value;

/// The names in the path and the schema at the end, or the error.
pub(super) fn resolve<'a>(path: &str, schema: &'a Value, brackets: bool) -> Result<(Vec<String>, &'a Value), String> {
    let tokens = tokens(path);
    let mut tokens = tokens.into_iter();
    let mut names = Vec::new();
    let mut schema = schema;
    let missing_end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(missing_end)?;
                let name = quoted.strip_prefix('\'').and_then(|q| q.strip_suffix('\''));
                name.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?.replace("\\'", "'")
            }
            "." => tokens.next().ok_or_else(missing_end)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        schema = step(schema, &name).ok_or("does not refer to a valid field")?;
        names.push(name);
        if token == "[" {
            match tokens.next().ok_or_else(missing_end)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok((names, schema))
}

fn step<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    match schema.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty()) {
        Some(properties) => properties.get(name),
        None => schema.get("additionalProperties").filter(|additional| additional.is_object()),
    }
}

/// Dots and brackets are tokens; quotes hide both.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => rest[1..].find('\'').map_or(rest.len(), |at| at + 2),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}
