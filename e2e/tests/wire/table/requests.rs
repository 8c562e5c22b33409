//! Unusual methods, paths, headers and HTTP versions.

use super::{Case, MAPS, TARGET, case};
use crate::wire::JSON;

const EXAMPLE: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"target"}}"#;

pub fn cases() -> Vec<Case> {
    [methods(), paths(), headers(), versions()].into_iter().flatten().collect()
}

fn methods() -> Vec<Case> {
    vec![
        case("PUT on a collection", "PUT", MAPS).header("Content-Type", JSON).body(EXAMPLE).is(405, "MethodNotAllowed"),
        case("POST on an object", "POST", TARGET)
            .header("Content-Type", JSON)
            .body(EXAMPLE)
            .is(405, "MethodNotAllowed"),
        case("an invented method", "EXPLODE", TARGET).is(405, "MethodNotAllowed"),
        case("TRACE", "TRACE", TARGET).is(405, "MethodNotAllowed"),
        case("OPTIONS", "OPTIONS", TARGET).is(405, "MethodNotAllowed"),
        case("a POST to a document", "POST", "/version").is(405, "MethodNotAllowed"),
        case("a POST to discovery", "POST", "/apis").is(405, "MethodNotAllowed").unlike(
            "theirs serves the document to any method",
            200,
            "",
        ),
        case("a DELETE of a status", "DELETE", "/api/v1/namespaces/default/status").is(405, "MethodNotAllowed"),
        case("a GET of a review", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .is(405, "MethodNotAllowed"),
        case("a DELETE of all namespaces", "DELETE", "/api/v1/namespaces").is(405, "MethodNotAllowed"),
        case("a watch of an object with POST", "POST", format!("{MAPS}?watch=1"))
            .header("Content-Type", JSON)
            .body("{}")
            .is(422, "Invalid"),
    ]
}

fn paths() -> Vec<Case> {
    vec![
        case("an unknown path", "GET", "/nothing").is(404, ""),
        case("an unknown group", "GET", "/apis/nothing.example/v1").is(404, ""),
        case("an unknown group's resource", "GET", "/apis/nothing.example/v1/things").is(404, ""),
        case("an unknown version", "GET", "/api/v7/pods").is(404, "NotFound"),
        case("an unknown resource", "GET", "/api/v1/namespaces/default/nothings").is(404, "NotFound"),
        case("an unknown subresource", "GET", format!("{TARGET}/nothing")).is(404, "NotFound"),
        case("a status where there is none", "GET", format!("{TARGET}/status")).is(404, "NotFound"),
        case("a path too long", "GET", format!("{TARGET}/a/b/c/d/e")).is(404, "NotFound"),
        case("a missing object", "GET", format!("{MAPS}/nothing")).is(404, "NotFound"),
        case("a slash within a name", "GET", format!("{MAPS}/a%2Fb")).is(404, "NotFound"),
        case("a zero byte within a name", "GET", format!("{MAPS}/a%00b")).is(404, "NotFound"),
        case("a percent sign that escapes nothing", "GET", format!("{MAPS}/a%zz")).is(400, ""),
        case("bytes that are no UTF-8 in a name", "GET", format!("{MAPS}/%ff%fe")).is(404, "NotFound"),
        case("a name of ten thousand letters", "GET", format!("{MAPS}/{}", "x".repeat(10_000))).is(404, "NotFound"),
        case("dots upwards", "GET", "/api/v1/namespaces/default/configmaps/../../../../../etc/passwd")
            .is(404, "NotFound"),
        case("escaped dots upwards", "GET", "/api/v1/namespaces/default/configmaps/%2e%2e%2f%2e%2e%2fsecrets")
            .is(404, "NotFound"),
        case("a name of dots", "GET", format!("{MAPS}/%2e%2e")).bad().says("may not be '..'"),
        case("a percent sign within a name", "GET", format!("{MAPS}/a%25b")).bad(),
        case("slashes in a row", "GET", "//api//v1//namespaces").is(404, ""),
        case("a namespaced path of a cluster's kind", "GET", "/api/v1/namespaces/default/nodes").is(404, "NotFound"),
        case("a cluster's path of a namespaced object", "GET", "/api/v1/configmaps/target").is(404, "NotFound"),
        case("a creation across namespaces", "POST", "/api/v1/configmaps")
            .header("Content-Type", JSON)
            .body(EXAMPLE)
            .is(405, "MethodNotAllowed"),
        case("a deletion across namespaces", "DELETE", "/api/v1/configmaps").is(405, "MethodNotAllowed"),
        case("an old watch path of nothing", "GET", "/api/v1/watch/nothings").is(404, "NotFound"),
    ]
}

fn headers() -> Vec<Case> {
    let asks = |name, header, value: &str| case(name, "GET", TARGET).header(header, value);
    vec![
        asks("impersonation of a group alone", "Impersonate-Group", "system:masters").bad(),
        asks("impersonation extras without a user", "Impersonate-Extra-x", "y").bad(),
        asks("impersonation of a uid alone", "Impersonate-Uid", "1").bad(),
        asks("impersonation of one without rights", "Impersonate-User", "stranger").is(403, "Forbidden"),
        asks("impersonation of garbage", "Impersonate-User", "\u{1f600}%00%ff").is(403, "Forbidden"),
        asks("a service account that is none", "Impersonate-User", "system:serviceaccount:::").is(403, "Forbidden"),
        asks("an unknown encoding", "Accept-Encoding", "nonsense;q=9").is(200, ""),
        asks("an Accept that is garbage", "Accept", ";;;,,,;q=").is(406, "NotAcceptable"),
        asks("many headers", "X-Filler", "a\r\nX-Filler: b\r\nX-Filler: c").is(200, ""),
        asks("a header of two megabytes", "X-Filler", &"x".repeat(2 << 20)).is(431, ""),
        asks("a range", "Range", "bytes=0-1").is(200, ""),
        asks("an upgrade to nothing", "Connection", "Upgrade\r\nUpgrade: nothing").is(200, ""),
    ]
}

fn versions() -> Vec<Case> {
    vec![
        case("HTTP/1.0", "GET", TARGET).version("HTTP/1.0").is(200, ""),
        case("HTTP/9.9", "GET", TARGET).version("HTTP/9.9").is(400, "").unlike(
            "our HTTP reader knows no such code",
            505,
            "",
        ),
        case("no HTTP at all", "GET", TARGET).version("SMTP/1").is(400, ""),
        case("a space within the path", "GET", "/api/v1/name spaces").is(400, ""),
        case("two lengths", "POST", MAPS).header("Content-Length", "3").body("{}").is(400, ""),
        case("a length that is a word", "POST", MAPS).header("Content-Length", "many").is(400, ""),
    ]
}
