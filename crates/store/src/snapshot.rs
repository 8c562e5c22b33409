//! Moving the contents of a store elsewhere: a portable copy of all keys and values at one revision, checked when read.
//!
//! Revisions and leases do not travel: the keys are created anew, so a store filled from a snapshot is a new store.

use std::io::{Read, Write};

use bytes::Bytes;

use crate::Store;
use crate::error::{Error, Result};
use crate::kv::{RangeRequest, Revision, prefix_end};

const MAGIC: &[u8; 8] = b"FLOTSNP1";
/// Keys read from the store at a time.
const PAGE_KEYS: usize = 1000;
/// A length beyond this is taken for damage instead of being allocated.
const LENGTH_MAX: u32 = 1 << 30;
/// Stands where the length of a key would, after the last one.
const END: u32 = u32::MAX;

/// Writes all of the store as of now. Returns the revision shown and the number of keys.
pub async fn export(store: &dyn Store, to: &mut (dyn Write + Send)) -> Result<(Revision, u64)> {
    let mut out = Summed { inner: to, hasher: crc32fast::Hasher::new() };
    out.write(MAGIC)?;
    let end = prefix_end("/").unwrap_or_default();
    let first = store.range(RangeRequest::prefix("/").limit(PAGE_KEYS)).await?;
    let revision = first.revision;
    let (mut page, mut count) = (first, 0);
    loop {
        for kv in &page.kvs {
            count += 1;
            out.write(&(kv.key.len() as u32).to_le_bytes())?;
            out.write(&(kv.value.len() as u32).to_le_bytes())?;
            out.write(kv.key.as_bytes())?;
            out.write(&kv.value)?;
        }
        let Some(last) = page.kvs.last().filter(|_| page.more) else { break };
        let next = format!("{}\0", last.key);
        page = store.range(RangeRequest::between(&next, &end).limit(PAGE_KEYS).at(revision)).await?;
    }
    out.write(&END.to_le_bytes())?;
    out.write(&u64::to_le_bytes(count))?;
    let sum = out.hasher.finalize();
    to.write_all(&sum.to_le_bytes()).and_then(|()| to.flush()).map_err(write_failed)?;
    Ok((revision, count))
}

/// Creates every key of the snapshot in a store that has none of them. Reads it to the end and checks it first.
pub async fn import(store: &dyn Store, from: &mut (dyn Read + Send)) -> Result<u64> {
    let pairs = read(from)?;
    let count = pairs.len() as u64;
    for (key, value) in pairs {
        store.create(&key, value, None).await?;
    }
    Ok(count)
}

fn read(from: &mut (dyn Read + Send)) -> Result<Vec<(String, Bytes)>> {
    let mut input = Summed { inner: from, hasher: crc32fast::Hasher::new() };
    if input.read(8)? != MAGIC {
        return Err(damaged("it does not begin like one"));
    }
    let mut pairs = Vec::new();
    loop {
        let key_length = input.read_u32()?;
        if key_length == END {
            break;
        }
        let value_length = input.read_u32()?;
        if key_length.max(value_length) > LENGTH_MAX {
            return Err(damaged("a length is out of bounds"));
        }
        let key = String::from_utf8(input.read(key_length)?).map_err(|_| damaged("a key is not text"))?;
        pairs.push((key, Bytes::from(input.read(value_length)?)));
    }
    let count = input.read(8)?;
    let sum = input.hasher.clone().finalize();
    if count != (pairs.len() as u64).to_le_bytes() || input.read_u32()? != sum {
        return Err(damaged("its checksum does not match"));
    }
    Ok(pairs)
}

fn damaged(why: &str) -> Error {
    Error::Corrupt(format!("the snapshot cannot be used: {why}"))
}

fn write_failed(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => Error::NoSpace(format!("writing the snapshot: {error}")),
        _ => Error::Io(format!("writing the snapshot: {error}")),
    }
}

/// Sums up what passes through.
struct Summed<'a, T: ?Sized> {
    inner: &'a mut T,
    hasher: crc32fast::Hasher,
}

impl<'t> Summed<'_, dyn Write + Send + 't> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.inner.write_all(bytes).map_err(write_failed)
    }
}

impl<'t> Summed<'_, dyn Read + Send + 't> {
    fn read(&mut self, length: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Grows with what is there, not with what a damaged length claims.
        self.inner
            .take(u64::from(length))
            .read_to_end(&mut bytes)
            .map_err(|error| Error::Io(format!("reading the snapshot: {error}")))?;
        if bytes.len() < length as usize {
            return Err(damaged("it ends early"));
        }
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    fn read_u32(&mut self) -> Result<u32> {
        let bytes = self.read(4)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[tokio::test]
    async fn a_snapshot_carries_all_keys_and_shows_damage() {
        let (from, to) = (Memory::new(), Memory::new());
        for number in 0..2500 {
            from.create(&format!("/k/{number}"), Bytes::from(number.to_string()), None).await.unwrap();
        }
        let mut bytes = Vec::new();
        assert_eq!(export(&from, &mut bytes).await.unwrap(), (2501, 2500));
        assert_eq!(import(&to, &mut &bytes[..]).await.unwrap(), 2500);
        let pairs = |store: &Memory| {
            let everything = store.local().unwrap().range(RangeRequest::prefix("")).unwrap();
            everything.kvs.into_iter().map(|kv| (kv.key, kv.value)).collect::<Vec<_>>()
        };
        assert_eq!(pairs(&from), pairs(&to));

        for at in (0..bytes.len()).step_by(211).chain([bytes.len() - 1]) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(matches!(import(&Memory::new(), &mut &flipped[..]).await, Err(Error::Corrupt(_))), "byte {at}");
            assert!(matches!(import(&Memory::new(), &mut &bytes[..at]).await, Err(Error::Corrupt(_))), "cut at {at}");
        }
    }
}
