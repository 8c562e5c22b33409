//! Sealing through a small KMS plugin on a real Unix socket.

use bytes::Bytes;
use store::{Error, ValueTransformer};

use super::fake::FakePlugin;
use crate::chain::Sealing;
use crate::config::EncryptionConfiguration;
use crate::transformer::Encryption;

const KEY: &str = "/core/secrets/ns/a";

fn encryption(plugin: &FakePlugin) -> Encryption {
    let text = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{{resources: [secrets, configmaps], \
         providers: [{{kms: {{apiVersion: v2, name: fake, endpoint: '{}', timeout: 2s}}}}, {{identity: {{}}}}]}}]}}",
        plugin.endpoint()
    );
    Encryption::new(&EncryptionConfiguration::parse(&text).expect("valid")).expect("built")
}

fn value() -> Bytes {
    Bytes::from_static(b"{\"kind\":\"Secret\"}")
}

#[tokio::test]
async fn one_seed_encrypts_many_values_with_one_plugin_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let plugin = FakePlugin::start(directory.path());
    let writer = encryption(&plugin);
    assert!(matches!(writer.health(), Some(Err(_))));
    assert!(matches!(writer.seal(KEY, value()), Err(Error::Unavailable(_))), "no seed yet");
    writer.check_plugins().await.expect("healthy");
    assert_eq!(writer.health(), Some(Ok(())));
    let stored: Vec<Bytes> = (0..10).map(|_| writer.seal(KEY, value()).expect("sealed")).collect();
    assert_eq!(Sealing::of(&stored[0]).to_string(), "kms:v2:fake");
    assert_ne!(stored[0], stored[1]);
    assert!(
        stored.iter().all(|stored| writer.open_now(KEY, stored).expect("a known seed").expect("opened") == value())
    );
    assert_eq!(plugin.state.lock().encrypts, 1);
    assert_eq!(plugin.state.lock().decrypts, 0);

    // Another process with the same plugin asks once for the seed.
    let reader = encryption(&plugin);
    reader.check_plugins().await.expect("healthy");
    assert!(reader.open_now(KEY, &stored[0]).is_none(), "an unknown seed needs the plugin");
    for stored in &stored {
        assert_eq!(reader.open(KEY, stored.clone()).await.expect("opened"), value());
    }
    assert_eq!(plugin.state.lock().decrypts, 1);
    let moved = reader.open("/core/secrets/ns/b", stored[0].clone()).await;
    assert!(matches!(moved, Err(Error::Sealed(_))), "the storage key is authenticated: {moved:?}");
}

#[tokio::test]
async fn a_rotated_key_makes_a_new_seed_and_old_values_stale() {
    let directory = tempfile::tempdir().expect("a directory");
    let plugin = FakePlugin::start(directory.path());
    let encryption = encryption(&plugin);
    encryption.check_plugins().await.expect("healthy");
    let old = encryption.seal(KEY, value()).expect("sealed");
    encryption.check_plugins().await.expect("healthy");
    assert_eq!(plugin.state.lock().encrypts, 1, "the same key keeps its seed");
    assert!(!encryption.is_stale(KEY, &old));
    plugin.state.lock().key_id = "two".into();
    encryption.check_plugins().await.expect("healthy");
    assert!(encryption.is_stale(KEY, &old));
    assert_eq!(encryption.open_now(KEY, &old).expect("known").expect("opened"), value());
    assert!(!encryption.is_stale(KEY, &encryption.seal(KEY, value()).expect("sealed")));
}

#[tokio::test]
async fn plugin_failures_are_reported_and_the_last_seed_stays_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let plugin = FakePlugin::start(directory.path());
    let encryption = encryption(&plugin);
    encryption.check_plugins().await.expect("healthy");
    let check = async |expected: &str| {
        let problem = encryption.check_plugins().await.expect_err("not healthy");
        assert!(problem.contains(expected), "{problem}");
        assert!(matches!(encryption.health(), Some(Err(problem)) if problem.contains(expected)));
        encryption.seal(KEY, value()).expect("the last seed is used for a while");
    };
    plugin.state.lock().healthz = "broken".into();
    check("got unexpected healthz status: broken").await;
    plugin.state.lock().healthz = "ok".into();
    plugin.state.lock().key_id = String::new();
    check("keyID is empty").await;
    plugin.state.lock().key_id = "x".repeat(2000);
    check("keyID is 2000 bytes, which exceeds the max size of 1024").await;
    plugin.state.lock().key_id = "three".into();
    plugin.state.lock().encrypting_key_id = Some("four".into());
    check("another key than its status names").await;
    plugin.state.lock().encrypting_key_id = None;
    encryption.check_plugins().await.expect("healthy again");

    let sealed = encryption.seal(KEY, value()).expect("sealed");
    let elsewhere = self::encryption(&plugin);
    drop(plugin);
    let problem = elsewhere.open(KEY, sealed).await.expect_err("no plugin");
    assert!(matches!(problem, Error::Unavailable(_)), "{problem}");
}
