//! The fields of a response that a caller asked for.

use object::Status;
use serde_json::Value;

use crate::method::{Field, FieldKind, Message};

/// Fields about the whole answer. A list without them could look complete when it is not.
const ALWAYS: [&str; 6] = ["next_page_token", "total", "version", "unread", "as_of", "kept"];

/// Refuses paths that lead to no field of the response.
pub fn check(response: &Message, paths: &[String]) -> Result<(), Status> {
    match paths.iter().find(|path| !leads_to_field(response, path)) {
        Some(unknown) => Err(Status::bad_request(format!("fields: {unknown} is not a field of the answer"))),
        None => Ok(()),
    }
}

/// Refuses a selection where the response has no fields.
pub fn check_none(paths: &[String]) -> Result<(), Status> {
    match paths.is_empty() {
        true => Ok(()),
        false => Err(Status::bad_request("fields: this method returns whole objects")),
    }
}

fn leads_to_field(response: &Message, path: &str) -> bool {
    let mut current = Some(response);
    for part in path.split('.') {
        let Some(field) = current.and_then(|message| message.field(part)) else { return false };
        current = inner(field);
    }
    true
}

fn inner(field: &Field) -> Option<&'static Message> {
    match field.kind {
        FieldKind::Message(message) => Some(message),
        _ => None,
    }
}

/// Keeps the fields at the paths, and those about the whole answer.
pub fn select(answer: &mut Value, response: &Message, paths: &[String]) {
    let mut wanted: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
    wanted.extend(ALWAYS.iter().map(|name| vec![*name]));
    let wanted: Vec<&[&str]> = wanted.iter().map(Vec::as_slice).collect();
    keep(answer, response, &wanted);
}

/// Lists of messages are selected item by item.
fn keep(value: &mut Value, message: &Message, wanted: &[&[&str]]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| keep(item, message, wanted)),
        Value::Object(fields) => fields.retain(|json, value| {
            let Some(field) = message.fields.iter().find(|field| field.json == json) else { return false };
            let is_meant = |name: &str| name == field.name || name == field.json;
            let below: Vec<&[&str]> = wanted
                .iter()
                .filter(|path| path.first().is_some_and(|name| is_meant(name)))
                .map(|path| &path[1..])
                .collect();
            if let Some(message) = inner(field)
                && !below.iter().any(|rest| rest.is_empty())
            {
                keep(value, message, &below);
            }
            !below.is_empty()
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn text(name: &'static str, json: &'static str) -> Field {
        Field { name, json, kind: FieldKind::Text, repeated: false }
    }

    static SUMMARY: Message = Message { fields: &[text("nodes", "nodes"), text("pods", "pods")] };
    static ITEM: Message = Message {
        fields: &[
            text("display_name", "displayName"),
            Field { name: "summary", json: "summary", kind: FieldKind::Message(&SUMMARY), repeated: false },
            Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
        ],
    };
    static LIST: Message = Message {
        fields: &[
            Field { name: "items", json: "items", kind: FieldKind::Message(&ITEM), repeated: true },
            text("next_page_token", "nextPageToken"),
            text("hint", "hint"),
        ],
    };

    #[track_caller]
    fn check_selected(paths: &[&str], expected: Value) {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        check(&LIST, &paths).expect("known fields");
        let item = json!({"displayName": "East", "summary": {"nodes": "1", "pods": "2"}, "labels": {"a": "b"}});
        let mut answer = json!({"items": [item], "nextPageToken": "t", "hint": "h"});
        select(&mut answer, &LIST, &paths);
        assert_eq!(answer, expected);
    }

    #[test]
    fn the_fields_at_the_paths_and_the_page_token_are_kept() {
        let answer = |item: Value| json!({"items": [item], "nextPageToken": "t"});
        check_selected(&["items.display_name"], answer(json!({"displayName": "East"})));
        check_selected(&["items.displayName"], answer(json!({"displayName": "East"})));
        check_selected(
            &["items.summary.pods", "items.labels"],
            answer(json!({"summary": {"pods": "2"}, "labels": {"a": "b"}})),
        );
        check_selected(&["items.summary"], answer(json!({"summary": {"nodes": "1", "pods": "2"}})));
        check_selected(
            &["items.summary.pods", "items.summary"],
            answer(json!({"summary": {"nodes": "1", "pods": "2"}})),
        );
        check_selected(&["hint"], json!({"nextPageToken": "t", "hint": "h"}));
    }

    #[test]
    fn paths_without_a_field_are_refused() {
        for wrong in ["name", "items.name", "items.labels.a", "items..summary", "hint.x", ""] {
            assert!(check(&LIST, &[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(check_none(&[]).is_ok() && check_none(&["items".to_owned()]).is_err());
    }
}
