//! `-f`, `-R` and `-k`: the manifests of a command.

use anyhow::bail;
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
    /// Not available: use `kubectl kustomize DIR` and `-f -`
    #[arg(short = 'k', long, value_name = "DIR", hide = true)]
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
        if let Some(directory) = &self.kustomize {
            bail!("-k is not supported; use `kubectl kustomize {directory} | {program} {command} -f -`");
        }
        manifests::read_sources(&self.filename, self.recursive).await
    }
}
