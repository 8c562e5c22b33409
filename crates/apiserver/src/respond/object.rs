//! One object in the form the client accepts.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use kinds::protobuf::{self, ProtobufError};
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::{self, Body};
use super::negotiate::{Encoding, Format, Shape};
use super::table;
use crate::convert;
use crate::resources::Resources;
use crate::served_resources::Resource;
use crate::verbs::Answer;

/// Responses above this are compressed for clients that can read it, as kube-apiserver does.
const GZIP_FROM_BYTES: usize = 128 * 1024;

pub async fn object_response(
    resources: Resources<'_>,
    resource: &Resource,
    answer: Answer,
    format: Format,
) -> Result<Response<Body>, Status> {
    match answer {
        Answer::Status(value) => Ok(encoded(200, &value, format)),
        Answer::Stored { code, stored, .. } if resource.served_is_stored() && format.is_plain() => {
            Ok(finish(code, stored.to_json(), format))
        }
        Answer::Stored { code, stored, tree } => {
            let object = convert::stored_to_served(resources, resource, &stored, tree).await?;
            Ok(shaped(resource, code, &object, format))
        }
        Answer::Object { code, object } => Ok(shaped(resource, code, &object, format)),
    }
}

pub fn shaped(resource: &Resource, code: u16, object: &Arc<Object>, format: Format) -> Response<Body> {
    if (format.encoding, format.shape) == (Encoding::Protobuf, Shape::Object) {
        return protobuf_bytes(code, protobuf::encode(object.as_map()), format);
    }
    let value = match format.shape {
        Shape::Object => object.to_value(),
        Shape::Metadata => metadata_only(object),
        Shape::Table => table::table(
            resource,
            std::slice::from_ref(object),
            json!({"resourceVersion": object.resource_version()}),
            true,
        ),
    };
    encoded(code, &value, format)
}

/// The object without its content, for clients that only look at metadata.
pub fn metadata_only(object: &Object) -> Value {
    let metadata = object.get(&["metadata"]).cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
}

/// Any document in the encoding of `format`.
pub fn encoded(code: u16, value: &Value, format: Format) -> Response<Body> {
    match (format.encoding, value) {
        (Encoding::Protobuf, Value::Object(object)) => protobuf_bytes(code, protobuf::encode(object), format),
        (Encoding::Yaml, _) => {
            let text = serde_saphyr::to_string(value)
                .unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"));
            body::text(code, "application/yaml", text)
        }
        _ if format.pretty => {
            let mut text = serde_json::to_vec_pretty(value).expect("a JSON value encodes to memory");
            text.push(b'\n');
            finish(code, text.into(), format)
        }
        _ => finish(code, serde_json::to_vec(value).expect("a JSON value encodes to memory").into(), format),
    }
}

/// A `Status` with the headers clients act on, in the encoding the client reads.
pub fn status_response(status: &Status, accept: Option<&HeaderValue>) -> Response<Body> {
    let format = Format::for_status(accept);
    if format.encoding == Encoding::Json {
        return body::status(status);
    }
    let mut response = encoded(status.code, &status.to_value(), format);
    body::set_retry_after(status, &mut response);
    response
}

/// A protobuf response, or an internal error in JSON when the object cannot be encoded.
pub fn protobuf_bytes(code: u16, encoded: Result<Vec<u8>, ProtobufError>, format: Format) -> Response<Body> {
    match encoded {
        Ok(bytes) => compressed(bytes.into(), format, |bytes| body::protobuf(code, bytes)),
        Err(error) => body::status(&Status::internal(format!("the response cannot be encoded as protobuf: {error}"))),
    }
}

/// JSON bytes as a response, compressed when that is worth it.
pub fn finish(code: u16, bytes: Bytes, format: Format) -> Response<Body> {
    compressed(bytes, format, |bytes| body::json(code, bytes))
}

fn compressed(bytes: Bytes, format: Format, respond: impl Fn(Bytes) -> Response<Body>) -> Response<Body> {
    if !format.gzip || bytes.len() < GZIP_FROM_BYTES {
        return respond(bytes);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 4), flate2::Compression::fast());
    let written = std::io::Write::write_all(&mut encoder, &bytes).and_then(|()| encoder.finish());
    let Ok(written) = written else { return respond(bytes) };
    let mut response = respond(written.into());
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}
