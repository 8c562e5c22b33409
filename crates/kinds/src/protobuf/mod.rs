//! Built-in objects between JSON and `application/vnd.kubernetes.protobuf`, driven by a table of field numbers.
//!
//! Both directions follow Go: decoding gives the JSON that `json.Marshal` would write for the same struct, encoding
//! gives the bytes of its generated `Marshal`, so that zero values, nulls and order match every Go client.

mod read;
pub(crate) mod scalar;
mod schema_props;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod wire;
mod write;

use serde_json::{Map, Value};

use table::{MessageId, MessageTable};

/// Prefix of every enveloped message.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Deeper messages are rejected, in both directions.
const DEPTH_MAX: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    #[error("empty data")]
    Empty,
    #[error("empty body")]
    EmptyBody,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    #[error("Object 'Kind' is missing in the protobuf envelope")]
    KindMissing,
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("unexpected EOF")]
    Truncated,
    #[error("integer overflow in a length or a field number")]
    Overflow,
    #[error("wrong wire type {wire_type} for field {field}")]
    WireType { field: String, wire_type: u8 },
    #[error("messages are nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("the message holds too many values")]
    TooMany,
    #[error("field {field} holds a time out of range")]
    Time { field: &'static str },
    #[error("field {field} holds no JSON")]
    Raw { field: &'static str, source: serde_json::Error },
    #[error("field {field} cannot be written from {found}")]
    Mismatch { field: &'static str, found: &'static str },
}

/// Reports whether objects of this kind can be encoded as protobuf. Custom kinds never can.
pub fn knows(api_version: &str, kind: &str) -> bool {
    MessageTable::get().kind(api_version, kind).is_some()
}

/// The apiVersion and kind of an envelope; both may be empty.
pub fn kind_of(bytes: &[u8]) -> Result<(String, String), ProtobufError> {
    let envelope = open(bytes)?;
    Ok((envelope.api_version.into_owned(), envelope.kind.into_owned()))
}

/// Decodes an enveloped object to its JSON tree.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (api_version, kind) = kind_of(bytes)?;
    if kind.is_empty() {
        return Err(ProtobufError::KindMissing);
    }
    decode_as(bytes, &api_version, &kind)
}

/// The same for an object of a known kind, regardless of its envelope.
pub fn decode_as(bytes: &[u8], api_version: &str, kind: &str) -> Result<Value, ProtobufError> {
    let (table, message) = message_of(api_version, kind)?;
    let mut object = read::read(table, message, open(bytes)?.raw)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn open(bytes: &[u8]) -> Result<wire::Envelope<'_>, ProtobufError> {
    if bytes.is_empty() {
        return Err(ProtobufError::Empty);
    }
    match bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)? {
        [] => Err(ProtobufError::EmptyBody),
        envelope => wire::read_envelope(envelope),
    }
}

/// Encodes an object, list or `Status` with its envelope.
pub fn encode(object: &Map<String, Value>) -> Result<Vec<u8>, ProtobufError> {
    let text = |word: &str| object.get(word).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (table, message) = message_of(api_version, kind)?;
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(MAGIC);
    wire::write_envelope(&mut out, api_version, kind, |out| write::write(table, message, object, out))?;
    Ok(out)
}

/// Encodes a list with its envelope, item by item.
pub fn encode_list<'a>(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: impl Iterator<Item = &'a Map<String, Value>>,
) -> Result<Vec<u8>, ProtobufError> {
    let (table, message) = message_of(api_version, kind)?;
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(MAGIC);
    wire::write_envelope(&mut out, api_version, kind, |out| write::write_list(table, message, metadata, items, out))?;
    Ok(out)
}

fn message_of(api_version: &str, kind: &str) -> Result<(&'static MessageTable, MessageId), ProtobufError> {
    let table = MessageTable::get();
    let message = table
        .kind(api_version, kind)
        .ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    Ok((table, message))
}

/// One change as a watch frame: its length in four bytes, then a `WatchEvent` around the enveloped object.
pub fn watch_frame(change: &str, object: &Map<String, Value>) -> Result<Vec<u8>, ProtobufError> {
    let object = encode(object)?;
    let mut out = vec![0; 4];
    wire::write_bytes(&mut out, 1, change.as_bytes());
    wire::write_nested(&mut out, 2, |out| {
        wire::write_bytes(out, 1, &object);
        Ok(())
    })?;
    let length = u32::try_from(out.len() - 4).map_err(|_| ProtobufError::Overflow)?;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Ok(out)
}
