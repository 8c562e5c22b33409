//! Large lists in pieces: objects stay in the shared cache entries and are encoded as the client reads.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderValue, Response, header};
use object::Status;
use serde_json::{Value, json};

use super::body::{self, Body, PIECE_BYTES, too_slow};
use super::list::ListHead;
use super::negotiate::{Encoding, Format, Shape};
use super::object::metadata_only;
use super::table;
use crate::cache::Entry;
use crate::limits::{Backlog, Limits, Reservation};
use crate::served_resources::Resource;

/// Lists of at least this size are given out in pieces.
pub const STREAMED_FROM_BYTES: usize = 128 << 10;
/// The part of a list's size it counts while it is given out. Its objects are the cache's own unless they change
/// meanwhile.
const COUNTED_PART: usize = 16;
/// The least a streamed list counts: its pieces in the connection's buffers.
const COUNTED_BYTES_MIN: usize = 256 << 10;

/// Memory a list or the initial state of a watch counts while it is given out; `None` for small ones.
pub fn counted_bytes(size: usize) -> Option<usize> {
    (size >= STREAMED_FROM_BYTES).then(|| (size / COUNTED_PART).max(COUNTED_BYTES_MIN))
}

/// Forms of a list whose items can be written one after the other.
pub fn is_streamable(resource: &Resource, format: Format) -> bool {
    resource.served_is_stored() && format.encoding == Encoding::Json && !format.pretty
}

/// The form of the items.
enum ItemForm {
    Object {
        is_kind_shown: bool,
    },
    Metadata,
    /// A table row with the part of the object that `includeObject` names.
    Row(Option<String>),
}

struct ListContent {
    resource: Arc<Resource>,
    form: ItemForm,
    entries: VecDeque<Arc<Entry>>,
    is_first: bool,
    is_complete: bool,
    /// Encoded and not given out yet.
    output: Vec<u8>,
    given_out: usize,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

/// The list with its items to come. Only for streamable forms.
pub fn streamed_list(
    resource: &Arc<Resource>,
    head: &ListHead,
    entries: Vec<Arc<Entry>>,
    format: Format,
    include_object: Option<&str>,
    counted: (&Limits, Reservation),
) -> Result<Response<Body>, Status> {
    let (form, opening) = opening(resource, head, format, include_object)?;
    let content = ListContent {
        resource: resource.clone(),
        form,
        entries: entries.into(),
        is_first: true,
        is_complete: false,
        output: opening,
        given_out: 0,
        gzip: format.gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
    };
    let (limits, reservation) = counted;
    let backlog = Backlog::new(content, Some(reservation));
    limits.backlogs.watch_over(&backlog);
    let pieces = stream::unfold(Some(backlog), |backlog| async move {
        let backlog = backlog?;
        match backlog.next(ListContent::next_piece) {
            Some(Some(piece)) => Some((Ok(piece), Some(backlog))),
            Some(None) => {
                backlog.finish();
                None
            }
            None => Some((Err(too_slow()), None)),
        }
    });
    let mut response = body::json_pieces(Box::pin(pieces));
    if format.gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    Ok(response)
}

/// The form of the items, and the bytes before the first of them.
fn opening(
    resource: &Resource,
    head: &ListHead,
    format: Format,
    include_object: Option<&str>,
) -> Result<(ItemForm, Vec<u8>), Status> {
    let ListHead { api_version, kind, metadata, is_kind_on_items } = head;
    let (form, empty) = match format.shape {
        Shape::Object => (
            ItemForm::Object { is_kind_shown: *is_kind_on_items },
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}),
        ),
        Shape::Metadata => (
            ItemForm::Metadata,
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata}),
        ),
        Shape::Table => {
            let mut table = table::table_with(resource, &[], metadata.clone(), true, include_object)?;
            if let Some(table) = table.as_object_mut() {
                table.remove("rows");
            }
            (ItemForm::Row(include_object.map(str::to_owned)), table)
        }
    };
    let mut opening = empty.to_string().into_bytes();
    opening.pop();
    opening.extend_from_slice(if format.shape == Shape::Table { b",\"rows\":[" } else { b",\"items\":[" });
    Ok((form, opening))
}

impl ListContent {
    /// The next bytes on the wire; `None` after the last.
    fn next_piece(&mut self) -> Option<Bytes> {
        while self.unsent() < PIECE_BYTES && !self.is_complete {
            self.output.drain(..self.given_out);
            self.given_out = 0;
            self.encode_more();
        }
        if self.unsent() == 0 {
            return None;
        }
        let end = self.given_out + self.unsent().min(PIECE_BYTES);
        let piece = Bytes::copy_from_slice(&self.output[self.given_out..end]);
        self.given_out = end;
        if self.unsent() == 0 {
            // One large object must not keep its buffer until the end of the list.
            self.output = Vec::new();
            self.given_out = 0;
        }
        Some(piece)
    }

    fn unsent(&self) -> usize {
        self.output.len() - self.given_out
    }

    fn encode_more(&mut self) {
        let Some(mut gzip) = self.gzip.take() else {
            let mut output = std::mem::take(&mut self.output);
            self.encode_items(&mut output);
            self.output = output;
            return;
        };
        // The opening, which was written before there was an encoder.
        let mut plain = if self.is_first { std::mem::take(&mut self.output) } else { Vec::new() };
        self.encode_items(&mut plain);
        // Writing to memory cannot fail.
        let _ = gzip.write_all(&plain);
        if self.is_complete {
            self.output.extend(gzip.finish().unwrap_or_default());
        } else {
            self.output.append(gzip.get_mut());
            self.gzip = Some(gzip);
        }
    }

    /// Appends items up to the size of a piece, and the end of the list behind the last.
    fn encode_items(&mut self, out: &mut Vec<u8>) {
        while out.len() < PIECE_BYTES {
            let Some(entry) = self.entries.pop_front() else {
                out.extend_from_slice(b"]}");
                self.is_first = false;
                self.is_complete = true;
                return;
            };
            if !std::mem::replace(&mut self.is_first, false) {
                out.push(b',');
            }
            self.encode_item(&entry, out);
        }
    }

    fn encode_item(&self, entry: &Entry, out: &mut Vec<u8>) {
        let value = match &self.form {
            ItemForm::Object { is_kind_shown: true } => return entry.stored.write_json(out),
            ItemForm::Object { is_kind_shown: false } => return entry.stored.write_json_item(out),
            ItemForm::Metadata => metadata_only(&entry.decode()),
            ItemForm::Row(include_object) => self.row(entry, include_object.as_deref()),
        };
        out.extend_from_slice(value.to_string().as_bytes());
    }

    fn row(&self, entry: &Entry, include_object: Option<&str>) -> Value {
        let table = table::table_with(&self.resource, &[entry.decode()], Value::Null, false, include_object);
        let row = table.ok().and_then(|mut table| table["rows"].as_array_mut().and_then(Vec::pop));
        row.unwrap_or_default()
    }
}
