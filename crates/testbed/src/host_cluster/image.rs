//! Builds the image of this program, and pushes it to the registry of the testbed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use membership::agent_manifests::LOCAL_IMAGE;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::Instant;

use super::image_file;
use crate::bed::Testbed;
use crate::display::ProgressLine;
use crate::place::TestbedDir;
use crate::spec::{loopback, write_file};

const POLL: Duration = Duration::from_millis(50);
/// The user of the image made by `tools/image`.
const USER: u32 = 65532;

/// Pushes the image, and returns its reference with the digest: another program is another image.
pub async fn publish(bed: &Testbed, line: &ProgressLine, deadline: Instant) -> anyhow::Result<String> {
    let port = bed.spec.registry_port.context("a host cluster needs the registry")?;
    while TcpStream::connect(loopback(port)).await.is_err() {
        if Instant::now() >= deadline {
            bail!("the registry is not ready before the timeout");
        }
        tokio::time::sleep(POLL).await;
    }
    line.say("building its image");
    let context = bed.place.directory().join("images/flotilla");
    write_context(&bed.program, &context).await?;
    let pushed = push(bed, &context, port).await;
    std::fs::remove_dir_all(&context).with_context(|| format!("cannot remove {}", context.display()))?;
    let reference = format!("localhost:{port}/{LOCAL_IMAGE}@{}", pushed?);
    write_file(&image_file(&bed.place), reference.as_bytes())?;
    Ok(reference)
}

/// Returns the reference of the image that was pushed last.
pub fn published(place: &TestbedDir) -> anyhow::Result<String> {
    let file = image_file(place);
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Writes the program with the libraries it needs, and a Dockerfile.
async fn write_context(program: &Path, context: &Path) -> anyhow::Result<()> {
    if context.exists() {
        std::fs::remove_dir_all(context).with_context(|| format!("cannot remove {}", context.display()))?;
    }
    let root = context.join("root");
    copy(program, &root.join("usr/bin/flotilla"))?;
    for name in ["karmadactl", "curl"] {
        std::os::unix::fs::symlink("flotilla", root.join("usr/bin").join(name)).context("cannot create a link")?;
    }
    let listed = Command::new("ldd").arg(program).output().await.context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        copy(Path::new(library), &root.join(library.trim_start_matches('/')))?;
    }
    for folder in ["data", "tmp"] {
        std::fs::create_dir_all(context.join(folder)).context("cannot create a directory")?;
    }
    let owned = |folder: &str| format!("COPY --chown={USER}:{USER} {folder} /{folder}");
    let lines = [
        "FROM scratch".to_owned(),
        "COPY root /".to_owned(),
        owned("data"),
        owned("tmp"),
        "ENV PATH=/usr/bin".to_owned(),
        "ENV HOME=/data".to_owned(),
        format!("USER {USER}:{USER}"),
        "ENTRYPOINT [\"/usr/bin/flotilla\"]".to_owned(),
    ];
    let file = context.join("Dockerfile");
    std::fs::write(&file, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", file.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = || {
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::copy(from, to)
    };
    copied().map(drop).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Returns the digest of the pushed image.
async fn push(bed: &Testbed, context: &Path, port: u16) -> anyhow::Result<String> {
    let mut command = Command::new(&bed.program);
    command.args(["image", "distribute"]).arg(context).args(["-t", LOCAL_IMAGE, "--uncompressed", "--no-import"]);
    command.args(["--to", &loopback(port).to_string()]).arg("--home").arg(bed.place.home());
    let output = command.args(["--name", bed.place.name()]).kill_on_drop(true).output().await;
    let output = output.context("cannot build the image")?;
    if !output.status.success() {
        bail!("cannot build the image: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let digest = said.lines().find_map(|line| line.trim().split_once('@')).map(|(_, digest)| digest.to_owned());
    digest.with_context(|| format!("the image has no digest: {said}"))
}
