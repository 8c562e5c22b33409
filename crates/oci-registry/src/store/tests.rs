//! Guarantees of the store: no partial content is visible, content in use is never collected, uploads can be resumed.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::digest::Algorithm;
use crate::manifest::{Manifest, OCI_INDEX, OCI_MANIFEST};
use crate::name::{Selector, Tag};

const NOW: GcOptions = GcOptions { grace: Duration::ZERO, untagged: false, dry_run: false };

struct Bench {
    store: Store,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { store: Store::open(directory.path(), StoreLimits::default()).unwrap(), directory }
    }

    /// Reopens the store from disk, as after a crash.
    fn reopened(self) -> Self {
        drop(self.store);
        Self { store: Store::open(self.directory.path(), StoreLimits::default()).unwrap(), directory: self.directory }
    }

    fn push_blob(&self, repository: &str, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let id = self.store.begin_upload(&name(repository), Algorithm::Sha256, None).unwrap();
        self.append(id, bytes).unwrap();
        self.commit(id, &digest).unwrap();
        digest
    }

    fn append(&self, id: Uuid, bytes: &[u8]) -> Result<()> {
        let session = self.store.upload(id)?;
        session.blocking_lock().append(&[Bytes::copy_from_slice(bytes)])
    }

    fn commit(&self, id: Uuid, digest: &Digest) -> Result<()> {
        let session = self.store.upload(id)?.blocking_lock_owned();
        self.store.commit_upload(session, digest)
    }

    fn push_document(&self, repository: &str, tag: Option<&str>, document: &Value) -> Result<Digest> {
        let bytes = document.to_string().into_bytes();
        let manifest = Manifest::parse(None, &bytes).unwrap();
        let (repository, tags, digest) = (name(repository), Vec::from_iter(tag.map(tag_of)), Digest::of(&bytes));
        let put =
            PutManifest { repository: &repository, tags: &tags, digest: &digest, bytes: &bytes, manifest: &manifest };
        self.store.put_manifest(&put).map(|()| digest)
    }

    /// An image of one layer.
    fn push_image(&self, repository: &str, tag: Option<&str>, content: &str) -> Digest {
        let (config, layer) = (format!("config of {content}"), format!("layer of {content}"));
        let config = descriptor(&self.push_blob(repository, config.as_bytes()), config.len());
        let layer = descriptor(&self.push_blob(repository, layer.as_bytes()), layer.len());
        self.push_document(repository, tag, &image(config, vec![layer])).unwrap()
    }

    fn collect(&self, options: &GcOptions) -> GcReport {
        self.store.collect(options, SystemTime::now()).unwrap()
    }

    fn blob_count(&self) -> usize {
        self.store.all_blobs().unwrap().len()
    }
}

fn name(text: &str) -> Repository {
    text.parse().unwrap()
}

fn tag_of(text: &str) -> Tag {
    text.parse().unwrap()
}

fn descriptor(digest: &Digest, len: usize) -> Value {
    json!({"mediaType": "application/octet-stream", "digest": digest, "size": len})
}

fn image(config: Value, layers: Vec<Value>) -> Value {
    json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers})
}

#[test]
fn a_blob_is_stored_only_if_its_digest_matches() {
    let bench = Bench::new();
    let digest = Digest::of(b"hello");
    let id = bench.store.begin_upload(&name("a"), Algorithm::Sha256, None).unwrap();
    bench.append(id, b"hell").unwrap();
    assert!(matches!(bench.store.open_blob(&name("a"), &digest), Err(StoreError::BlobUnknown(_))));
    assert!(matches!(bench.commit(id, &digest), Err(StoreError::DigestDiffers { .. })));
    assert!(matches!(bench.store.open_blob(&name("a"), &digest), Err(StoreError::BlobUnknown(_))));
    assert!(matches!(bench.store.upload(id), Err(StoreError::UploadUnknown)), "a wrong upload is over");
    assert_eq!(bench.blob_count(), 0);
    bench.push_blob("a", b"hello");
    assert_eq!(bench.store.open_blob(&name("a"), &digest).unwrap().1, 5);
    assert!(bench.store.open_blob(&name("b"), &digest).is_err(), "a repository shows its own blobs only");
}

#[test]
fn sha512_is_verified_too() {
    let bench = Bench::new();
    let digest = Digest::of_reader(Algorithm::Sha512, &b"hello"[..]).unwrap();
    let id = bench.store.begin_upload(&name("a"), Algorithm::Sha256, None).unwrap();
    bench.append(id, b"hello").unwrap();
    bench.commit(id, &digest).unwrap();
    assert!(bench.store.has_blob(&name("a"), &digest));
}

#[test]
fn an_upload_resumes_after_a_crash() {
    let bench = Bench::new();
    let id = bench.store.begin_upload(&name("a/b"), Algorithm::Sha256, None).unwrap();
    bench.append(id, b"hel").unwrap();
    let bench = bench.reopened();
    assert_eq!(bench.store.upload(id).unwrap().blocking_lock().offset(), 3);
    bench.append(id, b"lo").unwrap();
    bench.commit(id, &Digest::of(b"hello")).unwrap();
    assert!(bench.store.has_blob(&name("a/b"), &Digest::of(b"hello")));
}

#[test]
fn incomplete_uploads_without_state_are_removed() {
    let bench = Bench::new();
    let stray = bench.directory.path().join("uploads").join(Uuid::new_v4().to_string());
    std::fs::create_dir(&stray).unwrap();
    std::fs::write(stray.join("data"), b"x").unwrap();
    std::fs::write(bench.directory.path().join("tmp/half"), b"x").unwrap();
    let bench = bench.reopened();
    assert!(!stray.exists());
    assert!(!bench.directory.path().join("tmp/half").exists());
}

#[test]
fn one_process_at_a_time() {
    let bench = Bench::new();
    let second = Store::open(bench.directory.path(), StoreLimits::default());
    assert!(matches!(second, Err(StoreError::InUse(_))));
}

#[test]
fn one_client_cannot_use_up_all_uploads_and_empty_ones_expire_soon() {
    let directory = tempfile::tempdir().unwrap();
    let limits = StoreLimits { uploads_per_client_max: 2, ..StoreLimits::default() };
    let store = Store::open(directory.path(), limits).unwrap();
    let begin = |client: [u8; 4]| store.begin_upload(&name("a"), Algorithm::Sha256, Some(client.into()));
    let id = begin([10, 0, 0, 1]).unwrap();
    begin([10, 0, 0, 1]).unwrap();
    assert!(matches!(begin([10, 0, 0, 1]), Err(StoreError::TooManyUploads(2))));
    begin([10, 0, 0, 2]).unwrap();
    let session = store.upload(id).unwrap();
    session.try_lock_owned().unwrap().append(&[Bytes::from_static(b"data")]).unwrap();
    let soon = SystemTime::now() + StoreLimits::default().upload_empty_max * 2;
    assert_eq!(store.expire_uploads(soon).unwrap(), 2, "the two without data");
    assert!(begin([10, 0, 0, 1]).is_ok(), "expired uploads do not count");
    assert!(store.upload(id).is_ok());
}

#[test]
fn uploads_are_bounded_and_expire() {
    let directory = tempfile::tempdir().unwrap();
    let limits = StoreLimits {
        uploads_max: 1,
        blob_len_max: 4,
        upload_idle_max: Duration::from_secs(60),
        ..StoreLimits::default()
    };
    let store = Store::open(directory.path(), limits).unwrap();
    let id = store.begin_upload(&name("a"), Algorithm::Sha256, None).unwrap();
    let second = store.begin_upload(&name("a"), Algorithm::Sha256, None);
    assert!(matches!(second, Err(StoreError::TooManyUploads(1))));
    let too_much = store.upload(id).unwrap().blocking_lock().append(&[Bytes::from_static(b"12345")]);
    assert!(matches!(too_much, Err(StoreError::BlobTooLarge(4))));
    assert_eq!(store.expire_uploads(SystemTime::now()).unwrap(), 0);
    let session = store.upload(id).unwrap();
    let busy = session.blocking_lock();
    let later = SystemTime::now() + Duration::from_secs(61);
    assert_eq!(store.expire_uploads(later).unwrap(), 0, "one that is being added to is not idle");
    drop(busy);
    assert_eq!(store.expire_uploads(later).unwrap(), 1);
    assert!(store.begin_upload(&name("a"), Algorithm::Sha256, None).is_ok());
}

#[test]
fn a_manifest_needs_its_parts_in_its_repository() {
    let bench = Bench::new();
    let blob = bench.push_blob("other", b"layer");
    let config = bench.push_blob("a", b"config");
    let document = image(descriptor(&config, 6), vec![descriptor(&blob, 5)]);
    let put = bench.push_document("a", Some("v1"), &document);
    assert!(matches!(put, Err(StoreError::ReferencesUnknown(missing)) if missing.len() == 1));
    assert!(bench.store.mount(&name("other"), &name("a"), &blob).unwrap());
    assert!(!bench.store.mount(&name("nowhere"), &name("a"), &blob).unwrap());
    let digest = bench.push_document("a", Some("v1"), &document).unwrap();
    let bench = bench.reopened();
    let found = bench.store.manifest(&name("a"), &"v1".parse().unwrap()).unwrap();
    assert_eq!((found.digest, found.media_type.as_str()), (digest, OCI_MANIFEST));
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [descriptor(&config, 6)]});
    assert!(bench.push_document("a", None, &index).is_err(), "a blob is no manifest");
}

#[test]
fn a_damaged_manifest_is_never_served_and_stops_collection() {
    let bench = Bench::new();
    let digest = bench.push_image("a", Some("v1"), "one");
    std::fs::write(bench.store.blob_path(&digest), b"{}").unwrap();
    assert!(matches!(bench.store.manifest(&name("a"), &"v1".parse().unwrap()), Err(StoreError::Damaged { .. })));
    let before = bench.blob_count();
    assert!(matches!(bench.store.collect(&NOW, SystemTime::now()), Err(StoreError::Damaged { .. })));
    assert_eq!(bench.blob_count(), before);
    bench.push_image("a", Some("v1"), "one");
    assert!(bench.store.manifest(&name("a"), &"v1".parse().unwrap()).is_ok(), "a push repairs it");
}

#[test]
fn deleting_a_tag_keeps_the_manifest_and_deleting_a_digest_removes_its_tags() {
    let bench = Bench::new();
    let digest = bench.push_image("a", Some("v1"), "one");
    bench.push_image("a", Some("v2"), "one");
    bench.store.delete_manifest(&name("a"), &"v1".parse().unwrap()).unwrap();
    assert_eq!(bench.store.tags(&name("a")).unwrap(), [tag_of("v2")]);
    bench.store.delete_manifest(&name("a"), &Selector::Digest(digest.clone())).unwrap();
    assert_eq!(bench.store.tags(&name("a")).unwrap(), []);
    let again = bench.store.delete_manifest(&name("a"), &Selector::Digest(digest));
    assert!(matches!(again, Err(StoreError::ManifestUnknown(_))));
}

#[test]
fn referrers_are_found_and_removed_with_their_manifest() {
    let bench = Bench::new();
    let subject = bench.push_image("a", Some("v1"), "one");
    let config = bench.push_blob("a", b"{}");
    let mut document = image(descriptor(&config, 2), Vec::new());
    document["subject"] = json!({"mediaType": OCI_MANIFEST, "digest": subject, "size": 1});
    document["artifactType"] = json!("application/x-signature");
    document["annotations"] = json!({"by": "me"});
    let referrer = bench.push_document("a", None, &document).unwrap();
    let found = bench.store.referrers(&name("a"), &subject).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].digest, referrer);
    assert_eq!(found[0].artifact_type.as_deref(), Some("application/x-signature"));
    assert_eq!(found[0].annotations["by"], "me");
    bench.store.delete_manifest(&name("a"), &Selector::Digest(referrer)).unwrap();
    assert_eq!(bench.store.referrers(&name("a"), &subject).unwrap(), []);
}

#[test]
fn garbage_collection_removes_unreferenced_content() {
    let bench = Bench::new();
    let kept = bench.push_image("a", Some("v1"), "one");
    let gone = bench.push_image("a", Some("v2"), "two");
    bench.push_blob("a", b"never used");
    bench.store.delete_manifest(&name("a"), &Selector::Digest(gone)).unwrap();
    assert_eq!(bench.blob_count(), 7);
    let dry = bench.collect(&GcOptions { dry_run: true, ..NOW });
    assert_eq!((dry.blobs_removed, bench.blob_count()), (4, 7));
    let report = bench.collect(&NOW);
    assert_eq!((report.blobs_removed, report.blobs_kept, bench.blob_count()), (4, 3, 3));
    assert!(bench.store.manifest(&name("a"), &Selector::Digest(kept)).is_ok());
    assert_eq!(bench.collect(&NOW).blobs_removed, 0);
}

#[test]
fn recent_and_requested_content_is_kept() {
    let bench = Bench::new();
    let asked = bench.push_blob("a", b"asked for");
    let old = bench.push_blob("a", b"old");
    let hour = Duration::from_secs(3600);
    let options = GcOptions { grace: hour, ..NOW };
    assert_eq!(bench.collect(&options).blobs_removed, 0);
    for digest in [&asked, &old] {
        for path in [bench.store.layer_link(&name("a"), digest), bench.store.blob_path(digest)] {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - 2 * hour).unwrap();
        }
    }
    bench.store.open_blob(&name("a"), &asked).unwrap();
    assert_eq!(bench.collect(&options).blobs_removed, 1);
    assert!(bench.store.has_blob(&name("a"), &asked));
    assert!(!bench.store.has_blob(&name("a"), &old));
}

#[test]
fn untagged_manifests_are_removed_unless_referenced() {
    let bench = Bench::new();
    let part = bench.push_image("a", None, "part");
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [descriptor(&part, 1)]});
    let index = bench.push_document("a", Some("multi"), &index).unwrap();
    let config = bench.push_blob("a", b"{}");
    let mut signature = image(descriptor(&config, 2), Vec::new());
    signature["subject"] = json!({"mediaType": OCI_MANIFEST, "digest": part, "size": 1});
    let signature = bench.push_document("a", None, &signature).unwrap();
    let orphan = bench.push_image("a", None, "orphan");
    assert_eq!(bench.collect(&NOW).manifests_removed, 0, "only when asked to");
    let report = bench.collect(&GcOptions { untagged: true, ..NOW });
    assert_eq!((report.manifests_removed, report.blobs_removed), (1, 3));
    let mut left = bench.store.revisions(&name("a")).unwrap();
    left.sort();
    let mut expected = vec![part, index, signature];
    expected.sort();
    assert_eq!(left, expected);
    assert!(!left.contains(&orphan));
}

/// Pushers against collectors without any grace: whatever is answered with success is whole afterwards.
#[test]
fn garbage_collection_never_breaks_an_accepted_image() {
    let bench = Bench::new();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let accepted = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                bench.collect(&GcOptions { untagged: true, ..NOW });
            }
        });
        let pushers: Vec<_> = (0..4)
            .map(|n| {
                let bench = &bench;
                scope.spawn(move || {
                    let push = |round: usize| {
                        let config = format!("config {n} {round}");
                        let digest = bench.push_blob("a", config.as_bytes());
                        let shared = bench.push_blob("a", b"shared by all");
                        let document = image(descriptor(&digest, config.len()), vec![descriptor(&shared, 13)]);
                        // Collected in between: refused, as it must be.
                        bench.push_document("a", Some(&format!("t{n}-{round}")), &document).ok()
                    };
                    (0..60).filter_map(push).collect::<Vec<_>>()
                })
            })
            .collect();
        let accepted: Vec<_> = pushers.into_iter().map(|pusher| pusher.join()).collect();
        // Before anything may panic: the collector would go on forever.
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        collector.join().unwrap();
        accepted.into_iter().flat_map(|accepted| accepted.unwrap()).collect::<Vec<_>>()
    });
    for digest in accepted {
        let found = bench.store.manifest(&name("a"), &Selector::Digest(digest)).unwrap();
        let manifest = Manifest::parse(None, &found.bytes).unwrap();
        assert!(manifest.references().all(|reference| bench.store.has_blob(&name("a"), &reference.digest)));
    }
}

#[test]
fn nested_repositories_are_listed() {
    let bench = Bench::new();
    for repository in ["b", "a/b/c", "a", "a-b"] {
        bench.push_image(repository, Some("v1"), repository);
    }
    bench.push_blob("only/blobs", b"x");
    let page = bench.store.catalog_page(None, 10).unwrap();
    assert_eq!(page.items, ["a", "a-b", "a/b/c", "b"]);
    let missing = bench.store.tag_page(&name("nowhere"), None, 1);
    assert!(matches!(missing, Err(StoreError::RepositoryUnknown(_))));
}
