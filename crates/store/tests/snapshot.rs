//! A backup contains everything in a store and restores into any engine; an incomplete one is never used.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

mod engines;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use proptest::prelude::*;
use store::embedded::{self, Embedded, EmbeddedOptions};
use store::memory::Memory;
use store::reserved::{self, Restored};
use store::snapshot::{self, Fill, REVISION_GAP, SnapshotFile, StoreSnapshot, file};
use store::{Error, RangeRequest, Store};

use crate::engines::{EtcdServer, find_etcd};

fn fill_options() -> Fill {
    let restored = Restored { instance: "i".into(), backup_revision: 7, ..Restored::default() };
    Fill { restored: Some(restored), doing: "a test was interrupted".into() }
}

/// Keys with history, deletions, leases, odd names and odd values.
async fn furnish(store: &dyn Store) {
    let lease = store.grant(3600).await.unwrap();
    store.grant(3600).await.unwrap();
    // More than a page, concurrently so that they share flushes.
    futures::stream::iter(0..1200)
        .for_each_concurrent(64, |number| async move {
            let key = format!("/core/configmaps/default/c{number:04}");
            store.create(&key, format!("{number}").into(), None).await.unwrap();
        })
        .await;
    for number in 0..20 {
        let key = format!("/core/configmaps/default/c{number:04}");
        let current = store.get(&key).await.unwrap().0.unwrap();
        store.update(&key, "changed".into(), current.mod_revision, None).await.unwrap();
    }
    for number in 100..120 {
        store.delete(&format!("/core/configmaps/default/c{number:04}"), None).await.unwrap();
    }
    store.create("/core/events/default/e", "leased".into(), Some(lease)).await.unwrap();
    store.create("/apps/deployments/default/ünïcode", Bytes::from(vec![0, 159, 255]), None).await.unwrap();
    store.create("/apps/deployments/default/empty", Bytes::new(), None).await.unwrap();
}

async fn contents(store: &dyn Store) -> BTreeMap<String, (Bytes, bool)> {
    let all = store.range(RangeRequest::prefix("/")).await.unwrap();
    let own = all.kvs.into_iter().filter(|kv| !reserved::is_reserved(&kv.key));
    own.map(|kv| (kv.key.to_string(), (kv.value, kv.lease.is_some()))).collect()
}

/// Checks that a filled store serves the clients of the previous one correctly.
async fn check_filled(store: &dyn Store, before: &BTreeMap<String, (Bytes, bool)>, taken_at: u64) {
    assert_eq!(&contents(store).await, before);
    let revision = store.revision().await.unwrap();
    assert!(revision > taken_at + REVISION_GAP, "{revision} after {taken_at}");
    for seen in [1, taken_at, taken_at + 1, taken_at + 100_000] {
        let watched = store.watch("/", seen).await.err();
        assert!(matches!(watched, Some(Error::Compacted { .. })), "a watch from {seen}: {watched:?}");
        let read = store.range(RangeRequest::prefix("/").at(seen)).await.err();
        assert!(matches!(read, Some(Error::Compacted { .. })), "a read at {seen}: {read:?}");
    }
    let mut watch = store.watch("/core/", revision + 1).await.unwrap();
    let leased = store.get("/core/events/default/e").await.unwrap().0.unwrap();
    assert_eq!(store.lease_ttl(leased.lease.unwrap()).await.unwrap(), 3600);
    let written = store.create("/core/configmaps/default/new", "1".into(), None).await.unwrap();
    assert!(written > revision);
    let batch = watch.next().await.unwrap().unwrap();
    assert_eq!(batch.events[0].kv.mod_revision, written);
    let conflict = store.update("/core/configmaps/default/new", "2".into(), taken_at, None).await.err();
    assert!(matches!(conflict, Some(Error::Conflict { .. })), "{conflict:?}");
    store.update("/core/configmaps/default/new", "2".into(), written, None).await.unwrap();
    store.revoke(leased.lease.unwrap()).await.unwrap();
    assert!(store.get("/core/events/default/e").await.unwrap().0.is_none());
    let marked = reserved::restored(store).await.unwrap().unwrap();
    assert_eq!(marked.instance, "i");
    reserved::forget_restored(store).await.unwrap();
    assert!(reserved::restored(store).await.unwrap().is_none());
}

/// Through a file into every engine.
async fn check_everywhere(
    snapshot: StoreSnapshot,
    before: &BTreeMap<String, (Bytes, bool)>,
    etcd: Option<&EtcdServer>,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    file::write(&path, &snapshot, false, &|_| {}).unwrap();
    let read = file::read(&path).unwrap();
    assert_eq!(read, snapshot);
    let taken_at = snapshot.about.revision;

    let place = directory.path().join("store");
    embedded::fill(&place, &read, &fill_options(), false, &|_| {}).unwrap().finish().unwrap();
    let store = Embedded::open(&EmbeddedOptions::new(&place)).unwrap();
    check_filled(&store, before, taken_at).await;
    drop(store);
    let again = Embedded::open(&EmbeddedOptions::new(&place)).unwrap();
    assert!(again.revision().await.unwrap() > taken_at + REVISION_GAP);

    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    snapshot::fill(&*memory, &read, &fill_options(), &|_| {}).await.unwrap();
    check_filled(&*reserved::admit(memory, "memory").await.unwrap(), before, taken_at).await;

    if let Some(server) = etcd {
        let prefix = format!("/into-{}", snapshot.about.engine);
        let raw: Arc<dyn Store> = Arc::new(server.connect(&prefix).await);
        snapshot::fill(&*raw, &read, &fill_options(), &|_| {}).await.unwrap();
        check_filled(&*reserved::admit(raw, "etcd").await.unwrap(), before, taken_at).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_every_engine_restores_into_every_engine() {
    let binary = find_etcd();
    let etcd = match &binary {
        Some(binary) => Some(EtcdServer::plain(binary).await),
        None => None,
    };
    let directory = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap();
    furnish(&embedded).await;
    let before = contents(&embedded).await;
    // While the store is open, as under a running server.
    let snapshot = embedded::snapshot(directory.path()).unwrap();
    assert_eq!(snapshot, snapshot::take(&embedded, &mut |_| {}).await.unwrap());
    check_everywhere(snapshot, &before, etcd.as_ref()).await;

    let memory = Memory::new();
    furnish(&memory).await;
    check_everywhere(snapshot::take(&memory, &mut |_| {}).await.unwrap(), &before, etcd.as_ref()).await;

    if let Some(server) = &etcd {
        let raw: Arc<dyn Store> = Arc::new(server.connect("/source").await);
        let store = reserved::admit(raw, "etcd").await.unwrap();
        furnish(&*store).await;
        check_everywhere(snapshot::take(&*store, &mut |_| {}).await.unwrap(), &before, etcd.as_ref()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_busy_store_is_consistent() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap());
    // Two keys that always change one after the other: an inconsistent snapshot would show the second ahead.
    let mut revisions = [0, 0];
    for (slot, key) in ["/core/a", "/core/b"].iter().enumerate() {
        revisions[slot] = store.create(key, "0".into(), None).await.unwrap();
    }
    let (stop, writer) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), Arc::clone(&store));
    let stopped = Arc::clone(&stop);
    let writing = tokio::spawn(async move {
        let mut number = 0_u64;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            number += 1;
            for (slot, key) in ["/core/a", "/core/b"].iter().enumerate() {
                let value = Bytes::from(number.to_string());
                revisions[slot] = writer.update(key, value, revisions[slot], None).await.unwrap();
            }
        }
        number
    });
    let (mut backups, mut changes_seen) = (0, 0);
    // A busy machine may run the writer late: backups go on until one has seen a change.
    while backups < 20 || changes_seen == 0 {
        let place = directory.path().to_owned();
        let snapshot = tokio::task::spawn_blocking(move || embedded::snapshot(&place)).await.unwrap().unwrap();
        let number = |at: usize| -> u64 { std::str::from_utf8(&snapshot.kvs[at].value).unwrap().parse().unwrap() };
        assert!(number(0) == number(1) || number(0) == number(1) + 1, "{} and {}", number(0), number(1));
        assert!(snapshot.kvs.iter().all(|kv| kv.mod_revision <= snapshot.about.revision));
        (backups, changes_seen) = (backups + 1, changes_seen.max(number(0)));
        assert!(backups < 10_000, "the writer does not run");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writing.await.unwrap();
}

fn small_snapshot(keys: usize) -> StoreSnapshot {
    let kvs = (0..keys).map(|number| store::KeyValue {
        key: format!("/core/configmaps/default/c{number:05}").into(),
        value: format!("{number} {}", "x".repeat(500)).into(),
        create_revision: number as u64 + 2,
        mod_revision: number as u64 + 2,
        lease: None,
    });
    let mut snapshot = StoreSnapshot { kvs: kvs.collect(), ..StoreSnapshot::default() };
    snapshot.about.revision = keys as u64 + 2;
    snapshot.about.taken_at = "2026-01-01T00:00:00Z".into();
    snapshot.files.push(SnapshotFile { path: "pki/ca.key".into(), mode: 0o600, bytes: b"secret".to_vec() });
    snapshot
}

#[test]
fn a_damaged_or_truncated_backup_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    file::write(&path, &small_snapshot(20), false, &|_| {}).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).unwrap();
        match file::read(&path) {
            Err(Error::Corrupt(text)) => assert!(text.contains(path.to_str().unwrap()), "{what}: {text}"),
            // The flipped bit may be in the format number itself.
            Err(Error::NewerFormat { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
    };
    for length in 0..whole.len() {
        refused(&whole[..length], &format!("cut to {length}"));
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes, &format!("bit flipped at {at}"));
    }
    let mut longer = whole.clone();
    longer.push(0);
    refused(&longer, "one byte more");
    std::fs::write(&path, &whole).unwrap();
    file::read(&path).unwrap();
}

#[test]
fn a_backup_is_private_and_overwrites_only_on_request() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    file::write(&path, &small_snapshot(1), false, &|_| {}).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = file::write(&path, &small_snapshot(2), false, &|_| {});
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    assert_eq!(file::read(&path).unwrap().kvs.len(), 1);
    file::write(&path, &small_snapshot(2), true, &|_| {}).unwrap();
    assert_eq!(file::read(&path).unwrap().kvs.len(), 2);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no other file remains");
}

#[test]
fn an_existing_store_is_refused_or_moved_aside() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    let fill = |keys, replace| embedded::fill(&place, &small_snapshot(keys), &fill_options(), replace, &|_| {});
    fill(3, false).unwrap().finish().unwrap();
    assert!(matches!(fill(4, false).err(), Some(Error::Invalid(_))));
    let open = Embedded::open(&EmbeddedOptions::new(&place)).unwrap();
    assert!(matches!(fill(4, true).err(), Some(Error::Locked(_))), "a server has it open");
    drop(open);
    let filled = fill(4, true).unwrap();
    let kept = filled.kept.clone().unwrap();
    // Not finished: it must not be served yet.
    drop(filled);
    let opened = Embedded::open(&EmbeddedOptions::new(&place)).err();
    assert!(matches!(opened, Some(Error::Unfinished(_))), "{opened:?}");
    assert!(matches!(embedded::snapshot(&place), Err(Error::Unfinished(_))), "and it cannot be backed up");
    fill(5, true).unwrap().finish().unwrap();
    Embedded::open(&EmbeddedOptions::new(&place)).unwrap();
    assert_eq!(embedded::snapshot(&place).unwrap().kvs.len(), 5);
    assert_eq!(embedded::snapshot(&kept).unwrap().kvs.len(), 3);
}

#[tokio::test]
async fn a_partially_restored_store_cannot_be_opened_until_restored_again() {
    let raw: Arc<dyn Store> = Arc::new(Memory::new());
    snapshot::fill(&*raw, &small_snapshot(3), &fill_options(), &|_| {}).await.unwrap();
    let twice = snapshot::fill(&*raw, &small_snapshot(3), &fill_options(), &|_| {}).await;
    assert!(matches!(twice, Err(Error::Invalid(_))), "{twice:?}");
    assert_eq!(snapshot::clear(&*raw, "interrupted here").await.unwrap(), 3);
    let refused = reserved::admit(Arc::clone(&raw), "it").await.err().unwrap();
    assert!(refused.to_string().contains("interrupted here"), "{refused}");
    let before = raw.revision().await.unwrap();
    snapshot::fill(&*raw, &small_snapshot(4), &fill_options(), &|_| {}).await.unwrap();
    let store = reserved::admit(raw, "it").await.unwrap();
    assert_eq!(contents(&*store).await.len(), 4);
    assert!(store.revision().await.unwrap() > before + REVISION_GAP);
}

#[tokio::test]
async fn a_moved_store_cannot_be_opened_until_unmarked() {
    let raw: Arc<dyn Store> = Arc::new(Memory::new());
    raw.create("/a", "1".into(), None).await.unwrap();
    reserved::mark_moved(&*raw, "moved to etcd").await.unwrap();
    let refused = reserved::admit(Arc::clone(&raw), "it").await.err().unwrap();
    assert!(refused.to_string().contains("moved to etcd"), "{refused}");
    assert_eq!(reserved::read_marked(Arc::clone(&raw), &mut |_| {}).await.unwrap().kvs.len(), 1);
    reserved::unmark_moved(&*raw).await.unwrap();
    reserved::admit(raw, "it").await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    drop(Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap());
    embedded::mark_moved(directory.path(), "moved to etcd").unwrap();
    let refused = Embedded::open(&EmbeddedOptions::new(directory.path())).err().unwrap();
    assert!(refused.to_string().contains("moved to etcd"), "{refused}");
    embedded::unmark_moved(directory.path()).unwrap();
    Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap();
}

#[test]
fn keys_are_counted_by_group_and_resource() {
    let mut snapshot = small_snapshot(2);
    snapshot.kvs[1].key = "/apps/deployments/default/web".into();
    let counts: Vec<(String, u64)> = snapshot.counts().into_iter().collect();
    assert_eq!(counts, [("configmaps".to_owned(), 1), ("deployments.apps".to_owned(), 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A restored store equals the original, after any sequence of writes and deletes.
    #[test]
    fn restored_contents_equal_the_original(steps in proptest::collection::vec((0_u8..12, any::<bool>(), any::<Vec<u8>>()), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let source = directory.path().join("source");
            let store = Embedded::open(&EmbeddedOptions::new(&source)).unwrap();
            for (key, is_delete, value) in steps {
                let key = format!("/core/k/{key}");
                match (store.get(&key).await.unwrap().0, is_delete) {
                    (Some(_), true) => drop(store.delete(&key, None).await.unwrap()),
                    (Some(old), false) => drop(store.update(&key, value.into(), old.mod_revision, None).await.unwrap()),
                    (None, _) => drop(store.create(&key, value.into(), None).await.unwrap()),
                }
            }
            let snapshot = embedded::snapshot(&source).unwrap();
            let path = directory.path().join("backup");
            file::write(&path, &snapshot, false, &|_| {}).unwrap();
            let target = directory.path().join("target");
            let read = file::read(&path).unwrap();
            embedded::fill(&target, &read, &Fill::default(), false, &|_| {}).unwrap().finish().unwrap();
            let restored = Embedded::open(&EmbeddedOptions::new(&target)).unwrap();
            assert_eq!(contents(&restored).await, contents(&store).await);
            // Unchanged objects keep their versions, so that caches stay valid.
            for kv in &read.kvs {
                let found = restored.get(&kv.key).await.unwrap().0.unwrap();
                assert_eq!((found.mod_revision, found.create_revision), (kv.mod_revision, kv.create_revision));
            }
        });
    }
}

const CHILD_JOB: &str = "FLOTILLA_SNAPSHOT_TEST_JOB";
const CHILD_PLACE: &str = "FLOTILLA_SNAPSHOT_TEST_PLACE";
const CHILD_KEYS: usize = 20_000;

#[test]
#[ignore = "the child of the tests below"]
fn child() {
    let (Ok(job), Some(place)) = (std::env::var(CHILD_JOB), std::env::var_os(CHILD_PLACE)) else { return };
    let place = PathBuf::from(place);
    let snapshot = small_snapshot(CHILD_KEYS);
    let progress = |keys: u64| println!("\nat {keys}");
    progress(0);
    match job.as_str() {
        "backup" => drop(file::write(&place, &snapshot, false, &progress).unwrap()),
        _ => embedded::fill(&place, &snapshot, &fill_options(), true, &progress).unwrap().finish().unwrap(),
    }
    println!("\nat end");
}

/// Runs the job in a child process and kills it after this many progress lines; returns whether it had finished.
fn kill_after(job: &str, place: &Path, signs: usize) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD_JOB, job)
        .env(CHILD_PLACE, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut has_ended = false;
    for (seen, line) in lines.filter(|line| line.starts_with("at ")).enumerate() {
        has_ended |= line == "at end";
        if seen >= signs || has_ended {
            break;
        }
    }
    child.kill().ok();
    child.wait().unwrap();
    has_ended
}

#[test]
fn a_killed_backup_leaves_no_file_under_its_name() {
    for signs in [0, 1, 5, 15, 19] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backup");
        kill_after("backup", &path, signs);
        if path.exists() {
            assert_eq!(file::read(&path).unwrap().kvs.len(), CHILD_KEYS, "killed after {signs}");
        }
    }
}

#[test]
fn a_killed_restore_cannot_be_opened() {
    let mut interrupted = 0;
    for signs in [0, 1, 5, 15, 20, 1000] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("store");
        embedded::fill(&place, &small_snapshot(10), &fill_options(), false, &|_| {}).unwrap().finish().unwrap();
        let has_ended = kill_after("restore", &place, signs);
        match Embedded::open(&EmbeddedOptions::new(&place)) {
            Ok(store) => {
                let keys = store.local().unwrap().count("/core/");
                assert!(keys == 10 || keys == CHILD_KEYS as u64, "killed after {signs}: {keys} keys are served");
                assert!(!has_ended || keys == CHILD_KEYS as u64);
            }
            Err(Error::Unfinished(_)) => {
                assert!(!has_ended);
                interrupted += 1;
            }
            Err(other) => panic!("killed after {signs}: {other}"),
        }
        // The restore can be repeated.
        embedded::fill(&place, &small_snapshot(11), &fill_options(), true, &|_| {}).unwrap().finish().unwrap();
        assert_eq!(embedded::snapshot(&place).unwrap().kvs.len(), 11);
    }
    assert!(interrupted > 0, "no restore was hit in the middle");
}

/// A tmpfs; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        match mount.args(["-t", "tmpfs", "-o", &options, "flotilla-test"]).arg(place.path()).output() {
            Ok(output) if output.status.success() => Some(SmallDisk(place)),
            other => {
                test_skip::skip(format_args!("cannot mount a tmpfs (requires root): {other:?}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0.path()).status().ok();
    }
}

#[test]
fn a_full_disk_leaves_no_partial_files() {
    let Some(disk) = SmallDisk::mount("1m") else { return };
    let mut snapshot = small_snapshot(3000);
    // Incompressible data.
    let mut seed = 1_u64;
    for kv in &mut snapshot.kvs {
        let noise = (0..1000).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u8
        });
        kv.value = noise.collect::<Vec<u8>>().into();
    }
    let path = disk.0.path().join("backup");
    let written = file::write(&path, &snapshot, false, &|_| {});
    assert!(matches!(written, Err(Error::NoSpace(_))), "{written:?}");
    assert_eq!(std::fs::read_dir(disk.0.path()).unwrap().count(), 0);

    let place = disk.0.path().join("store");
    embedded::fill(&place, &small_snapshot(5), &fill_options(), false, &|_| {}).unwrap().finish().unwrap();
    let refused = embedded::fill(&place, &snapshot, &fill_options(), true, &|_| {}).err();
    assert!(matches!(refused, Some(Error::NoSpace(_))), "{refused:?}");
    assert_eq!(embedded::snapshot(&place).unwrap().kvs.len(), 5, "the existing data is intact");
    Embedded::open(&EmbeddedOptions::new(&place)).unwrap();
}
