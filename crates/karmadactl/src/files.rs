//! `-f`, `-R` and `-k`: the manifests of a command.

use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;
use object::Object;

use crate::manifests;

/// Selects manifests.
#[derive(Args, Clone, Debug, Default)]
pub struct FileArgs {
    /// File, directory or URL with manifests; `-` is the standard input
    #[arg(short, long, value_name = "FILE", value_delimiter = ',')]
    pub filename: Vec<String>,
    /// Read the directories of -f recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Kustomization directory; needs `kustomize` or `kubectl` on the PATH
    #[arg(short = 'k', long, value_name = "DIR", conflicts_with_all = ["filename", "recursive"])]
    pub kustomize: Option<String>,
}

/// An object in a file.
#[derive(Clone, Debug)]
pub struct FileObject {
    pub source: String,
    pub object: Object,
}

impl FileArgs {
    pub fn is_empty(&self) -> bool {
        self.filename.is_empty() && self.kustomize.is_none()
    }

    /// Reads all objects; lists are expanded.
    pub async fn read(&self, program: &str, command: &str) -> anyhow::Result<Vec<FileObject>> {
        let Some(directory) = &self.kustomize else {
            return manifests::read_sources(&self.filename, self.recursive).await;
        };
        match build(BUILDERS, directory).await? {
            Some(text) => manifests::read_text(&text, directory),
            None => bail!(
                "-k needs `kustomize` or `kubectl` on the PATH to build {directory}; or build it elsewhere and use \
                 `{program} {command} -f FILE`"
            ),
        }
    }
}

/// Programs that build a kustomization, with their arguments before the directory. Kustomize has transformers, generators and
/// remote bases that only its own code reproduces.
const BUILDERS: [&[&str]; 2] = [&["kustomize", "build"], &["kubectl", "kustomize"]];

/// Builds with the first program that is installed; `None` if there is none.
async fn build(builders: [&[&str]; 2], directory: &str) -> anyhow::Result<Option<String>> {
    for builder in builders {
        let [program, arguments @ ..] = builder else { continue };
        let mut command = tokio::process::Command::new(program);
        let output = command.args(arguments).arg(directory).stdin(Stdio::null()).output().await;
        let output = match output {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.with_context(|| format!("cannot run {program}"))?,
        };
        if !output.status.success() {
            bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        return Ok(Some(String::from_utf8(output.stdout).with_context(|| format!("the output of {program}"))?));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kustomization_is_built_by_the_first_program_there_is() {
        let missing: &[&str] = &["no-such-program-of-flotilla", "build"];
        assert_eq!(build([missing, missing], "dir").await.unwrap(), None);
        let built = build([missing, &["echo", "kind:"]], "ConfigMap").await.unwrap();
        assert_eq!(built.as_deref(), Some("kind: ConfigMap\n"));
        let failed = build([&["cat"], missing], "/no/such/directory").await.unwrap_err().to_string();
        assert!(failed.starts_with("cat: ") && failed.contains("/no/such/directory"), "{failed}");
    }
}
