//! The functions of the fuzz targets on some thousand seeded inputs: fast, repeatable, and without a nightly
//! toolchain.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::panic::catch_unwind;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Inputs per target; small enough for every test run.
const ROUNDS: u64 = 3000;

#[test]
fn any_object_is_decoded_or_rejected() {
    run(targets::decode, OBJECTS, Framing::Kind);
}

#[test]
fn any_patch_is_applied_or_rejected() {
    run(targets::patch, OBJECTS, Framing::Kind);
}

#[test]
fn patches_that_nest_are_refused() {
    let document = br#"{"a":{}}"#;
    let patch = br#"[{"op":"add","path":"/b","value":{"x":{"x":{}}}},{"op":"move","from":"/a","path":"/b/x/x/y"},{"op":"move","from":"/b","path":"/a"}]"#;
    targets::patch(&[&[0, 0], document.as_slice(), &[0xff], patch.as_slice()].concat());
}

#[test]
fn any_selector_is_parsed_or_rejected() {
    run(targets::selectors, SELECTORS, Framing::Plain);
}

#[test]
fn quantities_round_trip() {
    run(targets::quantity, QUANTITIES, Framing::Plain);
}

#[test]
fn any_protobuf_is_decoded_or_rejected() {
    run(targets::protobuf, PROTOBUF, Framing::Plain);
}

#[test]
fn any_expression_compiles_or_is_rejected() {
    run(targets::cel, EXPRESSIONS, Framing::Plain);
}

/// The framing of a mutated seed.
#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Plain,
    /// Two bytes that choose a kind, and a second part after the first.
    Kind,
}

fn run(target: fn(&[u8]), seeds: &[&[u8]], framing: Framing) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("FUZZ_SEED").unwrap_or(20_261_115);
    println_seed(seed);
    for round in 0..number("FUZZ_ROUNDS").unwrap_or(ROUNDS) {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(round));
        let mut input = Vec::new();
        if framing == Framing::Kind {
            input.extend_from_slice(&random.random::<u16>().to_le_bytes());
            input.extend(mutated(&mut random, seeds));
            input.push(0xff);
        }
        input.extend(mutated(&mut random, seeds));
        let outcome = catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "FUZZ_SEED={} fails on {:?}", seed + round, String::from_utf8_lossy(&input));
    }
}

/// Shown by the test runner if a test fails.
fn println_seed(seed: u64) {
    eprintln!("FUZZ_SEED={seed}");
}

/// Returns a seed with a few values, words or bytes changed; sometimes unchanged.
fn mutated(random: &mut StdRng, seeds: &[&[u8]]) -> Vec<u8> {
    let pick = |random: &mut StdRng| seeds[random.random_range(0..seeds.len())];
    let mut bytes = pick(random).to_vec();
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] = random.random(),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at),
            3 => {
                let word = WORDS[random.random_range(0..WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            4 => replace_value(random, &mut bytes),
            _ => {
                let other = pick(random);
                let from = random.random_range(0..=other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
    }
    bytes
}

/// Replaces the value after a colon, so that the JSON stays valid and reaches the code behind the parser.
fn replace_value(random: &mut StdRng, bytes: &mut Vec<u8>) {
    let colons: Vec<usize> = bytes.iter().enumerate().filter(|(_, b)| **b == b':').map(|(at, _)| at).collect();
    if colons.is_empty() {
        return;
    }
    let start = colons[random.random_range(0..colons.len())] + 1;
    let mut values = serde_json::Deserializer::from_slice(&bytes[start..]).into_iter::<serde_json::Value>();
    if matches!(values.next(), Some(Ok(_))) {
        let end = start + values.byte_offset();
        let word = WORDS[random.random_range(0..WORDS.len())];
        bytes.splice(start..end, word.bytes());
    }
}

const WORDS: &[&str] = &[
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "1.5",
    "18446744073709551616",
    "\"x\"",
    "[null]",
    "[[]]",
    "{\"\":null}",
    "\"9999-12-31T23:59:59Z\"",
    "\"25%\"",
    "\"1Gi\"",
    "\"1e-400\"",
    "\"-5\"",
    "\"\\u0000\"",
    "\"$patch\"",
    "{\"$patch\":\"delete\"}",
    "[{}]",
    "\"0.0.0.0/0\"",
    "\"::1\"",
    "((((((((",
    "[[[[[[[[",
    "in (a,b)",
    "!=",
    "\"*/5 * * * *\"",
    "\"\u{1f600}\"",
    "\"2001:db8::/129\"",
];

const OBJECTS: &[&[u8]] = &[
    br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}},"env":[{"name":"A","value":"b"}],"livenessProbe":{"httpGet":{"port":"http","path":"/"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}],"tolerations":[{"operator":"Exists"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}]},"status":{"phase":"Running","podIP":"10.0.0.1"}}"#,
    br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    br#"{"metadata":{"name":"a","namespace":"n","finalizers":["x/y"],"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"u"}],"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"MQ=="},"type":"Opaque"}"#,
    br#"{"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ports":[{"name":"p","port":80,"targetPort":"http","nodePort":30000}],"selector":{"a":"b"},"sessionAffinity":"ClientIP","schedule":"*/5 * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c"}]}}}},"minReplicas":1,"maxReplicas":5,"scaleTargetRef":{"kind":"D","name":"d","apiVersion":"apps/v1"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#,
    br#"{"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","minimum":1,"default":3}},"x-kubernetes-validations":[{"rule":"self.n > 1"}]}}}}}]},"rules":[{"apiGroups":["*"],"resources":["pods"],"verbs":["get"]}],"subjects":[{"kind":"User","name":"u"}],"roleRef":{"kind":"Role","name":"r","apiGroup":"rbac.authorization.k8s.io"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":"https://x"},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}]}"#,
    br#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/metadata","path":"/spec"},{"op":"move","from":"/spec","path":"/data"},{"op":"remove","path":"/metadata/name"},{"op":"replace","path":"/spec/replicas","value":-1},{"op":"test","path":"/a~1b~0/0/-","value":null}]"#,
    br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","$retainKeys":["name"]},"spec":{"containers":[{"name":"c","$patch":"replace","image":"j"},{"$patch":"delete","name":"d"}],"$setElementOrder/containers":[{"name":"c"}],"$deleteFromPrimitiveList/finalizers":["x"],"volumes":null}}"#,
];

const SELECTORS: &[&[u8]] = &[
    b"a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2",
    b"example.com/key=value,metadata.name!=x\\,y\\=z",
    b"a in (b,,c),  x notin ( )",
    br#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"NotIn","values":["v","w"]},{"key":"l","operator":"Exists"}]}"#,
];

const QUANTITIES: &[&[u8]] = &[
    b"1",
    b"100m",
    b"1.5Gi",
    b"-0.000000001",
    b"1e3",
    b"1E3",
    b"12e-3",
    b"9223372036854775807",
    b"9999999999999999999999Ei",
    b"0.1u",
    b"3n",
    b"+5k",
    b".5",
    b"5.",
    b"1Ki",
    b"000123.4500M",
    b"1e-999",
    b"1e999",
];

const PROTOBUF: &[&[u8]] = &[
    b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x12\x0a\x08\x0a\x01a\x12\x00\x1a\x01n\x12\x06\x0a\x01k\x12\x01v",
    b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x12\x04\x0a\x02cc",
    b"\x0a\x0f\x0a\x02v1\x12\x07Service\x12\x10\x0a\x03\x0a\x01a\x12\x09\x0a\x07\x0a\x01p\x12\x00\x18P",
    b"\x0a\x15\x0a\x07apps/v1\x12\x0aDeployment\x12\x0b\x0a\x03\x0a\x01a\x12\x04\x08\x03\x38\x05",
    b"\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x07\x12\x05\x0a\x03\x0a\x01a",
];

const EXPRESSIONS: &[&[u8]] = &[
    b"self.a.all(x, x > 1) && has(self.b.c) ? self.n + 1 : int('5')",
    b"self.a.map(x, x).filter(y, y == 'x').size() < 10 || self.b.exists_one(k, k == 'c')",
    b"'abc'.matches('^[a-z]+$') && quantity('1Gi').isGreaterThan(quantity('1Mi')) && duration('1h') < duration('2h')",
    b"timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026 && url('https://x/y').getHost() == 'x'",
    b"[1, 2u, 3.0, true, null, {'a': b'bytes'}][0] == 1 && 'x' in ['x'] && -9223372036854775808 / -1 == 0",
    b"optional.of(1).orValue(2) == 1 && 'a b'.split(' ').join('-').replace('-', '').lowerAscii().indexOf('b') == 1 && r'\\d' != \"\\u00e9\"",
];
