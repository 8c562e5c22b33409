//! Bytes and JSON of random objects, written by Kubernetes 1.36.4's own codecs, must be decoded and encoded
//! identically.

use serde_json::json;

use super::*;

/// Per line: an enveloped object in base64 and the JSON that Go writes after decoding it.
const GOLDEN: &str = include_str!("golden.txt");

fn golden() -> impl Iterator<Item = (Vec<u8>, Value)> {
    use base64::Engine;
    GOLDEN.lines().map(|line| {
        let (bytes, value) = line.split_once(' ').expect("two columns");
        let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).expect("base64");
        (bytes, serde_json::from_str(value).expect("JSON"))
    })
}

fn map(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

#[test]
fn objects_of_every_kind_decode_as_in_go() {
    for (bytes, expected) in golden() {
        let got = decode(&bytes).unwrap_or_else(|error| panic!("{error}: {expected}"));
        assert_eq!(got, expected, "{}\n{}", got, expected);
    }
}

#[test]
fn objects_of_every_kind_encode_as_in_go() {
    for (bytes, value) in golden() {
        let got = encode(map(&value)).unwrap_or_else(|error| panic!("{error}: {value}"));
        assert_eq!(got, bytes, "{value}");
        if let Some(items) = value["items"].as_array().filter(|_| value["kind"] != "List") {
            let (api_version, kind) = (value["apiVersion"].as_str(), value["kind"].as_str());
            let (api_version, kind) = api_version.zip(kind).expect("golden lists have kinds");
            let got = encode_list(api_version, kind, &value["metadata"], items.iter().map(map)).expect("written");
            assert_eq!(got, bytes, "{value}");
        }
    }
}

#[test]
fn damaged_bytes_are_refused_or_read_but_never_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for (bytes, _) in golden().filter(|(bytes, _)| bytes.len() < 4096) {
        for _ in 0..20 {
            let mut damaged = bytes.clone();
            match random() % 3 {
                0 => damaged.truncate(random() % bytes.len()),
                1 => damaged[random() % bytes.len()] = random() as u8,
                _ => damaged.insert(random() % bytes.len(), random() as u8),
            }
            if let Ok(value) = decode(&damaged) {
                // Decoded values can be encoded again, except for damaged times and base64: never a panic.
                let _ = encode(map(&value));
            }
        }
    }
}

#[test]
fn hostile_envelopes_are_refused() {
    let pod = |spec: &[u8]| {
        let mut out = MAGIC.to_vec();
        wire::write_envelope(&mut out, "apiextensions.k8s.io/v1", "JSONSchemaProps", |out| {
            out.extend_from_slice(spec);
            Ok(())
        })
        .expect("written");
        out
    };
    let mut deep = Vec::new();
    for _ in 0..200 {
        let mut outer = Vec::new();
        wire::write_bytes(&mut outer, 28, &deep);
        deep = outer;
    }
    assert!(matches!(decode(&pod(&deep)), Err(ProtobufError::TooDeep)));
    let wide = [0xca, 0x01, 0].repeat(1_500_000);
    assert!(matches!(decode(&pod(&wide)), Err(ProtobufError::TooMany)));
    assert!(matches!(decode(b"{}"), Err(ProtobufError::Magic)));
    assert!(matches!(decode(b"k8s\0"), Err(ProtobufError::EmptyBody)));
    assert!(matches!(decode(b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(ProtobufError::Truncated)));
    assert!(matches!(decode(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), Err(ProtobufError::Overflow)));
}

#[test]
fn options_are_found_under_any_group() {
    let options = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
    assert_eq!(decode(&encode(map(&options)).expect("written")).expect("read"), options);
}

#[test]
fn a_watch_frame_carries_its_length() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let frame = watch_frame("ADDED", map(&object)).expect("written");
    assert_eq!(u32::from_be_bytes(frame[..4].try_into().expect("four")) as usize, frame.len() - 4);
    assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
}
