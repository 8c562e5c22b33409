//! The supervisor's socket: listen, connect, send and receive lines.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::supervisor::protocol::LINE_BYTES_MAX;

/// Maximum length of a socket path.
const PATH_BYTES_MAX: usize = 100;

/// A short socket path for a path of any length, with the directory it refers to.
struct Name {
    path: PathBuf,
    _folder: Option<std::fs::File>,
}

fn name(path: &Path) -> io::Result<Name> {
    use std::os::fd::AsRawFd;
    let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a socket path"));
    };
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok(Name { path: path.to_owned(), _folder: None });
    }
    let folder = std::fs::File::open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(file);
    Ok(Name { path, _folder: Some(folder) })
}

pub fn listen(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    // The lock is held, so an existing socket is stale.
    let _ = std::fs::remove_file(path);
    let name = name(path)?;
    let listener = UnixListener::bind(&name.path)?;
    std::fs::set_permissions(&name.path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    let name = name(path)?;
    UnixStream::connect(&name.path).await
}

pub async fn send(stream: &mut UnixStream, value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Returns `None` at the end of the stream.
pub async fn receive<T: serde::de::DeserializeOwned>(stream: &mut UnixStream) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream).take(LINE_BYTES_MAX as u64);
    reader.read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_path_can_be_longer_than_the_kernel_allows() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a".repeat(60)).join("b".repeat(60));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("s.sock");
        let listener = listen(&path).unwrap();
        let mut client = connect(&path).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        send(&mut client, &"question").await.unwrap();
        assert_eq!(receive::<String>(&mut server).await.unwrap().as_deref(), Some("question"));
        drop(client);
        assert_eq!(receive::<String>(&mut server).await.unwrap(), None);
    }
}
