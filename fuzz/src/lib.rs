//! The functions of the server that read untrusted bytes; each must return for every input.

use std::sync::OnceLock;

use kinds::{Kind, WriteContext};
use object::patch::apply::{ApplyContext, apply};
use object::patch::{json, merge, strategic};
use object::quantity::Quantity;
use object::selector::{FieldSelector, LabelSelector};
use object::{FieldPath, Object, depth, schema};
use serde_json::Value;

/// Far above the size that one patch may give to a small object.
const PATCHED_BYTES_MAX: usize = 16 << 20;
/// A patch is applied to its own result this often, so that a short one that nests a little nests a lot.
const PATCH_ROUNDS: usize = 64;

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
    while rounds < PATCH_ROUNDS && patched.to_string().len() < PATCHED_BYTES_MAX / 16 {
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

pub fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(selector) = LabelSelector::parse(&text) {
        let _ = selector.matches_with(|key| (key.len() % 2 == 0).then_some("v"));
    }
    if let Ok(selector) = FieldSelector::parse(&text) {
        let _ = selector.matches_with(|_| "v");
    }
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        let _ = LabelSelector::from_value(Some(&value));
    }
}

pub fn quantity(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(read) = Quantity::parse(&text) else { return };
    let written = read.to_string();
    let again =
        Quantity::parse(&written).unwrap_or_else(|error| panic!("{text:?} was formatted as {written:?}: {error}"));
    assert_eq!(written, again.to_string(), "{text:?}");
    let _ = (read.value(), read.milli_value(), read.plus(&again), read.minus(&again), read.negated());
}

pub fn protobuf(data: &[u8]) {
    for bytes in [data.to_vec(), [kinds::protobuf::MAGIC.as_slice(), data].concat()] {
        let Ok(Value::Object(object)) = kinds::protobuf::decode(&bytes) else { continue };
        let encoded = kinds::protobuf::encode(&object);
        assert!(encoded.is_ok(), "{object:?} was decoded but cannot be encoded: {encoded:?}");
    }
}

pub fn cel(data: &[u8]) {
    static ENV: OnceLock<cel::Env> = OnceLock::new();
    let env = ENV.get_or_init(|| cel::Env::builder().variable("self", cel::Type::Dyn).build());
    let text = String::from_utf8_lossy(data);
    let Ok(program) = env.compile(&text) else { return };
    let held = serde_json::json!({"a": [1, 2.5, "x", null], "b": {"c": true}, "n": -1});
    let variables = cel::Activation::new().with("self", cel::Value::from_json(&held));
    let mut budget = cel::Budget::new(100_000).per_call_limit(100_000);
    let _ = program.eval(&variables, &mut budget);
}
