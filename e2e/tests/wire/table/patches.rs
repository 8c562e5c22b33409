//! Malformed patches, and patches that try to exhaust memory.

use super::{Case, TARGET, case};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn patch(name: &'static str, content_type: &'static str, body: impl Into<Vec<u8>>) -> Case {
    case(name, "PATCH", TARGET).header("Content-Type", content_type).body(body)
}

fn apply(name: &'static str, query: &str, body: impl Into<Vec<u8>>) -> Case {
    case(name, "PATCH", format!("{TARGET}?{query}")).header("Content-Type", APPLY).body(body)
}

pub fn cases() -> Vec<Case> {
    [json(), merge(), applied()].into_iter().flatten().collect()
}

fn json() -> Vec<Case> {
    let operation = r#"{"op":"add","path":"/data/a","value":"1"},"#.repeat(60_000);
    let many = format!("[{}]", operation.trim_end_matches(','));
    let doubling: Vec<String> =
        (0..40).map(|n| format!(r#"{{"op":"copy","from":"/data","path":"/data/c{n}"}}"#)).collect();
    let from_below: Vec<String> = std::iter::once(
        r#"{"op":"add","path":"/x","value":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}"#.to_owned(),
    )
    .chain((0..40).map(|_| r#"{"op":"copy","from":"/x","path":"/x/0"}"#.to_owned()))
    .collect();
    let nested = format!("{}{{}}{}", r#"{"x":"#.repeat(99), "}".repeat(99));
    let nesting: Vec<String> = std::iter::once(r#"{"op":"add","path":"/q0","value":{}}"#.to_owned())
        .chain((0..200).flat_map(|round| {
            let (from, to) = (round % 2, (round + 1) % 2);
            let path = "/x".repeat(100);
            [
                format!(r#"{{"op":"add","path":"/q{to}","value":{nested}}}"#),
                format!(r#"{{"op":"move","from":"/q{from}","path":"/q{to}{path}"}}"#),
            ]
        }))
        .collect();
    vec![
        patch("moves that nest 20000 levels", JSON_PATCH, format!("[{}]", nesting.join(",")))
            .is(422, "Invalid")
            .says("levels deep")
            .ours_alone(),
        patch("a JSON patch that is no list", JSON_PATCH, "{}").bad(),
        patch("a JSON patch that is no JSON", JSON_PATCH, "[{").bad(),
        patch("60000 operations", JSON_PATCH, many).is(413, "RequestEntityTooLarge"),
        patch("copies that double", JSON_PATCH, format!("[{}]", doubling.join(","))).is(422, "Invalid"),
        patch("copies of lists that double", JSON_PATCH, format!("[{}]", from_below.join(","))).is(422, "Invalid"),
        patch("an unknown operation", JSON_PATCH, r#"[{"op":"explode","path":"/data"}]"#).is(422, "Invalid"),
        patch("a path that does not exist", JSON_PATCH, r#"[{"op":"replace","path":"/nothing/here","value":1}]"#)
            .is(422, "Invalid"),
        patch("a test that fails", JSON_PATCH, r#"[{"op":"test","path":"/data/a","value":"no"}]"#).is(422, "Invalid"),
        patch(
            "an absurd index",
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/finalizers/99999999999999999999","value":"x"}]"#,
        )
        .is(422, "Invalid"),
        patch("operations that are numbers", JSON_PATCH, "[1,2,3]").bad(),
        patch("no operation", JSON_PATCH, "[{}]").is(422, "Invalid"),
        patch("the whole document away", JSON_PATCH, r#"[{"op":"remove","path":""}]"#).is(422, "Invalid"),
        patch("another name", JSON_PATCH, r#"[{"op":"replace","path":"/metadata/name","value":"other"}]"#).bad(),
    ]
}

fn merge() -> Vec<Case> {
    let deep = format!("{}1{}", r#"{"data":"#.repeat(50_000), "}".repeat(50_000));
    vec![
        patch("a merge patch that is no JSON", MERGE, "{{{").bad(),
        patch("a merge patch that is a list", MERGE, "[]").bad(),
        patch("a merge patch that is a text", MERGE, "\"x\"").bad(),
        patch("a deep merge patch", MERGE, deep.clone()).bad(),
        patch("a merge patch with a wrong type", MERGE, r#"{"data":{"a":1}}"#)
            .is(422, "Invalid")
            .says("patch: Invalid value"),
        patch("a merge patch with a stale version", MERGE, r#"{"metadata":{"resourceVersion":"1"}}"#)
            .is(409, "Conflict"),
        patch("a strategic patch that is a list", STRATEGIC, "[]").bad(),
        patch("a deep strategic patch", STRATEGIC, deep).bad(),
        patch("an unknown directive", STRATEGIC, r#"{"data":{"$patch":"explode"}}"#)
            .is(500, "")
            .says("unknown patch type"),
        patch("a patch as plain JSON", "application/json", "{}").is(415, "UnsupportedMediaType"),
        patch("a patch as text", "text/plain", "{}").is(415, "UnsupportedMediaType"),
        case("a patch without a type", "PATCH", TARGET).body("{}").is(415, "UnsupportedMediaType"),
        case("force on a merge patch", "PATCH", format!("{TARGET}?force=true"))
            .header("Content-Type", MERGE)
            .body("{}")
            .is(422, "Invalid"),
        case("a patch of a missing object", "PATCH", "/api/v1/namespaces/default/configmaps/nothing")
            .header("Content-Type", MERGE)
            .body("{}")
            .is(404, "NotFound"),
        case("a patch of a collection", "PATCH", "/api/v1/namespaces/default/configmaps")
            .header("Content-Type", MERGE)
            .body("{}")
            .is(405, "MethodNotAllowed"),
    ]
}

fn applied() -> Vec<Case> {
    let map =
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"},\"data\":{\"a\":\"2\"}}";
    let managed = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"target","managedFields":[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]}}"#;
    let bomb: String = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        format!("{text}a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(9))
    });
    vec![
        case("apply without a manager", "PATCH", TARGET)
            .header("Content-Type", APPLY)
            .body(map)
            .is(422, "Invalid")
            .says("fieldManager"),
        apply("apply of no YAML", "fieldManager=x", "a: [").bad(),
        apply("apply of a list", "fieldManager=x", "[]").bad(),
        apply("apply without a kind", "fieldManager=x", "metadata: {name: target}").bad(),
        apply("apply of another kind", "fieldManager=x", "{apiVersion: v1, kind: Secret, metadata: {name: target}}")
            .bad(),
        apply("apply with managed fields", "fieldManager=x", managed).bad(),
        apply("apply over another's field", "fieldManager=x", map).is(409, "Conflict").says("conflict"),
        apply(
            "apply under another name",
            "fieldManager=x",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}",
        )
        .bad(),
        apply(
            "apply of an unknown field, strictly",
            "fieldManager=x&fieldValidation=Strict",
            "{apiVersion: v1, kind: ConfigMap, color: red}",
        )
        .is(500, "")
        .says("field not declared in schema"),
        apply("apply of an alias bomb", "fieldManager=x", bomb).bad(),
        case("a manager's name too long", "PATCH", format!("{TARGET}?fieldManager={}", "x".repeat(200)))
            .header("Content-Type", MERGE)
            .body("{}")
            .is(422, "Invalid"),
        case("a manager's name that cannot be printed", "PATCH", format!("{TARGET}?fieldManager=a%07b"))
            .header("Content-Type", MERGE)
            .body("{}")
            .is(422, "Invalid"),
    ]
}
