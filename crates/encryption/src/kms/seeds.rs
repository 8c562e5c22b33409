//! Seeds that a KMS plugin has decrypted, so that it is called once for each and not for each value.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::messages::EncryptedObject;
use crate::ciphers::Cipher;

/// A seed is decrypted again after this time, so that a revoked key ends its use.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// There is about one seed for each start of a server; more are a sign of abuse.
const SEEDS_MAX: usize = 10_000;

type KnownSeed = (Arc<Cipher>, Instant);

#[derive(Default)]
pub struct Seeds {
    /// By identity, with the time of decryption.
    known: Mutex<HashMap<Vec<u8>, KnownSeed>>,
}

impl Seeds {
    pub fn find(&self, object: &EncryptedObject) -> Option<Arc<Cipher>> {
        let known = self.known.lock();
        let (cipher, since) = known.get(&identity(object))?;
        (since.elapsed() < KEPT_FOR).then(|| Arc::clone(cipher))
    }

    pub fn insert(&self, object: &EncryptedObject, cipher: Arc<Cipher>) {
        let mut known = self.known.lock();
        if known.len() >= SEEDS_MAX {
            known.clear();
        }
        known.insert(identity(object), (cipher, Instant::now()));
    }
}

/// Everything the plugin is asked with, each part behind its length.
fn identity(object: &EncryptedObject) -> Vec<u8> {
    let mut identity = object.encrypted_dek_source_type.to_be_bytes().to_vec();
    let mut add = |part: &[u8]| {
        identity.extend_from_slice(&(part.len() as u64).to_be_bytes());
        identity.extend_from_slice(part);
    };
    add(&object.encrypted_dek_source);
    add(object.key_id.as_bytes());
    for (name, value) in &object.annotations {
        add(name.as_bytes());
        add(value);
    }
    identity
}
