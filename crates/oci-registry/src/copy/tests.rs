//! Copies between all kinds of places, and what happens when a source lies or breaks off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::endpoints::{ArchiveEndpoint, LayoutEndpoint, RegistryEndpoint};
use super::*;
use crate::client::{Client, ClientOptions};
use crate::image::archive::pack;
use crate::image::layout::Layout;
use crate::manifest::{OCI_CONFIG, OCI_INDEX, OCI_LAYER, OCI_MANIFEST};
use crate::name::Reference;
use crate::preload::{ImageSource, preload};
use crate::server::{RegistryConfig, start};

struct Bench {
    directory: tempfile::TempDir,
    client: Arc<Client>,
    host: String,
    cancel: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Bench {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cancel = CancellationToken::new();
        let settings = RegistryConfig::new(&directory.path().join("registry"), "127.0.0.1:0".parse().unwrap());
        let running = start(settings, cancel.clone()).await.unwrap();
        let client = Client::new(&ClientOptions::default()).unwrap();
        Self { directory, client, host: running.address.to_string(), cancel }
    }

    fn layout(&self, name: &str) -> Layout {
        Layout::create(&self.directory.path().join(name)).unwrap()
    }

    async fn in_registry(&self, image: &str) -> RegistryEndpoint {
        let image: Reference = format!("{}/{image}", self.host).parse().unwrap();
        RegistryEndpoint { remote: self.client.remote(&image).await.unwrap(), selector: image.selector() }
    }
}

/// An image with a layer of 9 MB, so that it is sent in several pieces. Its content does not matter.
fn build(layout: &Layout, platform: &str, name: Option<&str>) -> Descriptor {
    let mut noise = vec![0_u8; 9_000_000];
    let mut state = platform.len() as u64 + 1;
    for word in noise.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    let layer = layout.put_bytes(OCI_LAYER, &noise).unwrap();
    let platform = Platform::parse(platform).unwrap();
    let config = layout.put_bytes(OCI_CONFIG, &serde_json::to_vec(&platform).unwrap()).unwrap();
    let manifest = json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [layer]});
    let image = layout.put_bytes(OCI_MANIFEST, manifest.to_string().as_bytes()).unwrap();
    let image = Descriptor { platform: Some(platform), ..image };
    if let Some(name) = name {
        layout.add(&image, Some(&name.parse().unwrap())).unwrap();
    }
    image
}

#[derive(Default)]
struct Counted(Mutex<Vec<CopyMethod>>);

impl CopyProgress for Counted {
    fn event(&self, event: Event) {
        if let Event::Done { how, .. } = event {
            self.0.lock().push(how);
        }
    }
}

#[tokio::test]
async fn an_image_round_trips_through_all_endpoints() {
    let bench = Bench::start().await;
    let layout = bench.layout("from");
    let image = build(&layout, "linux/amd64", Some("demo/app:1"));
    let archive = bench.directory.path().join("image.tar");
    pack(&layout, &archive).unwrap();
    let from_archive = ArchiveEndpoint::open(&archive, bench.directory.path(), Some("demo/app:1")).unwrap();
    assert_eq!(from_archive.name().unwrap().to_string(), "docker.io/demo/app:1");
    let (one, two) = (bench.in_registry("one:1").await, bench.in_registry("two:1").await);
    let options = CopyOptions::default();
    copy(&from_archive, &one, &options, &NoProgress).await.unwrap();
    let counted = Counted::default();
    copy(&one, &two, &options, &counted).await.unwrap();
    assert_eq!(*counted.0.lock(), [CopyMethod::TakenOver, CopyMethod::TakenOver]);
    let counted = Counted::default();
    copy(&one, &two, &options, &counted).await.unwrap();
    assert_eq!(*counted.0.lock(), [CopyMethod::WasThere, CopyMethod::WasThere]);
    let back = LayoutEndpoint::new(bench.layout("back"), None);
    let manifest = copy(&two, &back, &options, &NoProgress).await.unwrap();
    assert_eq!(manifest.digest, image.digest);
    for entry in std::fs::read_dir(layout.dir().join("blobs/sha256")).unwrap() {
        let name = entry.unwrap().file_name();
        let there = std::fs::read(back.layout.dir().join("blobs/sha256").join(&name)).unwrap();
        assert_eq!(Digest::of(&there).hex(), name.to_str().unwrap());
    }
}

#[tokio::test]
async fn one_platform_or_all_of_an_index_are_copied() {
    let bench = Bench::start().await;
    let layout = bench.layout("from");
    let parts = [build(&layout, "linux/amd64", None), build(&layout, "linux/arm64", None)];
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": parts});
    let index = layout.put_bytes(OCI_INDEX, index.to_string().as_bytes()).unwrap();
    layout.add(&index, Some(&"demo:1".parse().unwrap())).unwrap();
    let source = LayoutEndpoint::open(layout, Some("demo:1")).unwrap();
    let target = bench.in_registry("demo:1").await;
    let all = copy(&source, &target, &CopyOptions::default(), &NoProgress).await.unwrap();
    assert_eq!(all.media_type, OCI_INDEX);
    target.remote.verify(&target.selector, &index.digest).await.unwrap();
    let wanted = |text: &str| CopyOptions { platform: Platform::parse(text), ..CopyOptions::default() };
    let one = copy(&target, &bench.in_registry("demo:arm").await, &wanted("linux/arm64"), &NoProgress).await.unwrap();
    assert_eq!((one.digest, one.media_type.as_str()), (parts[1].digest.clone(), OCI_MANIFEST));
    let none = copy(&target, &bench.in_registry("demo:x").await, &wanted("linux/s390x"), &NoProgress).await;
    let said = none.unwrap_err().to_string();
    assert!(said.contains("linux/amd64, linux/arm64"), "{said}");
}

#[tokio::test]
async fn images_saved_by_docker_are_read() {
    let bench = Bench::start().await;
    let directory = bench.directory.path();
    std::fs::write(directory.join("file"), "content").unwrap();
    let tar = |arguments: &[&str]| {
        let done = std::process::Command::new("tar").args(arguments).current_dir(directory).status().unwrap();
        assert!(done.success());
    };
    tar(&["-cf", "layer.tar", "file"]);
    let diff = Digest::of(&std::fs::read(directory.join("layer.tar")).unwrap());
    let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [diff]}});
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let list = json!([{"Config": "config.json", "RepoTags": ["old/app:2"], "Layers": ["layer.tar"]}]);
    std::fs::write(directory.join("manifest.json"), list.to_string()).unwrap();
    tar(&["-czf", "saved.tar.gz", "manifest.json", "config.json", "layer.tar"]);
    let from = ImageSource::find(directory.join("saved.tar.gz").to_str().unwrap()).unwrap();
    let options = CopyOptions { platform: Platform::parse("linux/amd64"), ..CopyOptions::default() };
    let loaded = preload(&bench.client, &from, None, &bench.host, &options, directory, &NoProgress).await.unwrap();
    assert_eq!(loaded[0].name.to_string(), format!("{}/old/app:2", bench.host));
    let remote = bench.client.remote(&loaded[0].name).await.unwrap();
    assert!(remote.has_blob(&diff).await.unwrap());
    assert_eq!(remote.tags().await.unwrap(), ["2"]);
    let nothing = directory.join("nothing.tar");
    tar(&["-cf", "nothing.tar", "file"]);
    assert!(ArchiveEndpoint::open(&nothing, directory, None).is_err());
}

/// A source whose blobs break off, or are others than they should be.
struct Faulty {
    inner: LayoutEndpoint,
    opened: AtomicUsize,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    BreaksOff { times: usize },
    Lies,
    NeverEnds,
}

#[async_trait]
impl Source for Faulty {
    async fn manifest(&self, part: Option<&Descriptor>) -> Result<RawManifest, CopyError> {
        self.inner.manifest(part).await
    }

    async fn blob(&self, blob: &Descriptor, from: u64) -> Result<ByteStream, CopyError> {
        let n = self.opened.fetch_add(1, Ordering::SeqCst);
        let stream = self.inner.blob(blob, from).await?;
        Ok(match self.fault {
            Fault::BreaksOff { times } if n < times => {
                let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                stream.take(3).chain(futures::stream::once(async { Err(broken) })).boxed()
            }
            Fault::BreaksOff { .. } => stream,
            Fault::Lies => stream.map_ok(|bytes| Bytes::from(vec![0; bytes.len()])).boxed(),
            Fault::NeverEnds => futures::stream::repeat_with(|| Ok(Bytes::from(vec![0; 1_000_000]))).boxed(),
        })
    }
}

async fn copy_faulty(bench: &Bench, fault: Fault, to: &dyn Destination) -> (Result<RawManifest, CopyError>, usize) {
    let layout = bench.layout("faulty");
    build(&layout, "linux/amd64", Some("demo:1"));
    let source = Faulty { inner: LayoutEndpoint::open(layout, None).unwrap(), opened: AtomicUsize::new(0), fault };
    let options = CopyOptions { parallel: 1, ..CopyOptions::default() };
    let copied = copy(&source, to, &options, &NoProgress).await;
    (copied, source.opened.load(Ordering::SeqCst))
}

#[tokio::test]
async fn interrupted_copies_resume() {
    let bench = Bench::start().await;
    let target = bench.in_registry("demo:1").await;
    let (copied, opened) = copy_faulty(&bench, Fault::BreaksOff { times: 4 }, &target).await;
    target.remote.verify(&target.selector, &copied.unwrap().digest).await.unwrap();
    assert!(opened > 4);
}

#[tokio::test]
async fn content_with_a_wrong_digest_is_not_copied() {
    let bench = Bench::start().await;
    let registry = bench.in_registry("demo:1").await;
    let layout = LayoutEndpoint::new(bench.layout("to"), None);
    for fault in [Fault::Lies, Fault::NeverEnds] {
        for target in [&registry as &dyn Destination, &layout] {
            let (copied, _) = copy_faulty(&bench, fault, target).await;
            let refused = matches!(copied, Err(CopyError::DigestDiffers { .. } | CopyError::SizeDiffers { .. }));
            assert!(refused, "{copied:?}");
        }
    }
    assert!(registry.manifest(None).now_or_never().is_none(), "a request waits");
    assert!(registry.manifest(None).await.is_err());
    assert_eq!(std::fs::read_dir(layout.layout.dir().join("blobs/sha256")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failing_source_is_abandoned_and_its_partial_content_reused() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(&directory.path().join("from")).unwrap();
    build(&layout, "linux/amd64", Some("demo:1"));
    let target = LayoutEndpoint::new(Layout::create(&directory.path().join("to")).unwrap(), None);
    let source = |fault| Faulty {
        inner: LayoutEndpoint::open(layout.clone(), None).unwrap(),
        opened: AtomicUsize::new(0),
        fault,
    };
    let options = CopyOptions { parallel: 1, ..CopyOptions::default() };
    let broken = source(Fault::BreaksOff { times: usize::MAX });
    assert!(matches!(copy(&broken, &target, &options, &NoProgress).await, Err(CopyError::Io { .. })));
    let counted = LargestStep::default();
    copy(&source(Fault::BreaksOff { times: 0 }), &target, &options, &counted).await.unwrap();
    let step = counted.0.load(Ordering::SeqCst);
    assert!(step > 1_000_000, "what was there was not read again, but the largest step was {step}");
    assert_eq!(std::fs::read_dir(target.layout.dir().join("blobs/sha256")).unwrap().count(), 3);
}

/// The largest step a blob advanced by: a resumed one begins with a big one.
#[derive(Default)]
struct LargestStep(AtomicUsize);

impl CopyProgress for LargestStep {
    fn event(&self, event: Event) {
        if let Event::Advanced { bytes, .. } = event {
            self.0.fetch_max(usize::try_from(bytes).unwrap(), Ordering::SeqCst);
        }
    }
}
