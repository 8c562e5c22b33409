//! The files of the console that were embedded at build time.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

const PAGE: &str = "index.html";

/// A file as it is stored: compressed with brotli.
pub struct Asset {
    pub content_type: &'static str,
    pub brotli: &'static [u8],
}

/// The page with a placeholder for the nonce; `None` when the binary was built without the console.
pub fn page() -> Option<&'static str> {
    let (_, bytes) = EMBEDDED.iter().find(|(name, _)| *name == PAGE)?;
    std::str::from_utf8(bytes).ok()
}

/// The file with this path below the console.
pub fn find(path: &str) -> Option<Asset> {
    let stored = |(name, _): &&(&str, &[u8])| name.strip_suffix(".br") == Some(path);
    let (_, brotli) = EMBEDDED.iter().find(stored)?;
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    let content_type = match extension? {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    };
    Some(Asset { content_type, brotli })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_embedded_files_are_found() {
        for path in ["", "..", "../index.html", "index.html", "assets/../index.html", "/etc/passwd", "assets/"] {
            assert!(find(path).is_none(), "{path:?}");
        }
        for (name, _) in EMBEDDED.iter().filter(|(name, _)| name.ends_with(".br")) {
            assert!(find(name.trim_end_matches(".br")).is_some(), "{name} has no content type");
        }
    }
}
