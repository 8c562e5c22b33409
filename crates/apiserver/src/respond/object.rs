//! One object in the form a client asked for.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use object::{Object, Status};
use serde_json::{Value, json};

use super::body::{self, Body};
use super::negotiate::{Format, Shape};
use super::table;
use crate::convert;
use crate::registry::Resource;
use crate::server::Server;
use crate::verbs::Answer;

/// Responses above this are compressed for clients that can read it, as kube-apiserver does.
const GZIP_FROM_BYTES: usize = 128 * 1024;

pub async fn object_response(
    server: &Server,
    resource: &Resource,
    answer: Answer,
    format: Format,
) -> Result<Response<Body>, Status> {
    match answer {
        Answer::Status(value) => Ok(encoded(200, &value, format)),
        Answer::Stored { code, stored }
            if resource.served_is_stored() && format.shape == Shape::Object && !format.yaml && !format.pretty =>
        {
            Ok(finish(code, stored.to_json(), format))
        }
        Answer::Stored { code, stored } => {
            let object = Arc::new(convert::to_served(server, resource, stored.decode()?).await?);
            Ok(shaped(resource, code, &object, format))
        }
        Answer::Object { code, object } => Ok(shaped(resource, code, &object, format)),
    }
}

fn shaped(resource: &Resource, code: u16, object: &Arc<Object>, format: Format) -> Response<Body> {
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

pub fn encoded(code: u16, value: &Value, format: Format) -> Response<Body> {
    if format.yaml {
        let text =
            serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"));
        return body::text(code, "application/yaml", text);
    }
    let bytes = if format.pretty {
        let mut text = serde_json::to_vec_pretty(value).expect("a JSON value encodes to memory");
        text.push(b'\n');
        text
    } else {
        serde_json::to_vec(value).expect("a JSON value encodes to memory")
    };
    finish(code, bytes.into(), format)
}

/// JSON bytes as a response, compressed when that is worth it.
pub fn finish(code: u16, bytes: Bytes, format: Format) -> Response<Body> {
    if !format.gzip || bytes.len() < GZIP_FROM_BYTES {
        return body::json(code, bytes);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 4), flate2::Compression::fast());
    let compressed = std::io::Write::write_all(&mut encoder, &bytes).and_then(|()| encoder.finish());
    let Ok(compressed) = compressed else { return body::json(code, bytes) };
    let mut response = body::json(code, compressed);
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}
