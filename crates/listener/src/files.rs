//! The number of files this process may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard limit. The usual soft limit of 1,024 exists for programs that use
/// `select`, which this one does not.
pub fn raise_open_files_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(from = ?current, to = ?maximum, "raised the limit on open files"),
        Err(error) => tracing::warn!(%error, limit = ?current, "cannot raise the limit on open files"),
    }
}

/// The soft limit on open files; `None` when there is none.
pub(crate) fn open_files_max() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}
