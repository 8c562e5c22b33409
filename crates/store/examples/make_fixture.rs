//! Writes the data directory that `tests/upgrade.rs` opens: run it with the last program of a format.
//!
//! `cargo run -p store --example make_fixture -- crates/store/testdata/embedded-format-1`

use store::Store;
use store::embedded::{Embedded, EmbeddedOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("expected the directory to create")?;
    let options = EmbeddedOptions::new(&directory);
    let store = Embedded::open(&options)?;
    let lease = store.grant(3600).await?;
    for number in 0..20 {
        store.create(&format!("/configmaps/default/c{number:02}"), format!("value {number}").into(), None).await?;
    }
    store.create("/events/default/e", "leased".into(), Some(lease)).await?;
    store.create("/secrets/kube-system/binary", vec![0, 159, 146, 150, 255].into(), None).await?;
    store.create("/configmaps/default/ünïcode", "".into(), None).await?;
    let (_, revision) = store.get("/configmaps/default/c00").await?;
    store.compact(revision - 3).await?;
    for number in 0..10 {
        let key = format!("/configmaps/default/c{number:02}");
        let (Some(found), _) = store.get(&key).await? else { return Err("a key is missing".into()) };
        store.update(&key, format!("changed {number}").into(), found.mod_revision, None).await?;
    }
    store.delete("/configmaps/default/c19", None).await?;
    store.close().await;
    Ok(())
}
