//! Embeds the built console: every file of `console/dist` becomes an entry of a table in the binary. Without a build the table is
//! empty, and the server answers with a page that says how to get the console.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Written by the build of the console for every file but the page itself.
const COMPRESSED: &str = ".br";

fn main() {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dist =
        std::env::var_os("FLOTILLA_CONSOLE_DIST").map_or_else(|| manifest.join("../../console/dist"), PathBuf::from);
    println!("cargo:rerun-if-env-changed=FLOTILLA_CONSOLE_DIST");
    println!("cargo:rerun-if-changed=build.rs");
    // A missing path would make every build run this again; `tools/console` touches this file instead.
    if dist.exists() {
        println!("cargo:rerun-if-changed={}", dist.display());
    }
    let mut files = Vec::new();
    collect(&dist, &mut files);
    files.sort();
    let mut table = String::from("pub static EMBEDDED: &[(&str, &[u8])] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&dist).expect("found below it").to_string_lossy().replace('\\', "/");
        let path = file.canonicalize().expect("it was listed");
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string())
            .expect("writing to a string");
    }
    table.push_str("];\n");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it")).join("embedded.rs");
    std::fs::write(out, table).expect("the output directory is writable");
}

/// The page is embedded as it is, because a nonce is inserted into it; everything else only compressed.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.to_string_lossy().ends_with(COMPRESSED) || path.ends_with("index.html") {
            files.push(path);
        }
    }
}
