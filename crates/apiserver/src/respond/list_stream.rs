//! Large lists in pieces: objects stay in the shared cache entries and are encoded as the client reads.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, header};
use object::Status;
use serde_json::{Value, json};

use super::body::{self, Body, PIECE_BYTES, too_slow};
use super::compressed_parts::CompressedParts;
use super::list::ListHead;
use super::list_gzip::GzipOutput;
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
pub const LIST_END: &[u8] = b"]}";

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

/// The items of a list that are still to be encoded.
pub struct Items {
    resource: Arc<Resource>,
    form: ItemForm,
    pub entries: VecDeque<Arc<Entry>>,
    /// No item was encoded yet.
    pub is_first: bool,
}

/// A list under way to its client.
enum ListContent {
    Plain { items: Items, output: PlainOutput },
    Gzip { opening: Vec<u8>, items: Items, output: Box<GzipOutput> },
}

/// Encoded and not given out yet.
struct PlainOutput {
    bytes: Vec<u8>,
    given_out: usize,
    is_complete: bool,
}

/// The list with its items to come. Only for streamable forms.
pub fn streamed_list(
    resource: &Arc<Resource>,
    head: &ListHead,
    entries: Vec<Arc<Entry>>,
    format: Format,
    include_object: Option<&str>,
    counted: (&Limits, Reservation),
    parts: &Arc<CompressedParts>,
) -> Result<Response<Body>, Status> {
    let (form, opening) = opening(resource, head, format, include_object)?;
    let items = Items { resource: resource.clone(), form, entries: entries.into(), is_first: true };
    let content = match format.gzip {
        true => ListContent::Gzip { opening, items, output: Box::new(GzipOutput::new(parts.clone())) },
        false => {
            let output = PlainOutput { bytes: opening, given_out: 0, is_complete: false };
            ListContent::Plain { items, output }
        }
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
        match self {
            Self::Plain { items, output } => output.next_piece(items),
            Self::Gzip { opening, items, output } => output.next_piece(opening, items),
        }
    }
}

impl PlainOutput {
    fn next_piece(&mut self, items: &mut Items) -> Option<Bytes> {
        while self.unsent() < PIECE_BYTES && !self.is_complete {
            self.bytes.drain(..self.given_out);
            self.given_out = 0;
            self.is_complete = items.encode_some(&mut self.bytes);
        }
        if self.unsent() == 0 {
            return None;
        }
        let end = self.given_out + self.unsent().min(PIECE_BYTES);
        let piece = Bytes::copy_from_slice(&self.bytes[self.given_out..end]);
        self.given_out = end;
        if self.unsent() == 0 {
            // One large object must not keep its buffer until the end of the list.
            self.bytes = Vec::new();
            self.given_out = 0;
        }
        Some(piece)
    }

    fn unsent(&self) -> usize {
        self.bytes.len() - self.given_out
    }
}

impl Items {
    /// Reports whether objects have apiVersion and kind; `None` when the items are not objects as they are stored.
    pub fn is_kind_shown(&self) -> Option<bool> {
        match self.form {
            ItemForm::Object { is_kind_shown } => Some(is_kind_shown),
            ItemForm::Metadata | ItemForm::Row(_) => None,
        }
    }

    /// Appends items up to the size of a piece, and the end of the list after the last. Returns true at the end.
    fn encode_some(&mut self, out: &mut Vec<u8>) -> bool {
        while out.len() < PIECE_BYTES {
            let Some(entry) = self.entries.pop_front() else {
                out.extend_from_slice(LIST_END);
                return true;
            };
            self.encode(&entry, out);
        }
        false
    }

    /// Appends one item, with a comma unless it is the first of the list.
    pub fn encode(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_first, false) {
            out.push(b',');
        }
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use cluster_client::remote::addresses::AddressPolicy;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use object::request::User;
    use store::memory::Memory;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::limits::LimitsConfig;
    use crate::served_resources::ServedResources;

    struct Lists {
        resource: Arc<Resource>,
        parts: Arc<CompressedParts>,
        limits: Limits,
        revision: u64,
    }

    impl Lists {
        fn new() -> Self {
            let served = ServedResources::new(
                Arc::new(Memory::new()),
                kinds::builtin(),
                AddressPolicy::default(),
                CancellationToken::new(),
            );
            let resource = served.find("", "v1", "configmaps").expect("a built-in kind");
            let limits = Limits::new(LimitsConfig::default());
            Self { resource, parts: Arc::default(), limits, revision: 0 }
        }

        fn entry(&mut self, name: usize, size: usize) -> Arc<Entry> {
            self.revision += 1;
            let data = format!("{name}-{}-", self.revision).repeat(size / 8 + 1);
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{name}"),
                "namespace": "a"}, "data": {"text": data}});
            let bytes = object::Object::from_value(object).expect("a map").encode();
            Arc::new(Entry::read("a", bytes, self.revision, &[]).expect("readable"))
        }

        async fn body(&self, entries: &[Arc<Entry>], gzip: bool, shape: Shape) -> Bytes {
            let head = ListHead {
                api_version: "v1".into(),
                kind: "ConfigMapList".into(),
                metadata: json!({"resourceVersion": self.revision.to_string()}),
                is_kind_on_items: false,
            };
            let format = Format { encoding: Encoding::Json, shape, pretty: false, gzip };
            let user = Arc::new(User::new("a", &[]));
            let reservation = self.limits.reserve(&user, 1).expect("free memory");
            let counted = (&self.limits, reservation);
            let listed = streamed_list(&self.resource, &head, entries.to_vec(), format, None, counted, &self.parts);
            listed.expect("a list").into_body().collect().await.expect("a body").to_bytes()
        }

        /// A list with gzip unpacks to the list without.
        async fn check(&self, entries: &[Arc<Entry>], shape: Shape) {
            let plain = self.body(entries, false, shape).await;
            let mut unpacked = Vec::new();
            let packed = self.body(entries, true, shape).await;
            let mut decoder = GzDecoder::new(&packed[..]);
            decoder.read_to_end(&mut unpacked).expect("a gzip stream with the right checksum");
            assert!(unpacked == plain, "{} entries: {} bytes are {}", entries.len(), plain.len(), unpacked.len());
            assert!(serde_json::from_slice::<Value>(&plain).is_ok());
        }
    }

    #[tokio::test]
    async fn a_list_with_gzip_unpacks_to_the_same_bytes() {
        let mut lists = Lists::new();
        let mut entries: Vec<_> = (0..300).map(|name| lists.entry(name, 1000)).collect();
        entries.push(lists.entry(300, 300_000));
        for round in 0..4 {
            for shape in [Shape::Object, Shape::Metadata, Shape::Table] {
                lists.check(&entries, shape).await;
            }
            // Part of the list, from another first object.
            lists.check(&entries[7..200], Shape::Object).await;
            lists.check(&[], Shape::Object).await;
            entries[40] = lists.entry(40, 1000 + round);
            let added = lists.entry(1000 + round, 10);
            entries.insert(90, added);
            entries.remove(250);
        }
    }

    #[tokio::test]
    async fn a_change_leaves_the_other_parts_of_a_list_at_hand() {
        let mut lists = Lists::new();
        let mut entries: Vec<_> = (0..2000).map(|name| lists.entry(name, 1000)).collect();
        for _ in 0..2 {
            lists.body(&entries, true, Shape::Object).await;
        }
        let all = lists.parts.bytes();
        assert!(all > 0);
        entries[1000] = lists.entry(1000, 1000);
        for _ in 0..2 {
            lists.body(&entries, true, Shape::Object).await;
        }
        lists.parts.forget_unused();
        let after = lists.parts.bytes();
        assert!(after.abs_diff(all) < all / 100, "{all} bytes before the change, {after} after it");
    }
}
