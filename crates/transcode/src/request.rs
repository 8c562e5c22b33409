//! An HTTP request as the JSON form of a message: values of the path, parameters of the URL and the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Status;
use serde_json::{Map, Value, json};

use crate::method::{Field, FieldKind, HttpRoute, Message, Method};

/// The field that lists what an update changes. It is derived from the body when it is absent.
const UPDATE_MASK: &str = "updateMask";
/// A parameter that turns off the check for unknown parameters.
const STRICT: &str = "strict";

/// The parts of an HTTP request that become a message.
pub struct RequestParts<'a> {
    /// Fields that the path names, with their values.
    pub bound: &'a [(&'static str, String)],
    pub query: &'a str,
    pub content_type: &'a str,
    pub body: &'a [u8],
}

/// Returns the message in its JSON form. Parameters that the message does not have are refused.
pub fn message(method: &Method, route: &HttpRoute, parts: &RequestParts) -> Result<Value, Status> {
    let mut root = body(method, route, parts)?;
    let pairs: Vec<(String, String)> = form_urlencoded::parse(parts.query.as_bytes()).into_owned().collect();
    let is_strict = !pairs.iter().any(|(name, value)| name == STRICT && value == "false");
    for (name, value) in pairs.iter().filter(|(name, _)| name != STRICT) {
        let is_taken = route.body == "*" || name.split('.').next() == Some(route.body);
        let is_bound = parts.bound.iter().any(|(field, _)| field == name);
        match find(method.request, name) {
            Some(_) if is_taken || is_bound => {
                return Err(invalid(name, "is given by the path or the body, not as a parameter"));
            }
            Some(path) => set(&mut root, &path, value, name)?,
            None if is_strict => return Err(invalid(name, "unknown parameter")),
            None => {}
        }
    }
    for (name, value) in parts.bound {
        let path = find(method.request, name).ok_or_else(|| invalid(name, "is not a field"))?;
        remove(&mut root, &path);
        set(&mut root, &path, value, name)?;
    }
    Ok(Value::Object(root))
}

fn body(method: &Method, route: &HttpRoute, parts: &RequestParts) -> Result<Map<String, Value>, Status> {
    let mut root = Map::new();
    match route.body {
        "" if !parts.body.is_empty() => Err(Status::bad_request("this method takes no request body")),
        "" => Ok(root),
        "*" => match parse(parts.body)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(Status::bad_request("the request body must be a JSON object")),
        },
        name => {
            let field = method.request.field(name).ok_or_else(|| invalid(name, "is not a field"))?;
            let value = match field.kind {
                FieldKind::Raw => json!({"contentType": parts.content_type, "data": STANDARD.encode(parts.body)}),
                _ => parse(parts.body)?,
            };
            if route.verb == "PATCH"
                && let Some(mask) = method.request.field(UPDATE_MASK)
            {
                root.insert(mask.json.to_owned(), mask_of(&value).into());
            }
            root.insert(field.json.to_owned(), value);
            Ok(root)
        }
    }
}

/// Lists the top-level fields that are present.
fn mask_of(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
}

fn parse(body: &[u8]) -> Result<Value, Status> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    let value = serde_json::from_slice(body);
    let mut value: Value =
        value.map_err(|error| Status::bad_request(format!("the request body is not JSON: {error}")))?;
    drop_nulls(&mut value);
    Ok(value)
}

/// `null` means that a field is not set.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Returns the fields on the way to a dotted name.
fn find(message: &'static Message, name: &str) -> Option<Vec<&'static Field>> {
    let (mut current, mut path) = (Some(message), Vec::new());
    for part in name.split('.') {
        let field = current?.field(part)?;
        current = match field.kind {
            FieldKind::Message(message) if !field.repeated => Some(message),
            _ => None,
        };
        path.push(field);
    }
    Some(path)
}

fn remove(root: &mut Map<String, Value>, path: &[&Field]) {
    let Some((last, before)) = path.split_last() else { return };
    let mut current = root;
    for field in before {
        match current.get_mut(field.json).or(None) {
            Some(Value::Object(fields)) => current = fields,
            _ => return,
        }
    }
    current.remove(last.json);
    current.remove(last.name);
}

fn set(root: &mut Map<String, Value>, path: &[&Field], text: &str, name: &str) -> Result<(), Status> {
    let Some((last, before)) = path.split_last() else { return Ok(()) };
    let value = scalar(last, text).ok_or_else(|| invalid(name, "has a value of another type"))?;
    let mut current = root;
    for field in before {
        let next = current.entry(field.json).or_insert_with(|| json!({}));
        current = next.as_object_mut().ok_or_else(|| invalid(name, "must be an object"))?;
    }
    if last.repeated {
        let list = current.entry(last.json).or_insert_with(|| json!([]));
        list.as_array_mut().ok_or_else(|| invalid(name, "must be a list"))?.push(value);
    } else if current.insert(last.json.to_owned(), value).is_some() && last.json != UPDATE_MASK {
        return Err(invalid(name, "is given more than once"));
    }
    Ok(())
}

fn scalar(field: &Field, text: &str) -> Option<Value> {
    Some(match field.kind {
        FieldKind::Text => text.into(),
        FieldKind::Bool => text.parse::<bool>().ok()?.into(),
        FieldKind::Integer => text.parse::<i64>().ok()?.into(),
        FieldKind::Float => text.parse::<f64>().ok()?.into(),
        FieldKind::Message(_) | FieldKind::Raw | FieldKind::Other => return None,
    })
}

fn invalid(field: &str, problem: &str) -> Status {
    Status::bad_request(format!("{field}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Output;

    static INNER: Message = Message {
        fields: &[
            Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
            Field { name: "display_name", json: "displayName", kind: FieldKind::Text, repeated: false },
        ],
    };
    static OUTER: Message = Message {
        fields: &[
            Field { name: "instance", json: "instance", kind: FieldKind::Message(&INNER), repeated: false },
            Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
            Field { name: "kinds", json: "kinds", kind: FieldKind::Text, repeated: true },
            Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
            Field { name: "update_mask", json: "updateMask", kind: FieldKind::Text, repeated: false },
            Field { name: "content", json: "content", kind: FieldKind::Raw, repeated: false },
        ],
    };
    static METHOD: Method = Method {
        service: "s",
        name: "m",
        routes: &[],
        request: &OUTER,
        response: None,
        output: Output::Message,
        permission: "",
    };

    #[track_caller]
    fn check(verb: &'static str, body: &'static str, query: &str, sent: &str, expected: Result<Value, &str>) {
        let route = HttpRoute { verb, template: "/x/{instance.name}", body };
        let bound = [("instance.name", "east".to_owned())];
        let parts = RequestParts { bound: &bound, query, content_type: "text/plain", body: sent.as_bytes() };
        let found = message(&METHOD, &route, &parts);
        match expected {
            Ok(value) => assert_eq!(found.expect("a message"), value),
            Err(text) => {
                let error = found.expect_err("an error").message;
                assert!(error.contains(text), "{error}");
            }
        }
    }

    #[test]
    fn path_parameters_and_body_become_one_message() {
        let named = json!({"name": "east"});
        check("GET", "", "", "", Ok(json!({"instance": named})));
        check(
            "GET",
            "",
            "page_size=5&kinds=a&kinds=b&validateOnly=true",
            "",
            Ok(json!({"instance": named, "pageSize": 5, "kinds": ["a", "b"], "validateOnly": true})),
        );
        check("GET", "", "pageSize=x", "", Err("pageSize: has a value of another type"));
        check("GET", "", "size=1", "", Err("size: unknown parameter"));
        check("GET", "", "size=1&strict=false", "", Ok(json!({"instance": named})));
        check("GET", "", "page_size=5&pageSize=6", "", Err("more than once"));
        check("GET", "", "instance.name=west", "", Err("given by the path"));
        check("GET", "", "", "{}", Err("takes no request body"));
        check(
            "POST",
            "*",
            "",
            r#"{"pageSize": 1, "kinds": null, "instance": {"name": "west"}}"#,
            Ok(json!({"instance": named, "pageSize": 1})),
        );
        check("POST", "*", "pageSize=1", "{}", Err("given by the path or the body"));
        check("POST", "*", "", "[]", Err("must be a JSON object"));
        check("POST", "*", "", "{", Err("is not JSON"));
        let patched = json!({"instance": {"name": "east", "displayName": "E"}, "updateMask": "displayName"});
        check("PATCH", "instance", "", r#"{"displayName": "E"}"#, Ok(patched.clone()));
        check("PATCH", "instance", "updateMask=displayName", r#"{"displayName": "E", "name": "east"}"#, Ok(patched));
        let raw = json!({"instance": named, "content": {"contentType": "text/plain", "data": "aGk="}});
        check("PUT", "content", "", "hi", Ok(raw));
    }
}
