//! Malformed request bodies.

use super::{Case, MAPS, TARGET, case, made};
use crate::wire::JSON;

const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub fn cases() -> Vec<Case> {
    [broken(), deep(), numbers(), typed(), fields(), sizes(), protobuf(), mismatched(), cut()]
        .into_iter()
        .flatten()
        .collect()
}

fn broken() -> Vec<Case> {
    vec![
        made("an empty body", JSON, "").bad(),
        made("half an object", JSON, r#"{"apiVersion":"v1""#).bad(),
        made("a word", JSON, "hello").bad(),
        made("something behind the object", JSON, r#"{"apiVersion":"v1","kind":"ConfigMap"}}"#).bad(),
        made("a list instead of an object", JSON, "[]").bad(),
        made("null instead of an object", JSON, "null").is(422, "Invalid"),
        made("a text instead of an object", JSON, "\"x\"").bad(),
        made("bytes that are no UTF-8 around JSON", JSON, b"\xff\xfe{".to_vec()).bad(),
        made(
            "a lone surrogate",
            JSON,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":"\ud800"}"#,
        )
        .bad(),
        made("YAML that never closes", YAML, "apiVersion: [").bad(),
        made("YAML with tabs", YAML, "a:\n\t- b: {").bad(),
        made("bytes that are no UTF-8 in YAML", YAML, b"a: \xff\xfe".to_vec()).bad(),
        made("YAML that is a text", YAML, "hello").bad(),
        made("YAML as JSON", JSON, "apiVersion: v1\nkind: ConfigMap\n").bad(),
    ]
}

fn deep() -> Vec<Case> {
    let object =
        |inner: String| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x"}},"x":{inner}}}"#);
    let lists = "[".repeat(100_000);
    let closed = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let maps = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let blocks: String = (0..1500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let bomb: String = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        let below = format!("*a{},", level - 1).repeat(9);
        format!("{text}a{level}: &a{level} [{below}]\n")
    });
    vec![
        made("lists in lists without an end", JSON, lists.clone()).bad(),
        made("lists in lists", JSON, closed.clone()).bad(),
        made("deep lists inside an object", JSON, object(closed)).bad(),
        made("deep maps inside an object", JSON, object(maps.clone())).bad(),
        made("deep lists in YAML", YAML, lists).bad(),
        made("deep maps in YAML", YAML, maps).bad(),
        made("deep blocks in YAML", YAML, blocks).bad().unlike(
            "our reader stops at a depth long before its stack ends",
            422,
            "Invalid",
        ),
        made("aliases of aliases of aliases", YAML, bomb).bad(),
    ]
}

fn numbers() -> Vec<Case> {
    let service = |port: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"x"}},"spec":{{"ports":[{{"port":{port}}}]}}}}"#
        )
    };
    let services = |name, port: &str| {
        case(name, "POST", "/api/v1/namespaces/default/services?dryRun=All")
            .header("Content-Type", JSON)
            .body(service(port))
    };
    let digits = "9".repeat(400);
    vec![
        services("a number beyond every float", "1e999").bad(),
        services("a number of 400 digits", &digits).bad(),
        services("a number beyond 32 bits", "4294967297").bad(),
        services("a fraction where a whole number belongs", "80.5").bad(),
        services("a number with a leading zero", "080").bad(),
        services("not a number", "NaN").bad(),
        services("a text where a number belongs", "\"80\"").bad(),
        services("a port out of range", "70000").is(422, "Invalid").says("must be between 1 and 65535"),
    ]
}

fn typed() -> Vec<Case> {
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    let accept = |name, accept: &'static str| case(name, "GET", TARGET).header("Accept", accept);
    vec![
        made("XML", "application/xml", body).is(415, "UnsupportedMediaType"),
        made("plain text", "text/plain", body).is(415, "UnsupportedMediaType"),
        made("a content type that is none", "garbage;;;", body).is(415, "UnsupportedMediaType"),
        made("a form", "application/x-www-form-urlencoded", body).is(415, "UnsupportedMediaType"),
        accept("an answer as XML", "application/xml").is(406, "NotAcceptable"),
        accept("an answer as an image", "image/png, text/html").is(406, "NotAcceptable"),
        accept("a table of an unknown version", "application/json;as=Table;v=v7;g=meta.k8s.io")
            .is(406, "NotAcceptable"),
        accept("as something unknown", "application/json;as=Poem;v=v1;g=meta.k8s.io").is(406, "NotAcceptable"),
    ]
}

fn fields() -> Vec<Case> {
    let unknown = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"color":"red"}"#;
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","name":"x"},"data":{"a":"1"}}"#;
    let of = |name, mode: &str, body: &'static str| {
        case(name, "POST", format!("{MAPS}?dryRun=All&fieldValidation={mode}")).header("Content-Type", JSON).body(body)
    };
    vec![
        of("an unknown field, strictly", "Strict", unknown)
            .bad()
            .says("strict decoding error: unknown field \\\"color\\\""),
        of("an unknown field, warned of", "Warn", unknown).is(201, "").says("unknown field \\\"color\\\""),
        of("an unknown field, ignored", "Ignore", unknown).is(201, ""),
        of("a field twice, strictly", "Strict", twice).bad().says("duplicate field \\\"metadata.name\\\""),
        of("a field twice, warned of", "Warn", twice).is(201, "").says("duplicate field \\\"metadata.name\\\""),
        of("an unknown mode of validation", "Sometimes", unknown).is(422, "Invalid").says("fieldValidation"),
    ]
}

fn sizes() -> Vec<Case> {
    let map = |bytes: usize| {
        let filler = "x".repeat(bytes);
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"big"}},"data":{{"a":"{filler}"}}}}"#)
    };
    let annotated = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"big","annotations":{{"a":"{}"}}}}}}"#,
        "x".repeat(300 << 10)
    );
    let endpoints = |bytes: usize| {
        let filler = "x".repeat(bytes);
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{{"name":"big"}},"rules":[{{"verbs":["{filler}"],"apiGroups":[""],"resources":["pods"]}}]}}"#
        )
    };
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    vec![
        made("a body above three megabytes", JSON, map(3 << 20)).is(413, "RequestEntityTooLarge"),
        made("a map above one megabyte", JSON, map(2 << 20)).is(422, "Invalid").says("Too long"),
        made("annotations above 256 kilobytes", JSON, annotated).is(422, "Invalid").says("Too long"),
        case("an object too large to store", "POST", roles)
            .header("Content-Type", JSON)
            .body(endpoints(2 << 20))
            .is(413, "RequestEntityTooLarge")
            .unlike("theirs fails between the server and etcd, with that library's words", 500, ""),
    ]
}

fn protobuf() -> Vec<Case> {
    let envelope = |raw: &[u8]| {
        let mut bytes = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
        bytes.push(u8::try_from(raw.len()).expect("short"));
        bytes.extend_from_slice(raw);
        bytes
    };
    vec![
        made("protobuf without its magic", PROTOBUF, "garbage").bad(),
        made("protobuf of only its magic", PROTOBUF, "k8s\0").bad(),
        made("protobuf with a bad envelope", PROTOBUF, b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec())
            .bad(),
        made("protobuf with a bad message", PROTOBUF, envelope(b"\x0a\xff\xff\xff\xff\x0f")).bad(),
        made("protobuf with a wrong wire type", PROTOBUF, envelope(b"\x08\x01")).bad(),
        made("JSON as protobuf", PROTOBUF, r#"{"apiVersion":"v1","kind":"ConfigMap"}"#).bad(),
    ]
}

fn mismatched() -> Vec<Case> {
    let map = |metadata: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}"#);
    let put = |name, metadata: &str| case(name, "PUT", TARGET).header("Content-Type", JSON).body(map(metadata));
    vec![
        made("another namespace than the URL's", JSON, map(r#"{"name":"x","namespace":"other"}"#)).bad(),
        put("another name than the URL's", r#"{"name":"other"}"#).bad(),
        put("another namespace in an update", r#"{"name":"target","namespace":"other"}"#).bad(),
        put("no name in an update", "{}").bad(),
        made("no name at all", JSON, map("{}")).is(422, "Invalid").says("name or generateName is required"),
        made("a name that is none", JSON, map(r#"{"name":"A_b"}"#)).is(422, "Invalid"),
        made("another kind", JSON, r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}"#).bad(),
        made("another version", JSON, r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}"#).bad(),
        made("an unknown kind", JSON, r#"{"apiVersion":"v1","kind":"Nothing","metadata":{"name":"x"}}"#).bad(),
        case("no kind", "POST", format!("{MAPS}?dryRun=All"))
            .header("Content-Type", JSON)
            .body(r#"{"apiVersion":"v1","metadata":{"name":"x"}}"#)
            .is(201, ""),
        made("labels that are a list", JSON, map(r#"{"name":"x","labels":[]}"#)).bad(),
        made("a label that is a number", JSON, map(r#"{"name":"x","labels":{"a":1}}"#)).bad(),
        put("a version that is no number", r#"{"name":"target","resourceVersion":"abc"}"#).is(409, "Conflict").unlike(
            "kube-apiserver returns an internal error",
            500,
            "",
        ),
        put("a version long gone", r#"{"name":"target","resourceVersion":"1"}"#).is(409, "Conflict"),
        put("the uid of another", r#"{"name":"target","uid":"other"}"#).is(409, "Conflict"),
        made("a version on creation", JSON, map(r#"{"name":"x","resourceVersion":"5"}"#))
            .is(500, "")
            .says("resourceVersion should not be set on objects to be created"),
    ]
}

fn cut() -> Vec<Case> {
    let chunked = |name, body: &'static str| {
        case(name, "POST", MAPS).header("Content-Type", JSON).header("Transfer-Encoding", "chunked").body(body)
    };
    vec![
        made("less than announced", JSON, r#"{"apiVersion":"v1","#).length(500).bad().ours_alone(),
        chunked("chunks without an end", "5\r\n{\"api\r\n").bad().ours_alone(),
        chunked("a chunk cut short", "50\r\n{\"api").bad().ours_alone(),
        chunked("a chunk whose length is none", "zz\r\n{}\r\n0\r\n\r\n").bad().unlike(
            "kube-apiserver returns an internal error",
            500,
            "",
        ),
        case("a DELETE with garbage", "DELETE", TARGET).header("Content-Type", JSON).body("{{{").bad(),
        case("a DELETE of another kind", "DELETE", TARGET)
            .header("Content-Type", JSON)
            .body(r#"{"kind":"Pod","apiVersion":"v1"}"#)
            .bad(),
        case("a DELETE with an unknown policy", "DELETE", TARGET)
            .header("Content-Type", JSON)
            .body(r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Sometimes"}"#)
            .is(422, "Invalid"),
        case("a DELETE with a wrong uid", "DELETE", TARGET)
            .header("Content-Type", JSON)
            .body(r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"}}"#)
            .is(409, "Conflict"),
        case("a DELETE with a wrong dry run", "DELETE", TARGET)
            .header("Content-Type", JSON)
            .body(r#"{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["Some"]}"#)
            .is(422, "Invalid"),
    ]
}
