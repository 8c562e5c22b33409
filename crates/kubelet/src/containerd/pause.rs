//! The smallest program that keeps a sandbox open, and images of one layer.

use std::collections::BTreeMap;
use std::io;

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

/// A program that ignores its children and sleeps until it is killed; `None` for architectures other than x86-64.
pub(crate) fn program() -> Option<Vec<u8>> {
    if std::env::consts::ARCH != "x86_64" {
        return None;
    }
    // With SIGCHLD ignored, the kernel reaps children without a wait call.
    #[rustfmt::skip]
    let code: [u8; 36] = [
        0xb8, 0x0d, 0x00, 0x00, 0x00,             // mov eax, rt_sigaction
        0xbf, 0x11, 0x00, 0x00, 0x00,             // mov edi, SIGCHLD
        0x48, 0x8d, 0x35, 0x13, 0x00, 0x00, 0x00, // lea rsi, [the action below]
        0x31, 0xd2,                               // xor edx, edx
        0x41, 0xba, 0x08, 0x00, 0x00, 0x00,       // mov r10d, 8
        0x0f, 0x05,                               // syscall
        0xb8, 0x22, 0x00, 0x00, 0x00,             // mov eax, pause
        0x0f, 0x05,                               // syscall
        0xeb, 0xf7,                               // again
    ];
    // struct sigaction: SIG_IGN, no flags, no restorer, empty mask.
    let mut action = [0_u8; 32];
    action[0] = 1;
    Some(executable(&[code.as_slice(), &action].concat()))
}

/// Returns an ELF executable with one header and one segment.
fn executable(code: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const BASE: u64 = 0x40_0000;
    let size = HEADERS + code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    put(&2_u16.to_le_bytes()); // an executable
    put(&62_u16.to_le_bytes()); // x86-64
    put(&1_u32.to_le_bytes());
    put(&(BASE + HEADERS).to_le_bytes()); // where it begins
    put(&64_u64.to_le_bytes()); // where the segments are listed
    put(&0_u64.to_le_bytes());
    put(&0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        put(&half.to_le_bytes());
    }
    put(&1_u32.to_le_bytes()); // loaded
    put(&5_u32.to_le_bytes()); // read and run
    for word in [0, BASE, BASE, size, size, 0x1000] {
        put(&word.to_le_bytes());
    }
    put(code);
    file
}

/// A file of an image with its mode; a link has a target path.
#[derive(Clone, Debug)]
pub enum ImageFile {
    File { content: Vec<u8>, mode: u32 },
    Link(String),
    Folder,
}

/// Returns an image with one layer as OCI image layout archive for `ctr images import`.
pub fn image_archive(name: &str, files: &BTreeMap<String, ImageFile>, entrypoint: &[&str]) -> io::Result<Vec<u8>> {
    let layer = archive(files)?;
    let config = json!({
        "architecture": crate::machine::architecture(), "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(&layer)]},
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar", &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut entry = described("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["annotations"] = json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name});
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    let mut layout = BTreeMap::new();
    let mut put = |path: String, content: Vec<u8>| layout.insert(path, ImageFile::File { content, mode: 0o644 });
    put("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    put("index.json".to_owned(), index.to_string().into_bytes());
    for blob in [layer, config, manifest] {
        put(format!("blobs/sha256/{}", hex(&blob)), blob);
    }
    archive(&layout)
}

fn described(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest_of(content), "size": content.len()})
}

fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}

fn hex(content: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, content).as_ref())
}

/// Returns a ustar archive of these files, owned by root, with mtime zero.
fn archive(files: &BTreeMap<String, ImageFile>) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in files {
        let mut header = Header::new_ustar();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        match entry {
            ImageFile::File { content, mode } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, path, content.as_slice())?;
            }
            ImageFile::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                builder.append_link(&mut header, path, target)?;
            }
            ImageFile::Folder => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(0o755);
                builder.append_data(&mut header, path, io::empty())?;
            }
        }
    }
    builder.into_inner()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_program_runs_and_waits() {
        let Some(program) = program() else { return };
        let directory = tempfile::tempdir().expect("a folder");
        let (content, path) = (directory.path().join("content"), directory.path().join("pause"));
        std::fs::write(&content, program).expect("written");
        // A file written by this process cannot be executed while a forked child of another test holds it open.
        let installed = Command::new("install").arg("-m755").arg(&content).arg(&path).status().expect("install runs");
        assert!(installed.success(), "{installed}");
        let mut child = Command::new(&path).spawn().expect("it runs");
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let start = std::time::Instant::now();
        // State S is sleeping: it has reached its pause.
        while !state().contains(") S ") {
            assert!(start.elapsed().as_secs() < 10, "it does not sleep: {}", state());
        }
        let ignored = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it lives");
        let ignored = ignored.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a mask").to_owned();
        let mask = u64::from_str_radix(&ignored, 16).expect("a number");
        assert_eq!(mask >> 16 & 1, 1, "SIGCHLD is ignored: {ignored}");
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    #[test]
    fn tar_reads_the_archive() {
        let files = BTreeMap::from([
            ("bin".to_owned(), ImageFile::Folder),
            ("bin/sh".to_owned(), ImageFile::Link("busybox".to_owned())),
            ("hello".to_owned(), ImageFile::File { content: b"hello".to_vec(), mode: 0o640 }),
        ]);
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("x.tar");
        std::fs::write(&path, archive(&files).expect("valid names")).expect("written");
        let output = Command::new("tar").arg("-tvf").arg(&path).output().expect("tar runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("-rw-r-----") && text.contains("bin/sh -> busybox"), "{text}");
    }
}
