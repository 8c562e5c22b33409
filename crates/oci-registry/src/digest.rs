//! Content digests: read from text, computed while bytes pass, compared. Only algorithms clients use: sha256 and sha512.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const READ_BUFFER: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    fn hex_len(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A digest that can be part of a path: its text was checked when it was made.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: expected sha256: or sha512: and its lower-case hex digits")]
pub struct NotADigest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest by the algorithm another one uses, to compare with it.
    pub fn like(&self, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(self.algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    pub fn of_reader(algorithm: Algorithm, mut reader: impl Read) -> std::io::Result<Self> {
        let mut hasher = Hasher::new(algorithm);
        let mut buffer = vec![0; READ_BUFFER];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(hasher.finish()),
                n => hasher.update(&buffer[..n]),
            }
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Enough of it to recognise it by.
    pub fn short(&self) -> &str {
        &self.hex[..12]
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let wrong = || NotADigest(text.chars().take(160).collect());
        let (algorithm, hex) = text.split_once(':').ok_or_else(wrong)?;
        let algorithm = Algorithm::by_name(algorithm).ok_or_else(wrong)?;
        let is_hex = hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex && hex.len() == algorithm.hex_len() {
            Ok(Self { algorithm, hex: hex.to_owned() })
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A digest in the making.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    context: ring::digest::Context,
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        let context = ring::digest::Context::new(match algorithm {
            Algorithm::Sha256 => &ring::digest::SHA256,
            Algorithm::Sha512 => &ring::digest::SHA512,
        });
        Self { algorithm, context }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    pub fn finish(self) -> Digest {
        Digest { algorithm: self.algorithm, hex: HEXLOWER.encode(self.context.finish().as_ref()) }
    }
}

/// Hashes the bytes written through it.
pub struct HashingWriter<W> {
    pub inner: W,
    pub hasher: Hasher,
    pub written: u64,
}

impl<W: std::io::Write> HashingWriter<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, hasher: Hasher::new(Algorithm::Sha256), written: 0 }
    }
}

impl<W: std::io::Write> std::io::Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_known_values() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(Digest::of_reader(Algorithm::Sha256, &b""[..]).unwrap().to_string(), empty);
        let long = Digest::of_reader(Algorithm::Sha512, &b"abc"[..]).unwrap();
        assert!(long.to_string().starts_with("sha512:ddaf35a193617abacc417349ae204131"), "{long}");
        assert_eq!(long.like(b"abc"), long);
    }

    #[test]
    fn only_well_formed_digests_are_read() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for bad in [
            String::new(),
            hex.to_owned(),
            format!("md5:{hex}"),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{hex}0"),
            format!("sha512:{hex}"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:../../../../../../../../etc/passwd{}", &hex[34..]),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad} must be refused");
        }
        assert_eq!(format!("sha256:{hex}").parse::<Digest>().unwrap().hex(), hex);
    }
}
