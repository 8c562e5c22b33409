//! PEM encoding of DER; files may contain several blocks and other text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::PkiError;

pub const CERTIFICATE: &str = "CERTIFICATE";
pub const CERTIFICATE_REQUEST: &str = "CERTIFICATE REQUEST";
pub const PRIVATE_KEY: &str = "PRIVATE KEY";
pub const EC_PRIVATE_KEY: &str = "EC PRIVATE KEY";
pub const RSA_PRIVATE_KEY: &str = "RSA PRIVATE KEY";
pub const PUBLIC_KEY: &str = "PUBLIC KEY";
pub const RSA_PUBLIC_KEY: &str = "RSA PUBLIC KEY";

/// One `-----BEGIN label-----` block. It may be a private key, so it has no `Debug`.
pub struct Block {
    pub label: String,
    pub der: Vec<u8>,
}

pub fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// Every block of the text, in order; text between blocks is ignored, as in OpenSSL and Go.
pub fn decode(text: &[u8]) -> Result<Vec<Block>, PkiError> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if let Some((label, mut body)) = open.take() {
            if let Some(end) = armour(line, b"-----END ") {
                blocks.push(close(label, &end, &body)?);
                continue;
            }
            match std::str::from_utf8(line) {
                Ok(part) if !part.contains(':') && !part.starts_with("-----") => body.push_str(part),
                // Old encrypted keys have headers ("Proc-Type: 4,ENCRYPTED"); there is no password to decrypt with.
                Ok(part) if part.contains(':') => {
                    return Err(malformed(label, "headers and encryption are not supported"));
                }
                _ => return Err(malformed(label, "the END line is missing")),
            }
            open = Some((label, body));
        } else if let Some(label) = armour(line, b"-----BEGIN ") {
            open = Some((label, String::new()));
        }
    }
    match open {
        Some((label, _)) => Err(malformed(label, "the END line is missing")),
        None => Ok(blocks),
    }
}

/// The first block with that label.
pub fn decode_one(text: &[u8], label: &'static str) -> Result<Vec<u8>, PkiError> {
    let block = decode(text)?.into_iter().find(|block| block.label == label);
    block.map(|block| block.der).ok_or(PkiError::MissingPemBlock { expected: label })
}

fn armour(line: &[u8], prefix: &[u8]) -> Option<String> {
    let label = line.strip_prefix(prefix)?.strip_suffix(b"-----")?;
    std::str::from_utf8(label).ok().map(str::to_owned)
}

fn close(label: String, end: &str, body: &str) -> Result<Block, PkiError> {
    if label != end {
        return Err(malformed(label, "the END line names another type"));
    }
    match STANDARD.decode(body) {
        Ok(der) => Ok(Block { label, der }),
        Err(_) => Err(malformed(label, "the body is not base64")),
    }
}

fn malformed(label: String, reason: &'static str) -> PkiError {
    PkiError::MalformedPem { label, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_blocks_survive_a_round_trip_with_text_and_crlf_between() {
        let text = format!("hello\n{}note\n{}", encode("A", &[1; 100]), encode("B B", b"x")).replace('\n', "\r\n");
        let blocks = decode(text.as_bytes()).unwrap();
        let found: Vec<_> = blocks.iter().map(|block| (block.label.as_str(), block.der.len())).collect();
        assert_eq!(found, [("A", 100), ("B B", 1)]);
    }

    #[test]
    fn damaged_armour_is_refused_with_a_reason() {
        let check = |text: &str, expected: &str| {
            let error = decode(text.as_bytes()).err().expect("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("-----BEGIN X-----\nAAAA\n", "END line is missing");
        check("-----BEGIN X-----\nAAAA\n-----BEGIN X-----\n", "END line is missing");
        check("-----BEGIN X-----\nAAAA\n-----END Y-----\n", "names another type");
        check("-----BEGIN X-----\n!!\n-----END X-----\n", "not base64");
        check("-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\n-----END X-----\n", "encryption");
    }
}
