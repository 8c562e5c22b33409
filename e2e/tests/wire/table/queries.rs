//! Query strings with invalid selectors, limits, versions and times.

use super::{Case, MAPS, TARGET, case};

fn list(name: &'static str, query: impl AsRef<str>) -> Case {
    case(name, "GET", format!("{MAPS}?{}", query.as_ref()))
}

pub fn cases() -> Vec<Case> {
    [selectors(), versions(), writes()].into_iter().flatten().collect()
}

fn selectors() -> Vec<Case> {
    let many: Vec<String> = (0..10_000).map(|n| format!("k{n}!=v")).collect();
    let set: Vec<String> = (0..10_000).map(|n| format!("v{n}")).collect();
    let parentheses = format!("labelSelector=a+in+{}", "(".repeat(10_000));
    vec![
        list("a label selector that is none", "labelSelector=%3D%3D%3D").bad(),
        list("an open set", "labelSelector=a+in+(b").bad(),
        list("an empty set", "labelSelector=a+in+()").is(200, ""),
        list("open parentheses", parentheses).bad(),
        list("a key that is none", "labelSelector=-a-%3Db").bad(),
        list("a value too long", format!("labelSelector=a%3D{}", "x".repeat(64))).bad(),
        list("a comparison with a word", "labelSelector=a%3Eb").bad(),
        list("ten thousand requirements", format!("labelSelector={}", many.join(","))).is(414, "").unlike(
            "our HTTP reader takes URIs of up to 64 KiB",
            200,
            "",
        ),
        list("a set of ten thousand", format!("labelSelector=a+in+({})", set.join(","))).bad().unlike(
            "a selector may have a thousand requirements here",
            200,
            "",
        ),
        list("a field selector that is none", "fieldSelector=%3D").bad().unlike(
            "theirs reads it as no selector at all",
            200,
            "",
        ),
        list("a field that cannot be selected", "fieldSelector=data.a%3Db").bad(),
        list("a field selector with a bare word", "fieldSelector=hello").bad(),
        list("a field selector with an escape that is none", "fieldSelector=metadata.name%3Da%5Cb").bad(),
        list(
            "ten thousand fields",
            format!("fieldSelector={}", "metadata.name!=x,".repeat(10_000).trim_end_matches(',')),
        )
        .is(414, "")
        .unlike("our HTTP reader takes URIs of up to 64 KiB", 200, ""),
        list("a query of percent signs", "labelSelector=%zz%").is(200, ""),
        list("semicolons", "limit=1;watch=1").is(200, ""),
    ]
}

fn versions() -> Vec<Case> {
    vec![
        list("a limit that is a word", "limit=many").bad(),
        list("a limit beyond 64 bits", "limit=99999999999999999999999").bad(),
        list("a limit below zero", "limit=-5").is(200, ""),
        list("a token that is none", "limit=1&continue=%21%21%21").bad().says("continue"),
        list("a token of another language", "limit=1&continue=aGVsbG8").bad(),
        list("a token of an empty object", "limit=1&continue=e30").bad(),
        list(
            "a token with a version",
            "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0&resourceVersion=5",
        )
        .bad(),
        list("a version that is a word", "resourceVersion=new").bad(),
        list("a version below zero", "resourceVersion=-1").bad(),
        list("a version to come", "resourceVersion=99999999&timeoutSeconds=1")
            .is(504, "Timeout")
            .says("Too large resource version"),
        list("an unknown match", "resourceVersion=1&resourceVersionMatch=Roughly").is(422, "Invalid"),
        list("a match without a version", "resourceVersionMatch=Exact").is(422, "Invalid"),
        list("exactly version zero", "resourceVersion=0&resourceVersionMatch=Exact").is(422, "Invalid"),
        list("initial events of a list", "sendInitialEvents=true").is(422, "Invalid"),
        list("initial events without a match", "watch=1&sendInitialEvents=true").is(422, "Invalid"),
        list("a watch with a match", "watch=1&resourceVersionMatch=Exact&resourceVersion=5").is(422, "Invalid"),
        list("a watch of a version that is a word", "watch=1&resourceVersion=new").bad().unlike(
            "kube-apiserver returns an internal error",
            500,
            "",
        ),
        list("a watch with a limit that is a word", "watch=1&limit=x&timeoutSeconds=1").bad(),
        list("a time that is a word", "timeoutSeconds=soon").bad(),
        list("a request time that is a word", "timeout=soon").bad(),
        list("a request time below zero", "timeout=-5s").is(200, ""),
        list("a watch that is maybe", "watch=maybe&timeoutSeconds=1").is(200, "").says("ADDED"),
    ]
}

fn writes() -> Vec<Case> {
    vec![
        case("a dry run of some", "DELETE", format!("{TARGET}?dryRun=Some")).is(422, "Invalid"),
        case("a policy that is none", "DELETE", format!("{TARGET}?propagationPolicy=Sometimes")).is(422, "Invalid"),
        case("a grace period that is a word", "DELETE", format!("{TARGET}?gracePeriodSeconds=soon")).bad(),
        case("both ways to orphan", "DELETE", format!("{TARGET}?propagationPolicy=Orphan&orphanDependents=true"))
            .is(422, "Invalid"),
        case("a collection with a selector that is none", "DELETE", format!("{MAPS}?labelSelector=%3D%3D")).bad(),
        case("a creation with a dry run of some", "POST", format!("{MAPS}?dryRun=Some"))
            .header("Content-Type", "application/json")
            .body(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#)
            .is(422, "Invalid"),
    ]
}
