//! Builders that may be installed: buildah, and Docker where its daemon answers.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::{BuildError, BuildOptions};
use crate::copy::endpoints::{ArchiveEndpoint, LayoutEndpoint};
use crate::copy::{CopyOptions, CopyProgress, Source, copy};
use crate::image::layout::Layout;
use crate::manifest::Descriptor;

const ASK_MAX: Duration = Duration::from_secs(10);
/// Length of the output shown of a failed build: its end has the reason.
const SAID_MAX: usize = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Buildah,
    Docker,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Buildah => "buildah",
            Self::Docker => "docker",
        }
    }
}

/// A builder that is there and answers.
pub async fn find() -> Option<Tool> {
    for (tool, question) in [(Tool::Buildah, "version"), (Tool::Docker, "info")] {
        let mut asked = Command::new(tool.name());
        asked.arg(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        if matches!(tokio::time::timeout(ASK_MAX, asked.status()).await, Ok(Ok(status)) if status.success()) {
            return Some(tool);
        }
    }
    None
}

/// Builds with a tool, then takes the image out of its store.
pub async fn build(
    tool: Tool,
    options: &BuildOptions,
    layout: &Layout,
    progress: &dyn CopyProgress,
) -> Result<Descriptor, BuildError> {
    let name = options.name.to_string();
    let archive = layout.dir().join(format!("{}.tar", uuid::Uuid::new_v4()));
    let mut build = Command::new(tool.name());
    build.arg("build").arg("-t").arg(&name).arg("-f").arg(options.dockerfile());
    build.arg("--platform").arg(options.platform.to_string());
    for (key, value) in &options.arguments {
        build.arg("--build-arg").arg(format!("{key}={value}"));
    }
    if tool == Tool::Buildah {
        build.args(["--format", "oci"]);
    }
    build.arg(&options.context);
    run(tool, build).await?;
    let mut save = Command::new(tool.name());
    match tool {
        Tool::Buildah => save.arg("push").arg(&name).arg(format!("oci-archive:{}:{name}", archive.display())),
        Tool::Docker => save.arg("save").arg("-o").arg(&archive).arg(&name),
    };
    run(tool, save).await?;
    let taken = take(&archive, options, layout, progress).await;
    let _ = std::fs::remove_file(&archive);
    taken
}

async fn take(
    archive: &Path,
    options: &BuildOptions,
    layout: &Layout,
    progress: &dyn CopyProgress,
) -> Result<Descriptor, BuildError> {
    let source = ArchiveEndpoint::open(archive, layout.dir(), None)?;
    let source: &dyn Source = &source;
    let target = LayoutEndpoint::new(layout.clone(), Some(options.name.clone()));
    let wanted = CopyOptions { platform: Some(options.platform.clone()), ..CopyOptions::default() };
    let manifest = copy(source, &target, &wanted, progress).await?;
    Ok(manifest.descriptor())
}

async fn run(tool: Tool, mut command: Command) -> Result<(), BuildError> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|source| BuildError::Io { path: tool.name().to_owned(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
    let skip = said.chars().count().saturating_sub(SAID_MAX);
    let said = said.chars().skip(skip).collect();
    Err(BuildError::Tool { tool: tool.name(), status: output.status.to_string(), said })
}
