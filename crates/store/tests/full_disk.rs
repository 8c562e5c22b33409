//! On a full disk writes are refused without side effects; once there is space they succeed again.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::embedded::{Embedded, EmbeddedOptions};
use store::{Error, RangeRequest, Store};

/// A tmpfs of a few megabytes; unmounted when dropped.
struct SmallDisk {
    path: PathBuf,
    _parent: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: usize) -> Option<SmallDisk> {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "flotilla-test"])
            .arg(&path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { path, _parent: parent }),
            other => {
                test_skip::skip(format_args!("cannot mount a tmpfs (requires root): {other:?}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.path).status().ok();
    }
}

async fn fill_until_refused(store: &Embedded, prefix: &str) -> (usize, Error) {
    let value = Bytes::from(vec![7; 20_000]);
    for number in 0.. {
        let before = store.revision().await.unwrap();
        match store.create(&format!("{prefix}/{number:05}"), value.clone(), None).await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(store.revision().await.unwrap(), before, "a refused write changed something");
                assert!(store.get(&format!("{prefix}/{number:05}")).await.unwrap().0.is_none());
                return (number, error);
            }
        }
    }
    unreachable!("the disk never filled")
}

async fn until_healthy(store: &Embedded) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while let Err(error) = store.health().await {
        assert!(Instant::now() < deadline, "still unhealthy: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn reopen_and_count(directory: &Path) -> usize {
    let store = Embedded::open(&EmbeddedOptions::new(directory)).unwrap();
    store.local().unwrap().range(RangeRequest::prefix("/k/")).unwrap().kvs.len()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_the_store_recovers() {
    let Some(disk) = SmallDisk::mount(12) else { return };
    let directory = disk.path.join("store");
    let ballast = disk.path.join("ballast");
    std::fs::write(&ballast, vec![0; 6 << 20]).unwrap();

    let store = Embedded::open(&EmbeddedOptions::new(&directory)).unwrap();
    let mut watch = store.watch("/", 2).await.unwrap();
    let (written, error) = fill_until_refused(&store, "/k/a").await;
    assert!(matches!(error, Error::NoSpace(_)), "{error}");
    assert!(written > 10);
    assert!(matches!(store.health().await, Err(Error::NoSpace(_))));
    assert_eq!(store.count("/k/").await.unwrap(), written as u64, "reads continue");
    assert!(matches!(store.create("/k/b", "1".into(), None).await, Err(Error::NoSpace(_)) | Ok(_)));

    std::fs::remove_file(&ballast).unwrap();
    until_healthy(&store).await;
    store.create("/k/c", "1".into(), None).await.unwrap();
    let total = store.count("/k/").await.unwrap() as usize;
    let mut seen = 0;
    while seen < total {
        seen += watch.next().await.unwrap().unwrap().events.len();
    }
    drop(store);
    assert_eq!(reopen_and_count(&directory), total);
}
