//! A server that must find its data creates nothing in its place.

use api_host::{Additions, ApiHost, Options};
use apiserver::server::Handlers;

async fn open(options: &Options) -> Result<ApiHost, String> {
    let opened = ApiHost::open(options, Additions::default()).await;
    let host = opened.map_err(|error| format!("{error:#}"))?;
    host.serve(Handlers::default()).map_err(|error| format!("{error:#}"))
}

#[tokio::test]
async fn a_server_that_requires_its_data_starts_only_where_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options::new("test", directory.path(), ([127, 0, 0, 1], 0).into());
    options.requires_existing_data = true;
    let refused = open(&options).await.err().expect("there is nothing");
    assert!(refused.contains("there is no control plane to start"), "{refused}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("readable").collect();
    assert!(left.is_empty(), "nothing was created: {left:?}");

    options.requires_existing_data = false;
    open(&options).await.expect("it creates its data").stop().await;
    options.requires_existing_data = true;
    open(&options).await.expect("its data is there").stop().await;

    std::fs::rename(directory.path().join("pki"), directory.path().join("lost")).expect("renamed");
    let refused = open(&options).await.err().expect("the keys are lost");
    assert!(refused.contains("ca.key does not exist"), "{refused}");
    assert!(!directory.path().join("pki").exists(), "no other keys were created");
}
