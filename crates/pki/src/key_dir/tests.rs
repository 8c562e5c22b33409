//! The key directory after first use, changes, crashes and damage.

use jiff::{SignedDuration, Timestamp};

use super::*;

struct TestDir {
    _temporary: tempfile::TempDir,
    keys: KeyDir,
    now: Timestamp,
}

fn place() -> TestDir {
    let temporary = tempfile::tempdir().unwrap();
    let keys = KeyDir::open(temporary.path().join("a/pki")).unwrap();
    TestDir { _temporary: temporary, keys, now: "2030-01-01T00:00:00Z".parse().unwrap() }
}

impl TestDir {
    fn authority(&self) -> CertificateAuthority {
        self.keys.ensure_authority(name::AUTHORITY, "flotilla-ca", self.now).unwrap()
    }

    fn server(&self, authority: &CertificateAuthority, names: &[&str]) -> KeyedCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let ips = ["127.0.0.1".parse().unwrap()];
        self.keys.ensure_server_cert(authority, name::SERVER, (&names, &ips), self.now).unwrap()
    }

    fn later(&self, days: i64) -> Timestamp {
        self.now + SignedDuration::from_hours(24 * days)
    }
}

#[test]
fn created_keys_and_certificates_are_reused() {
    let place = place();
    let (first, second) = (place.authority(), place.authority());
    assert_eq!(first.certificate(), second.certificate());
    let (one, two) = (place.server(&first, &["a", "b"]), place.server(&second, &["b", "a"]));
    assert_eq!(one.certificate, two.certificate, "the order of names does not matter");
    let key = place.keys.ensure_signing_key(name::SERVICE_ACCOUNT).unwrap();
    let again = place.keys.ensure_signing_key(name::SERVICE_ACCOUNT).unwrap();
    assert_eq!(key.public_key(), again.public_key());
    assert!(place.keys.root.join("sa.pub").exists());
}

#[test]
fn keys_are_private_and_no_temporary_files_remain() {
    let place = place();
    place.server(&place.authority(), &["a"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.keys.key_path("ca")), 0o600);
    assert_eq!(mode(&place.keys.key_path("apiserver")), 0o600);
    assert_eq!(mode(&place.keys.root), 0o700);
    assert_eq!(place.keys.loose_key_files().unwrap(), Vec::<PathBuf>::new());
    let mut files: Vec<_> = fs::read_dir(&place.keys.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["apiserver.crt", "apiserver.key", "ca.crt", "ca.key"]);
    let loose = place.keys.key_path("ca");
    fs::set_permissions(&loose, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(place.keys.loose_key_files().unwrap(), [loose]);
}

#[test]
fn a_certificate_is_reissued_when_names_authority_or_date_require_it() {
    let place = place();
    let authority = place.authority();
    let first = place.server(&authority, &["a"]);
    let renamed = place.server(&authority, &["a", "b"]);
    assert_ne!(first.certificate, renamed.certificate);
    let late = TestDir { now: place.later(300), ..place };
    let renewed = late.server(&authority, &["a", "b"]);
    assert_ne!(renamed.certificate, renewed.certificate);
    assert_eq!(late.server(&authority, &["a", "b"]).certificate, renewed.certificate);
    let other = CertificateAuthority::self_signed("flotilla-ca", late.now).unwrap();
    assert!(late.server(&other, &["a", "b"]).certificate.is_signed_by(other.certificate()));
}

#[test]
fn groups_of_a_client_certificate_are_kept_and_compared() {
    let place = place();
    let authority = place.authority();
    let client = |groups: &[&str]| {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        place.keys.ensure_client_cert(&authority, "admin", ("admin", &groups), place.now).unwrap().certificate
    };
    let first = client(&["z", "a"]);
    assert_eq!(first.subject().organizations, ["z", "a"]);
    assert_eq!(first, client(&["z", "a"]));
    assert_ne!(first, client(&["z"]));
}

#[test]
fn an_expiring_authority_is_renewed_and_old_certificates_stay_valid() {
    let place = place();
    let old = place.authority();
    let leaf = place.server(&old, &["a"]);
    let late = TestDir { now: place.later(365 * 8), ..place };
    let renewed = late.authority();
    assert_eq!(renewed.certificate().public_key().unwrap(), old.certificate().public_key().unwrap());
    assert!(renewed.certificate().not_after() > old.certificate().not_after());
    assert!(leaf.certificate.is_signed_by(renewed.certificate()));
    assert_eq!(late.authority().certificate(), renewed.certificate());
}

#[test]
fn a_foreign_authority_is_used_and_never_rewritten() {
    let place = place();
    let theirs = CertificateAuthority::self_signed("corporate root", place.now).unwrap();
    fs::write(place.keys.certificate_path("ca"), theirs.certificate().to_pem()).unwrap();
    fs::write(place.keys.key_path("ca"), theirs.key().to_pem()).unwrap();
    let late = TestDir { now: place.later(365 * 9), ..place };
    assert_eq!(late.authority().certificate(), theirs.certificate());
}

#[test]
fn an_incomplete_authority_is_completed_or_refused() {
    let place = place();
    let key = place.authority().key().clone();
    fs::remove_file(place.keys.certificate_path("ca")).unwrap();
    assert_eq!(place.authority().key().public_key(), key.public_key(), "the key alone is completed");
    fs::remove_file(place.keys.key_path("ca")).unwrap();
    let error = place.keys.ensure_authority("ca", "flotilla-ca", place.now).unwrap_err().to_string();
    assert!(error.contains("ca.crt exists but its key") && error.contains("ca.key"), "{error}");
}

#[test]
fn a_leaf_whose_key_was_written_before_a_crash_is_reissued() {
    let place = place();
    let authority = place.authority();
    let first = place.server(&authority, &["a"]);
    fs::write(place.keys.key_path("apiserver"), PrivateKey::generate().unwrap().to_pem()).unwrap();
    let second = place.server(&authority, &["a"]);
    assert_ne!(first.certificate, second.certificate);
    assert!(second.certificate.belongs_to(&second.key));
}

#[test]
fn damage_is_reported_with_the_file_and_the_remedy() {
    let check = |file: &str, expected: &str| {
        let place = place();
        let authority = place.authority();
        place.server(&authority, &["a"]);
        place.keys.ensure_signing_key("sa").unwrap();
        fs::write(place.keys.root.join(file), "-----BEGIN PRIVATE KEY-----\ngarbage\n").unwrap();
        let all = || -> Result<(), KeyDirError> {
            let authority = place.keys.ensure_authority("ca", "flotilla-ca", place.now)?;
            place.keys.ensure_server_cert(&authority, "apiserver", (&[], &[]), place.now)?;
            place.keys.ensure_signing_key("sa").map(drop)
        };
        let error = all().unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(expected), "{error}");
    };
    check("ca.key", "restore it from a backup");
    check("ca.crt", "restore it from a backup");
    check("apiserver.key", "remove it to have a new one issued");
    check("apiserver.crt", "remove it to have a new one issued");
    check("sa.key", "voids all issued tokens");
}

#[test]
fn concurrent_starts_agree_on_one_authority() {
    let place = place();
    let start = || {
        let keys = KeyDir::open(&place.keys.root).unwrap();
        keys.ensure_authority("ca", "flotilla-ca", place.now).unwrap().certificate().clone()
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.iter().all(|certificate| *certificate == found[0]));
}

#[test]
fn names_cannot_leave_the_directory() {
    let place = place();
    for bad in ["", "../x", "a/b", ".hidden"] {
        assert!(place.keys.ensure_signing_key(bad).is_err(), "{bad}");
    }
}
