//! Distribution: build → save → push → import into every member's image store.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;

use crate::build::{BuildError, BuildOptions, build};
use crate::client::Client;
use crate::copy::endpoints::LayoutEndpoint;
use crate::copy::{CopyError, CopyOptions, CopyProgress, copy};
use crate::image::archive::pack;
use crate::image::layout::Layout;
use crate::manifest::Platform;
use crate::name::Reference;
use crate::preload::{ImageSource, LoadedImage, PreloadError, open, push};

/// Members that import at once: each reads the whole archive.
const IMPORTS_MAX: usize = 4;
const IMPORT_MAX: Duration = Duration::from_secs(600);
const SAID_MAX: usize = 2_000;

#[derive(Debug, thiserror::Error)]
pub enum DistributeError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Preload(#[from] PreloadError),
    #[error("cannot write {path}")]
    Save { path: String, source: std::io::Error },
}

/// An archive that was built or read, and the images in it.
pub struct PreparedArchive {
    pub layout: Layout,
    pub archive: PathBuf,
    pub names: Vec<Reference>,
}

/// The result of an import in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    Stored,
    /// With the reason.
    NotNeeded(String),
}

/// A member's image store.
#[async_trait]
pub trait ImageSink: Send + Sync {
    fn member(&self) -> &str;

    /// Takes in an archive of images; afterwards pods can use them by these names without pulling.
    async fn import(&self, archive: &Path, names: &[Reference]) -> Result<ImportOutcome, String>;
}

/// Progress of a distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DistributionStep {
    Saved { archive: PathBuf, len: u64 },
    Importing { member: String },
    Imported { member: String, outcome: ImportOutcome },
    Failed { member: String, why: String },
}

/// Builds a context, or reads an archive or a layout, and saves it in the form every member takes. `said` names the image
/// of an archive or layout; what is built has the name its options say.
pub async fn prepare(
    what: &Path,
    said: Option<&Reference>,
    options: &BuildOptions,
    client: &Arc<Client>,
    scratch: &Path,
    progress: &dyn CopyProgress,
) -> Result<PreparedArchive, DistributeError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| DistributeError::Save { path, source }
    };
    let dir = scratch.join("layout");
    let layout = Layout::create(&dir).map_err(failed(&dir))?;
    let is_context = what.is_dir() && !Layout::is_one(what);
    let names = if is_context {
        build(options, client, &layout, progress).await?;
        vec![options.name.clone()]
    } else {
        let from =
            if what.is_dir() { ImageSource::Layout(what.to_owned()) } else { ImageSource::Archive(what.to_owned()) };
        take(&from, said, &options.platform, client, &layout, scratch, progress).await?
    };
    let archive = scratch.join("image.tar");
    let (packed, to) = (layout.clone(), archive.clone());
    let done = tokio::task::spawn_blocking(move || pack(&packed, &to)).await;
    done.map_err(std::io::Error::other).and_then(|done| done).map_err(failed(&archive))?;
    Ok(PreparedArchive { layout, archive, names })
}

/// Brings what is saved elsewhere into a layout, verified on the way.
async fn take(
    from: &ImageSource,
    said: Option<&Reference>,
    platform: &Platform,
    client: &Arc<Client>,
    layout: &Layout,
    scratch: &Path,
    progress: &dyn CopyProgress,
) -> Result<Vec<Reference>, DistributeError> {
    let mut names = Vec::new();
    let images = open(client, from, scratch).await?;
    let is_one = images.len() == 1;
    for (source, own_name) in images {
        // A name that was said goes to the one image there is.
        let name = said.filter(|_| is_one).cloned().or(own_name);
        let name = name.ok_or_else(|| PreloadError::Nameless(from.to_string()))?;
        let target = LayoutEndpoint::new(layout.clone(), Some(name.clone()));
        let wanted = CopyOptions { platform: Some(platform.clone()), ..CopyOptions::default() };
        copy(source.as_ref(), &target, &wanted, progress).await.map_err(PreloadError::from)?;
        names.push(name);
    }
    Ok(names)
}

/// Pushes prepared images to a registry.
pub async fn push_all(
    prepared: &PreparedArchive,
    client: &Arc<Client>,
    to: &str,
    progress: &dyn CopyProgress,
) -> Result<Vec<LoadedImage>, DistributeError> {
    let mut loaded = Vec::new();
    for name in &prepared.names {
        let source =
            LayoutEndpoint::open(prepared.layout.clone(), Some(&name.to_string())).map_err(PreloadError::from)?;
        loaded.extend(push(client, &source, name, to, &CopyOptions::default(), progress).await?);
    }
    Ok(loaded)
}

/// Members by the result of their imports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imports {
    pub stored: Vec<String>,
    pub not_needed: Vec<String>,
    pub failed: Vec<String>,
}

/// Imports into every member; one that fails holds up no other.
pub async fn import_all(
    prepared: &PreparedArchive,
    sinks: &[Box<dyn ImageSink>],
    watch: &(dyn Fn(DistributionStep) + Sync),
) -> Imports {
    let len = std::fs::metadata(&prepared.archive).map_or(0, |metadata| metadata.len());
    watch(DistributionStep::Saved { archive: prepared.archive.clone(), len });
    let imports: Vec<_> = sinks.iter().map(|sink| import_one(prepared, sink.as_ref(), watch)).collect();
    let mut results = futures::stream::iter(imports).buffer_unordered(IMPORTS_MAX);
    let mut imports = Imports::default();
    while let Some((member, outcome)) = results.next().await {
        match outcome {
            Ok(ImportOutcome::Stored) => imports.stored.push(member),
            Ok(ImportOutcome::NotNeeded(_)) => imports.not_needed.push(member),
            Err(_) => imports.failed.push(member),
        }
    }
    imports
}

async fn import_one(
    prepared: &PreparedArchive,
    sink: &dyn ImageSink,
    watch: &(dyn Fn(DistributionStep) + Sync),
) -> (String, Result<ImportOutcome, String>) {
    let member = sink.member().to_owned();
    watch(DistributionStep::Importing { member: member.clone() });
    let importing = sink.import(&prepared.archive, &prepared.names);
    let outcome = tokio::time::timeout(IMPORT_MAX, importing).await;
    let outcome = outcome.unwrap_or_else(|_| Err(format!("not done within {IMPORT_MAX:?}")));
    watch(match outcome.clone() {
        Ok(outcome) => DistributionStep::Imported { member: member.clone(), outcome },
        Err(why) => DistributionStep::Failed { member: member.clone(), why },
    });
    (member, outcome)
}

/// A member whose nodes only say that containers run.
pub struct SimulatedSink {
    pub member: String,
}

#[async_trait]
impl ImageSink for SimulatedSink {
    fn member(&self) -> &str {
        &self.member
    }

    async fn import(&self, _: &Path, _: &[Reference]) -> Result<ImportOutcome, String> {
        Ok(ImportOutcome::NotNeeded("simulated nodes need no image".to_owned()))
    }
}

/// A containerd of this machine, reached through `ctr`.
pub struct ContainerdSink {
    pub member: String,
    pub socket: PathBuf,
    /// `k8s.io` is where CRI looks.
    pub namespace: String,
}

impl ContainerdSink {
    pub fn new(member: &str, socket: &Path) -> Self {
        Self { member: member.to_owned(), socket: socket.to_owned(), namespace: "k8s.io".to_owned() }
    }

    async fn ctr(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = tokio::process::Command::new("ctr");
        command.arg("--address").arg(&self.socket).arg("--namespace").arg(&self.namespace).args(arguments);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "ctr is not installed; it comes with containerd".to_owned(),
            _ => format!("cannot run ctr: {error}"),
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(SAID_MAX).collect();
        Err(format!("ctr failed: {said}"))
    }
}

#[async_trait]
impl ImageSink for ContainerdSink {
    fn member(&self) -> &str {
        &self.member
    }

    async fn import(&self, archive: &Path, names: &[Reference]) -> Result<ImportOutcome, String> {
        let archive = archive.to_str().ok_or("the archive's path is not UTF-8")?;
        self.ctr(&["images", "import", archive]).await?;
        let listed = self.ctr(&["images", "list", "--quiet"]).await?;
        check_listed(&listed, names)?;
        Ok(ImportOutcome::Stored)
    }
}

/// The operations an import needs on a remote machine.
#[async_trait]
pub trait RemoteMachine: Send + Sync {
    async fn push_file(&self, from: &Path, to: &str) -> Result<(), String>;
    /// Standard output of a command that succeeded.
    async fn exec(&self, command: &[String]) -> Result<String, String>;
}

/// A member in a machine of its own: the archive is pushed into it and imported by a command there.
pub struct MachineSink<M> {
    pub member: String,
    pub machine: M,
    /// `ctr -n k8s.io`, or `microk8s ctr`.
    pub ctr: Vec<String>,
}

#[async_trait]
impl<M: RemoteMachine> ImageSink for MachineSink<M> {
    fn member(&self) -> &str {
        &self.member
    }

    async fn import(&self, archive: &Path, names: &[Reference]) -> Result<ImportOutcome, String> {
        let inside = format!("/tmp/flotilla-image-{}.tar", uuid::Uuid::new_v4());
        self.machine.push_file(archive, &inside).await?;
        let run = |arguments: &[&str]| {
            let words = self.ctr.iter().cloned().chain(arguments.iter().map(ToString::to_string));
            words.collect::<Vec<String>>()
        };
        let imported = self.machine.exec(&run(&["images", "import", &inside])).await;
        let removed = self.machine.exec(&["rm", "-f", &inside].map(str::to_owned)).await;
        imported?;
        removed?;
        check_listed(&self.machine.exec(&run(&["images", "list", "--quiet"])).await?, names)?;
        Ok(ImportOutcome::Stored)
    }
}

fn check_listed(listed: &str, names: &[Reference]) -> Result<(), String> {
    let is_there = |name: &&Reference| listed.lines().any(|line| line.trim() == name.to_string());
    match names.iter().find(|name| !is_there(name)) {
        None => Ok(()),
        Some(missing) => Err(format!("{missing} was imported, but its image store does not list it")),
    }
}

impl std::convert::From<CopyError> for DistributeError {
    fn from(error: CopyError) -> Self {
        Self::Preload(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::BuildOptions;
    use crate::client::ClientOptions;
    use crate::copy::NoProgress;

    struct Fails;

    #[async_trait]
    impl ImageSink for Fails {
        fn member(&self) -> &str {
            "member2"
        }

        async fn import(&self, _: &Path, _: &[Reference]) -> Result<ImportOutcome, String> {
            Err("no space".to_owned())
        }
    }

    /// Answers `ctr` as containerd would.
    #[derive(Default)]
    struct Remembers(parking_lot::Mutex<Vec<String>>);

    #[async_trait]
    impl RemoteMachine for Remembers {
        async fn push_file(&self, from: &Path, to: &str) -> Result<(), String> {
            let index = crate::image::archive::Archive::open(from, Path::new("/tmp")).map_err(|e| e.to_string())?;
            let name = index.index().manifests[0].annotations[crate::image::layout::IMAGE_NAME].clone();
            self.0.lock().extend([format!("push {to}"), name]);
            Ok(())
        }

        async fn exec(&self, command: &[String]) -> Result<String, String> {
            let mut said = self.0.lock();
            said.push(command.join(" "));
            Ok(format!("other\n{}\n", said[1]))
        }
    }

    #[tokio::test]
    async fn a_failing_member_blocks_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let context = folder.path().join("context");
        std::fs::create_dir(&context).unwrap();
        std::fs::write(context.join("Dockerfile"), "FROM scratch\nCOPY Dockerfile /\n").unwrap();
        let options = BuildOptions {
            context: context.clone(),
            dockerfile: None,
            name: "demo:1".parse().unwrap(),
            arguments: Vec::new(),
            platform: Platform::host(),
            mirror: None,
            compresses: true,
        };
        let client = Client::new(&ClientOptions::default()).unwrap();
        let prepared = prepare(&context, None, &options, &client, folder.path(), &NoProgress).await.unwrap();
        let ctr = vec!["ctr".to_owned()];
        let machine = MachineSink { member: "member3".to_owned(), machine: Remembers::default(), ctr };
        let simulated = SimulatedSink { member: "member1".to_owned() };
        let sinks: Vec<Box<dyn ImageSink>> = vec![Box::new(simulated), Box::new(Fails), Box::new(machine)];
        let steps = parking_lot::Mutex::new(Vec::new());
        let imports = import_all(&prepared, &sinks, &|step| steps.lock().push(step)).await;
        assert_eq!(imports.stored, ["member3"]);
        assert_eq!(imports.not_needed, ["member1"]);
        assert_eq!(imports.failed, ["member2"]);
        let failed = DistributionStep::Failed { member: "member2".to_owned(), why: "no space".to_owned() };
        assert!(steps.lock().contains(&failed));
    }

    #[test]
    fn an_import_must_be_listed_by_the_runtime() {
        let names = ["demo:1".parse().unwrap()];
        assert_eq!(check_listed("docker.io/library/demo:1\n", &names), Ok(()));
        assert!(check_listed("docker.io/library/demo:10\n", &names).is_err());
    }
}
