//! Readers of files and tokens that come back: backups, queries and page tokens of the manager.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use manager::api::lists::{self, ListRequest, PAGE_SIZE_MAX};
use object::Object;
use oci_registry::digest::Digest;
use serde_json::json;
use store::snapshot::file;
use tempfile::TempDir;

/// Deflate compresses by no more than this.
const RATIO_MAX: usize = 1100;
const PAGE_KEY: &str = "the key of this manager";

/// A backup: as a whole, with a right checksum, and as the records in a backup that is right otherwise.
pub fn backup(data: &[u8]) {
    thread_local! {
        static DIRECTORY: TempDir = tempfile::tempdir().expect("a temporary directory");
    }
    DIRECTORY.with(|directory| {
        let path = directory.path().join("backup");
        for content in [data.to_vec(), summed(data.to_vec()), of_records(data)] {
            std::fs::write(&path, &content).expect("a file that can be written");
            let Ok(snapshot) = file::read(&path) else { continue };
            let of_keys: usize = snapshot.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
            let of_files: usize = snapshot.files.iter().map(|file| file.path.len() + file.bytes.len()).sum();
            assert!(of_keys + of_files <= content.len() * RATIO_MAX, "more was read than the file can hold");
            let copy = directory.path().join("copy");
            file::write(&copy, &snapshot, true, &|_| {}).expect("what was read can be written");
            assert_eq!(file::read(&copy).ok(), Some(snapshot), "a backup does not round-trip");
        }
    });
}

/// Adds the checksum and the mark at the end.
fn summed(mut body: Vec<u8>) -> Vec<u8> {
    let digest = Digest::of(&body);
    let hex = digest.hex();
    body.extend((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")));
    body.extend_from_slice(b"FLOTEND\n");
    body
}

fn of_records(records: &[u8]) -> Vec<u8> {
    let mut body = b"FLOTBAK\n".to_vec();
    body.extend_from_slice(&1_u32.to_le_bytes());
    body.extend_from_slice(&2_u32.to_le_bytes());
    body.extend_from_slice(b"{}");
    let mut deflated = ZlibEncoder::new(body, Compression::fast());
    deflated.write_all(records).expect("memory");
    summed(deflated.finish().expect("memory"))
}

fn objects() -> Vec<Arc<Object>> {
    static OBJECTS: LazyLock<Vec<Arc<Object>>> = LazyLock::new(|| {
        let object = |number: usize| {
            Object::from_value(json!({
                "apiVersion": "apps/v1", "kind": if number.is_multiple_of(3) { "ReplicaSet" } else { "Deployment" },
                "metadata": {
                    "name": format!("Web-{}", number % 5), "namespace": format!("n{}", number % 2), "uid": format!("u{number}"),
                    "creationTimestamp": format!("2026-06-01T11:00:0{}Z", number % 7), "labels": {"app": "web", "tier": ""},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "web", "uid": "u"}],
                },
                "status": {"phase": "Running", "replicas": number, "list": [{"a": null}]},
            }))
        };
        (0..12).filter_map(object).map(Arc::new).collect()
    });
    OBJECTS.clone()
}

/// Filter, order, page size and page token, one on each line. All pages together are the result, and no token is accepted that was not
/// issued.
pub fn queries(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (filter, order_by, size, forged) = (line(), line(), line(), line());
    let page_size = size.trim().parse().unwrap_or(5);
    let request = ListRequest { filter, order_by, page_size, scope: "lists".to_owned(), ..ListRequest::default() };
    let Ok(mut page) = lists::page(PAGE_KEY, objects(), &at(&request, "")) else { return };
    let is_forged = !forged.is_empty() && lists::page(PAGE_KEY, objects(), &at(&request, forged)).is_ok();
    assert!(!is_forged, "a page token was accepted that was not issued");
    let (total, mut seen) = (page.total, Vec::new());
    loop {
        assert!(page.items.len() <= PAGE_SIZE_MAX, "a page is too large");
        seen.extend(page.items.iter().map(|object| object.uid().to_owned()));
        let token = page.next_page_token;
        if token.is_empty() {
            break;
        }
        let other = ListRequest { scope: "other lists".to_owned(), ..at(&request, &token) };
        assert!(lists::page(PAGE_KEY, objects(), &other).is_err(), "a token is valid for another list");
        page = lists::page(PAGE_KEY, objects(), &at(&request, &token)).expect("a token that was issued is valid");
        assert!(!page.items.is_empty(), "a token leads to an empty page");
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), i64::try_from(count).ok()), (count, Some(total)), "pages repeat or skip items");
}

/// The same request for the page of a token.
fn at<'a>(request: &ListRequest<'a>, page_token: &'a str) -> ListRequest<'a> {
    ListRequest { page_token, ..request.clone() }
}
