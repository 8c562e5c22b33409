//! Readers of objects: bodies, patches, managed fields, protobuf.

use std::sync::OnceLock;

use apiserver::decode::{self as server_decode, BodyFormat};
use kinds::{Kind, WriteContext};
use object::patch::apply::{ApplyContext, apply};
use object::patch::fieldset::Set;
use object::patch::{json, merge, strategic};
use object::{FieldPath, Object, depth, schema};
use serde_json::Value;

/// Far above the size that one patch may give to a small object.
const PATCHED_BYTES_MAX: usize = 16 << 20;
/// A patch is applied to its own result this often, so that a short one that nests a little nests a lot.
const PATCH_ROUNDS: usize = 64;
/// It is not applied again to a result that is larger: copies of it would take most of the time.
const REPEATED_BYTES_MAX: usize = 64 << 10;

fn all_kinds() -> &'static [Kind] {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(kinds::builtin)
}

/// The first two bytes choose a kind, the rest is its input.
fn choose(data: &[u8]) -> Option<(&'static Kind, &[u8])> {
    let (choice, rest) = data.split_first_chunk::<2>()?;
    let kinds = all_kinds();
    Some((&kinds[usize::from(u16::from_le_bytes(*choice)) % kinds.len()], rest))
}

/// Splits an input into several at a byte that is not valid in UTF-8.
fn pieces(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == 0xff)
}

/// Decodes and validates JSON as an object of some kind, and its update.
pub fn decode(data: &[u8]) {
    let Some((kind, rest)) = choose(data) else { return };
    let mut shaped = pieces(rest).filter_map(|body| shape(kind, serde_json::from_slice(body).ok()?));
    let Some(first) = shaped.next() else { return };
    let second = shaped.next();
    let ctx = WriteContext {
        now: jiff::Timestamp::UNIX_EPOCH,
        user: "user".into(),
        uid: String::new(),
        groups: Vec::new(),
        extra: Vec::new(),
    };
    let mut created = first.clone();
    kind.strategy.prepare_create(&mut created, &ctx);
    let _ = kind.strategy.validate_create(&created);
    let _ = kind.strategy.warnings(&created, None);
    let mut changed = second.unwrap_or(first);
    kind.strategy.prepare_update(&mut changed, &created, &ctx);
    let _ = kind.strategy.validate_update(&changed, &created);
    kind.strategy.prepare_status(&mut changed, &created, &ctx);
    let _ = kind.strategy.validate_status(&changed, &created);
    let _ = kind.strategy.warnings(&changed, Some(&created));
}

/// In the order of the server: schema defaults first, then those of the kind.
fn shape(kind: &Kind, mut value: Value) -> Option<Object> {
    schema::drop_nulls(&kind.schema, &mut value);
    schema::decode_check(&kind.schema, &value).ok()?;
    schema::canonicalize(&kind.schema, &mut value);
    schema::prune(&kind.schema, &mut value);
    assert!(schema::unknown_fields(&kind.schema, &value).is_empty(), "a pruned object has no unknown fields");
    schema::apply_defaults(&kind.schema, &mut value);
    let _ = schema::validate(&kind.schema, &value, &FieldPath::new("root"));
    let mut object = Object::from_value(value)?;
    kind.strategy.default(&mut object);
    let once = object.clone();
    kind.strategy.default(&mut object);
    assert_eq!(once.to_value(), object.to_value(), "defaulting is idempotent: {}", kind.gvk.kind);
    Some(object)
}

/// A document and a patch for it, tried as each of the four kinds of patch. No result may be larger or deeper than allowed.
pub fn patch(data: &[u8]) {
    let Some((kind, rest)) = choose(data) else { return };
    let mut values = pieces(rest).map(serde_json::from_slice::<Value>);
    let (Some(Ok(document)), Some(Ok(change))) = (values.next(), values.next()) else { return };
    let depth_max = depth::of(&document).max(depth::DEPTH_MAX);
    // The depth comes first: encoding a tree that is too deep overflows the stack.
    let check = |patched: Value| {
        assert!(depth::of(&patched) <= depth_max, "the patch nests too deep");
        assert!(patched.to_string().len() < PATCHED_BYTES_MAX, "the patched document is too large");
    };
    let mut patched = document.clone();
    let mut rounds = 0;
    while rounds < PATCH_ROUNDS && patched.to_string().len() < REPEATED_BYTES_MAX {
        let mut next = patched.clone();
        if json::apply(&mut next, &change).is_err() {
            break;
        }
        check(next.clone());
        patched = next;
        rounds += 1;
    }
    let mut patched = document.clone();
    if merge::apply(&mut patched, &change).is_ok() {
        check(patched);
    }
    let mut patched = document.clone();
    if strategic::apply(&kind.schema, &mut patched, change.clone()).is_ok() {
        check(patched);
    }
    let (Some(live), Some(applied)) = (Object::from_value(document), Object::from_value(change)) else { return };
    let versions = |_: &str| Some(kind.schema.clone());
    let ctx = ApplyContext {
        schema: &kind.schema,
        versions: &versions,
        subresource: "",
        now: jiff::Timestamp::UNIX_EPOCH,
        reset_fields: None,
    };
    for force in [false, true] {
        if let Ok(mut merged) = apply(ctx, Some(&live), &applied, "manager", force) {
            // It mirrors the fields some levels lower; the store checks it with the rest.
            merged.remove(&["metadata", "managedFields"]);
            check(merged.into_value());
        }
    }
}

pub fn protobuf(data: &[u8]) {
    for bytes in [data.to_vec(), [kinds::protobuf::MAGIC.as_slice(), data].concat()] {
        let Ok(Value::Object(object)) = kinds::protobuf::decode(&bytes) else { continue };
        let encoded = kinds::protobuf::encode(&object);
        assert!(encoded.is_ok(), "{object:?} was decoded but cannot be encoded: {encoded:?}");
    }
}

/// A request body in each format of the server. What it accepts is within the depth limit of its reader and is read the same again.
/// JSON up to the limit of the parser is accepted here: the store checks the limit of stored objects.
pub fn body(data: &[u8]) {
    for format in [BodyFormat::Json, BodyFormat::Yaml, BodyFormat::Protobuf] {
        let Ok(decoded) = server_decode::decode(data, format) else { continue };
        let depth_max = if format == BodyFormat::Json { depth::READ_DEPTH_MAX } else { depth::DEPTH_MAX };
        assert!(depth::of(&decoded.value) <= depth_max, "a body that is too deep was accepted");
        let written = decoded.value.to_string();
        let again = server_decode::decode(written.as_bytes(), BodyFormat::Json).map(|again| again.value);
        assert_eq!(again.ok(), Some(decoded.value), "{written}");
    }
}

/// Managed fields round-trip, and the set operations keep their laws.
pub fn field_sets(data: &[u8]) {
    let mut sets = pieces(data).filter_map(|text| Set::from_json(&serde_json::from_slice(text).ok()?).ok());
    let Some(first) = sets.next() else { return };
    let again = Set::from_json(&first.to_json());
    assert_eq!(again.as_ref(), Ok(&first), "a field set does not round-trip");
    let second = sets.next().unwrap_or_default();
    let both = first.intersection(&second);
    for path in both.paths() {
        assert!(first.contains(&path) && second.contains(&path), "an intersection has a path that is not in both");
    }
    let all = first.clone().union(second.clone());
    assert!(first.paths().iter().chain(&second.paths()).all(|path| all.contains(path)), "a union lacks a path");
    let left = first.difference(&second);
    assert!(left.paths().iter().all(|path| !second.contains(path)), "a difference keeps a path it must not");
}
