//! Follows files that are applied again when they change.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Interval for checking whether a file changed.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Calls `apply` with the contents whenever one of the files changed, until stopped. Files that cannot be read or applied
/// change nothing.
pub(crate) async fn follow_files(
    what: &'static str,
    files: Vec<PathBuf>,
    apply: impl Fn() -> anyhow::Result<()> + Send + 'static,
    stop: CancellationToken,
) {
    let mut seen = read(&files).await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        let found = read(&files).await;
        if found.is_none() || found == seen {
            continue;
        }
        seen = found;
        match apply() {
            Ok(()) => tracing::info!("{what} changed and was applied"),
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "{what} changed and was not applied; the former stays in effect"
                );
            }
        }
    }
}

/// The contents of all files; `None` while one of them cannot be read.
async fn read(files: &[PathBuf]) -> Option<Vec<Vec<u8>>> {
    let mut contents = Vec::new();
    for file in files {
        contents.push(tokio::fs::read(file).await.ok()?);
    }
    Some(contents)
}
