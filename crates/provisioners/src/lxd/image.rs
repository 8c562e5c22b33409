//! Builds the image of a machine from files of this host: busybox, our binary and its libraries.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http_body_util::BodyExt;
use ring::digest::{Context, SHA256};
use tokio::sync::mpsc;

use super::api::Body;
use super::tar::Tar;
use crate::machine::Error;

/// The path of the binary in every machine.
pub const BINARY: &str = "/usr/bin/flotilla";

/// Archive chunks buffered for the daemon.
const CHUNKS_WAITING_MAX: usize = 16;
const CHUNK_BYTES: usize = 256 * 1024;

const INIT: &str = include_str!("init.sh");
const DHCP: &str = include_str!("dhcp.sh");
const PASSWD: &str = include_str!("passwd");

/// Commands for users and our own scripts.
const APPLETS: &[&str] = &[
    "ash", "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname", "dmesg", "du",
    "echo", "env", "false", "find", "free", "grep", "head", "hostname", "id", "ifconfig", "ip", "kill", "less", "ln",
    "ls", "mkdir", "mktemp", "mount", "mv", "nc", "netstat", "nslookup", "ping", "printf", "ps", "pwd", "readlink",
    "rm", "rmdir", "route", "sed", "seq", "sh", "sleep", "sort", "stat", "sync", "tail", "tar", "tee", "test",
    "timeout", "top", "touch", "tr", "true", "udhcpc", "umount", "uname", "uniq", "uptime", "vi", "wc", "wget",
    "which", "xargs",
];

const FOLDERS: &[&str] = &[
    "bin",
    "dev",
    "etc",
    "etc/flotilla",
    "home",
    "mnt",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/local",
    "usr/local/bin",
    "usr/sbin",
    "usr/share",
    "usr/share/udhcpc",
    "var",
    "var/lib",
    "var/log",
    "var/run",
];

const TEXTS: &[(&str, u32, &str)] = &[
    ("sbin/init", 0o755, INIT),
    ("usr/share/udhcpc/default.script", 0o755, DHCP),
    ("etc/passwd", 0o644, PASSWD),
    ("etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", 0o644, "hosts: files dns\n"),
    ("etc/os-release", 0o644, "ID=flotilla\nNAME=Flotilla\nPRETTY_NAME=\"Flotilla machine\"\n"),
];

/// Files from this host, each at the same path below the root unless stated otherwise.
#[derive(Clone, Debug)]
pub struct Ingredients {
    binary: PathBuf,
    busybox: PathBuf,
    libraries: BTreeSet<PathBuf>,
}

impl Ingredients {
    pub fn gather(binary: &Path) -> Result<Self, Error> {
        let busybox = ["/bin/busybox", "/usr/bin/busybox", "/usr/sbin/busybox"].map(PathBuf::from);
        let busybox = busybox.into_iter().find(|path| path.exists() && libraries_of(path).is_ok_and(|l| l.is_empty()));
        let busybox = busybox.ok_or_else(|| Error::Host {
            problem: "the image of a machine requires a static busybox, which is not installed".to_owned(),
            remedy: "install it as root: apt-get install busybox-static".to_owned(),
        })?;
        let failed = |why: io::Error| Error::Failed {
            doing: format!("finding the libraries of {}", binary.display()),
            why: why.to_string(),
        };
        Ok(Self { binary: binary.to_owned(), busybox, libraries: libraries_of(binary).map_err(failed)? })
    }

    /// Derived from the content: an image is built once per build of the binary.
    pub fn key(&self) -> io::Result<String> {
        let mut context = Context::new(&SHA256);
        for text in TEXTS {
            context.update(text.2.as_bytes());
        }
        context.update(APPLETS.join(" ").as_bytes());
        for path in [&self.binary, &self.busybox].into_iter().chain(&self.libraries) {
            context.update(path.as_os_str().as_encoded_bytes());
            io::copy(&mut File::open(path)?, &mut Digesting(&mut context))?;
        }
        Ok(HEXLOWER.encode(&context.finish().as_ref()[..16]))
    }

    /// Writes the archive in the daemon's format: `metadata.yaml` and `rootfs`.
    pub fn write(&self, key: &str, to: impl Write) -> io::Result<()> {
        let mut tar = Tar::new(to);
        tar.text("metadata.yaml", 0o644, &metadata(key))?;
        tar.folder("rootfs")?;
        let mut folders: BTreeSet<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
        for library in &self.libraries {
            folders.extend(below_root(library).ancestors().skip(1).map(Path::to_owned));
        }
        for folder in folders.iter().filter(|folder| !folder.as_os_str().is_empty()) {
            tar.folder(&format!("rootfs/{}", folder.display()))?;
        }
        for (path, mode, content) in TEXTS {
            tar.text(&format!("rootfs/{path}"), *mode, content)?;
        }
        for applet in APPLETS {
            tar.link(&format!("rootfs/bin/{applet}"), "/bin/busybox")?;
        }
        add(&mut tar, &self.busybox, Path::new("bin/busybox"))?;
        add(&mut tar, &self.binary, below_root(Path::new(BINARY)))?;
        for library in &self.libraries {
            add(&mut tar, library, below_root(library))?;
        }
        tar.finish().map(|_| ())
    }

    /// Returns the archive as request body, built while it is sent, without a file on disk.
    pub fn stream(self, key: String) -> Body {
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(CHUNKS_WAITING_MAX);
        tokio::task::spawn_blocking(move || {
            let chunks = io::BufWriter::with_capacity(CHUNK_BYTES, Chunks(sender.clone()));
            if let Err(error) = self.write(&key, chunks) {
                // The daemon must not accept a partial image. It may have closed the connection itself.
                let _ = sender.blocking_send(Err(error));
            }
        });
        ChunkBody(receiver).boxed_unsync()
    }
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn add(tar: &mut Tar<impl Write>, from: &Path, to: &Path) -> io::Result<()> {
    let file = File::open(from)?;
    let size = file.metadata()?.len();
    tar.file(&format!("rootfs/{}", to.display()), 0o755, size, file)
}

fn metadata(key: &str) -> String {
    let architecture = std::env::consts::ARCH;
    format!(
        "architecture: {architecture}\ncreation_date: 1700000000\nproperties:\n  description: Flotilla machine\n  \
         os: flotilla\n  release: \"{key}\"\n"
    )
}

/// Returns the shared libraries of a program including the loader; none if it is static.
fn libraries_of(program: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if text.contains("statically linked") || complaint.contains("not a dynamic executable") {
        return Ok(BTreeSet::new());
    }
    if !output.status.success() {
        return Err(io::Error::other(complaint.trim().to_owned()));
    }
    parse_ldd(&text).map_err(io::Error::other)
}

fn parse_ldd(text: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let path = match line.split_once(" => ") {
            Some((name, "not found")) => return Err(format!("{name} is missing on this machine")),
            Some((_, path)) => path,
            None => line,
        };
        let path = path.split(" (").next().unwrap_or(path);
        // An entry without a path is provided by the kernel (linux-vdso).
        if path.starts_with('/') {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(found)
}

struct Digesting<'a>(&'a mut Context);

impl Write for Digesting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A blocking writer that feeds a request body.
struct Chunks(mpsc::Sender<io::Result<Bytes>>);

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes))).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ChunkBody(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for ChunkBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<io::Result<hyper::body::Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(hyper::body::Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_parsed_from_ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x7f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected =
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse_ldd(text), Ok(expected.iter().map(PathBuf::from).collect()));
        let error = parse_ldd("\tlibz.so.1 => not found\n").unwrap_err();
        assert_eq!(error, "libz.so.1 is missing on this machine");
    }

    #[test]
    fn the_image_has_an_init_and_the_program_with_its_libraries() {
        let this_test = std::env::current_exe().unwrap();
        let Ok(ingredients) = Ingredients::gather(&this_test) else {
            test_skip::skip("no static busybox on this machine; `make test` installs it");
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image.tar");
        let key = ingredients.key().unwrap();
        assert_eq!(key, ingredients.key().unwrap());
        ingredients.write(&key, File::create(&path).unwrap()).unwrap();
        let list = Command::new("tar").arg("-tf").arg(&path).output().unwrap();
        let text = String::from_utf8(list.stdout).unwrap();
        let names: BTreeSet<&str> = text.lines().collect();
        let wanted =
            ["metadata.yaml", "rootfs/sbin/init", "rootfs/bin/sh", "rootfs/bin/busybox", "rootfs/usr/bin/flotilla"];
        for name in wanted {
            assert!(names.contains(name), "{name} is not in {names:?}");
        }
        assert!(names.iter().any(|name| name.contains("libc.so")), "{names:?}");
    }

    #[test]
    fn the_scripts_of_an_image_are_valid() {
        let directory = tempfile::tempdir().unwrap();
        for (path, _, content) in TEXTS.iter().filter(|text| text.1 == 0o755) {
            let file = directory.path().join("script");
            std::fs::write(&file, content).unwrap();
            let output = Command::new("sh").arg("-n").arg(&file).output().unwrap();
            assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
