//! Opens text in the user's editor.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// Returns the text as the user leaves it in `$KUBE_EDITOR`, `$EDITOR` or vi.
pub fn open(text: &str, extension: &str) -> anyhow::Result<String> {
    let named =
        ["KUBE_EDITOR", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let editor = named.unwrap_or_else(|| "vi".to_owned());
    let file = TemporaryFile::write(text, extension)?;
    // As kubectl does: an editor may be a command with arguments.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$0\"")).arg(&file.0).status();
    let status = status.with_context(|| format!("there was a problem with the editor {editor:?}"))?;
    if !status.success() {
        bail!("there was a problem with the editor {editor:?}: {status}");
    }
    std::fs::read_to_string(&file.0).context("cannot read the edited file")
}

/// Removed when dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn write(text: &str, extension: &str) -> anyhow::Result<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("flotilla-edit-{}-{:x}.{extension}", std::process::id(), now.as_nanos());
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::OpenOptions::new();
        // The text may be a Secret.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create_new(true).open(&path).context("cannot create a file to edit")?;
        std::io::Write::write_all(&mut file, text.as_bytes()).context("cannot write the file to edit")?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
