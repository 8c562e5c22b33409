//! Local accounts: passwords of User objects, as argon2id hashes in Secrets, with a lock after failed attempts.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ResourceRef};
use object::builtin;
use object::request::User;
use object::{GroupVersionKind, Object, Status};
use parking_lot::Mutex;
use pki::token::{constant_time_eq, hash, random_bearer_token};

use crate::access::Rights;
use crate::bootstrap::CREDENTIAL_NAMESPACE;

const FIELD_MANAGER: &str = "flotilla-manager";
const TYPE: &str = "manager.flotilla.dev/password";
/// Memory in KiB, passes and lanes of argon2id, as OWASP recommends at least.
const COST: (u32, u32, u32) = (19_456, 2, 1);
const HASH_BYTES: usize = 32;
const PASSWORD_LENGTH_MIN: usize = 10;
const PASSWORD_LENGTH_MAX: usize = 1024;
/// Failed attempts before a user or address has to wait.
const FAILURES_FREE: u32 = 5;
const LOCK_MIN: Duration = Duration::from_secs(10);
const LOCK_MAX: Duration = Duration::from_secs(3600);
/// Users and addresses whose attempts are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// Checks and sets passwords.
pub struct Accounts {
    client: ClusterClient,
    rights: Rights,
    attempts: Mutex<Attempts>,
    /// Checked when a user does not exist, so that the answer takes as long.
    decoy: String,
}

impl Accounts {
    pub fn new(client: ClusterClient, rights: Rights) -> Self {
        let decoy = hash_password("no password of any user", "no salt of any user");
        Self { client, rights, attempts: Mutex::default(), decoy: decoy.unwrap_or_default() }
    }

    /// Sets the password of a User object.
    pub async fn set_password(&self, user: &str, password: &str) -> Result<(), Status> {
        check_password(password)?;
        let uid = self.rights.user_uid(user);
        let uid = uid.ok_or_else(|| Status::new(404, "NotFound", format!("there is no user {user:?}")))?;
        let salt = random_bearer_token().map_err(Status::internal)?;
        let (secret, salt) = (password.to_owned(), salt.expose().to_owned());
        let hashed = tokio::task::spawn_blocking(move || hash_password(&secret, &salt)).await;
        let hashed = hashed.map_err(Status::internal)?.map_err(Status::internal)?;
        let name = secret_name(user);
        let mut stored = Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(CREDENTIAL_NAMESPACE), &name);
        stored.set(&["type"], TYPE);
        stored.set(&["data", "hash"], STANDARD.encode(hashed));
        stored.set(&["data", "uid"], STANDARD.encode(uid));
        self.client.apply(target(&name), stored, FIELD_MANAGER).await.map(drop)
    }

    /// Returns the user of a name and password. Every failure has the same answer and takes the same time.
    pub async fn log_in(&self, name: &str, password: &str, address: IpAddr) -> Result<User, Status> {
        let keys = [format!("user {name}"), format!("address {address}")];
        if let Some(wait) = self.attempts.lock().wait(&keys) {
            // Not 429: clients would repeat the login by themselves, and every attempt is a failure of the user's.
            let text = format!("too many failed logins: try again in {} s", wait.as_secs().saturating_add(1));
            return Err(Status::new(403, "Forbidden", text));
        }
        let stored = self.stored_hash(name).await?;
        let is_known = stored.is_some() && !self.rights.is_disabled(name);
        let (hash, secret) = (stored.unwrap_or_else(|| self.decoy.clone()), password.to_owned());
        let matches = tokio::task::spawn_blocking(move || verify(&secret, &hash)).await.map_err(Status::internal)?;
        if !(matches && is_known) {
            self.attempts.lock().failed(&keys);
            return Err(Status::new(401, "Unauthorized", "the user name or the password is wrong"));
        }
        self.attempts.lock().succeeded(&keys);
        Ok(User { name: name.to_owned(), uid: self.rights.user_uid(name).unwrap_or_default(), ..User::default() })
    }

    /// Returns the hash of a user's password, unless it was set for an earlier user of the same name.
    async fn stored_hash(&self, user: &str) -> Result<Option<String>, Status> {
        let Some(secret) = self.client.find(target(&secret_name(user))).await? else { return Ok(None) };
        let text = |key: &str| {
            let bytes = STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default();
            String::from_utf8(bytes).unwrap_or_default()
        };
        Ok(self.rights.user_uid(user).filter(|uid| *uid == text("uid")).map(|_| text("hash")))
    }
}

/// Refuses passwords that are too short or too long.
pub fn check_password(password: &str) -> Result<(), Status> {
    match (PASSWORD_LENGTH_MIN..=PASSWORD_LENGTH_MAX).contains(&password.chars().count()) {
        true => Ok(()),
        false => {
            let text = format!("password: must have {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters");
            Err(Status::bad_request(text))
        }
    }
}

/// The name of a Secret for any user name.
fn secret_name(user: &str) -> String {
    format!("password-{}", &hash(user)[..40])
}

fn target(name: &str) -> ResourceRef {
    ResourceRef::namespaced(&builtin::secrets(), CREDENTIAL_NAMESPACE, name)
}

fn derive(password: &str, salt: &str, (memory, passes, lanes): (u32, u32, u32)) -> Result<Vec<u8>, String> {
    let params = Params::new(memory, passes, lanes, Some(HASH_BYTES)).map_err(|error| error.to_string())?;
    let mut out = vec![0; HASH_BYTES];
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(password.as_bytes(), salt.as_bytes(), &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

/// Returns `argon2id$MEMORY$PASSES$LANES$SALT$HASH`, so that the cost can rise for new passwords.
fn hash_password(password: &str, salt: &str) -> Result<String, String> {
    let derived = derive(password, salt, COST)?;
    let (memory, passes, lanes) = COST;
    Ok(format!("argon2id${memory}${passes}${lanes}${salt}${}", STANDARD.encode(derived)))
}

fn verify(password: &str, stored: &str) -> bool {
    let parts: Vec<&str> = stored.split('$').collect();
    let ["argon2id", memory, passes, lanes, salt, expected] = parts[..] else { return false };
    let (Ok(memory), Ok(passes), Ok(lanes)) = (memory.parse(), passes.parse(), lanes.parse()) else { return false };
    let Ok(derived) = derive(password, salt, (memory, passes, lanes)) else { return false };
    constant_time_eq(expected.as_bytes(), STANDARD.encode(derived).as_bytes())
}

/// Failed logins by user and by address.
#[derive(Default)]
struct Attempts {
    failures: HashMap<String, (u32, Instant)>,
}

impl Attempts {
    /// Returns the time until the next attempt is allowed.
    fn wait(&self, keys: &[String]) -> Option<Duration> {
        let waits = keys.iter().filter_map(|key| {
            let (count, last) = self.failures.get(key)?;
            lock_time(*count).checked_sub(last.elapsed()).filter(|wait| !wait.is_zero())
        });
        waits.max()
    }

    fn failed(&mut self, keys: &[String]) {
        if self.failures.len() >= REMEMBERED_MAX {
            self.failures.retain(|_, (count, last)| last.elapsed() < lock_time(*count));
        }
        for key in keys {
            let entry = self.failures.entry(key.clone()).or_insert((0, Instant::now()));
            *entry = (entry.0.saturating_add(1), Instant::now());
        }
    }

    fn succeeded(&mut self, keys: &[String]) {
        keys.iter().for_each(|key| {
            self.failures.remove(key);
        });
    }
}

/// Doubles with each failure after the free ones.
fn lock_time(failures: u32) -> Duration {
    match failures.checked_sub(FAILURES_FREE) {
        None => Duration::ZERO,
        Some(more) => LOCK_MIN.saturating_mul(1 << more.min(10)).min(LOCK_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_matches() {
        let stored = hash_password("correct horse", "some salt of it").expect("hashed");
        assert!(stored.starts_with("argon2id$19456$2$1$") && !stored.contains("horse"));
        for (password, expected) in [("correct horse", true), ("correct horsf", false), ("", false)] {
            assert_eq!(verify(password, &stored), expected, "{password:?}");
        }
        for damaged in ["", "argon2id$1$1$1$x", "md5$1$1$1$salt$x", "argon2id$x$2$1$salt$hash"] {
            assert!(!verify("correct horse", damaged), "{damaged:?}");
        }
    }

    #[test]
    fn failures_lock_the_user_and_the_address_for_growing_times() {
        let mut attempts = Attempts::default();
        let keys = ["user ann".to_owned(), "address 10.0.0.1".to_owned()];
        for _ in 0..FAILURES_FREE - 1 {
            attempts.failed(&keys);
            assert_eq!(attempts.wait(&keys), None);
        }
        attempts.failed(&keys);
        assert!(attempts.wait(&keys).is_some());
        assert!(attempts.wait(&["user bob".to_owned(), keys[1].clone()]).is_some(), "the address is locked too");
        assert!(attempts.wait(&["user bob".to_owned()]).is_none());
        attempts.succeeded(&keys);
        assert_eq!(attempts.wait(&keys), None);
        assert_eq!((lock_time(5), lock_time(6), lock_time(99)), (LOCK_MIN, LOCK_MIN * 2, LOCK_MAX));
    }
}
