//! The contract for reads, at the latest and at older revisions.

use std::sync::Arc;

use bytes::Bytes;
use store::{Error, RangeEnd, RangeRequest, RangeResult, Store, prefix_end};

fn keys(result: &RangeResult) -> Vec<&str> {
    result.kvs.iter().map(|kv| &*kv.key).collect()
}

async fn put_all(store: &Arc<dyn Store>, keys: &[&str]) {
    for key in keys {
        store.create(key, Bytes::from(key.to_string()), None).await.unwrap();
    }
}

pub async fn ranges_are_ordered_and_bounded(store: Arc<dyn Store>) {
    put_all(&store, &["/b/2", "/a/1", "/b/1", "/b", "/b/10", "/c/1", "/b0"]).await;
    let check = async |start: &str, end: RangeEnd<'_>, limit: usize, expected: &[&str], remaining: u64| {
        let result = store.range(RangeRequest { start, end, limit, revision: None }).await.unwrap();
        assert_eq!(keys(&result), expected, "{start} {end:?} {limit}");
        assert_eq!((result.remaining, result.more), (remaining, remaining > 0), "{start} {end:?} {limit}");
    };
    check("/b/", RangeEnd::Prefix, 0, &["/b/1", "/b/10", "/b/2"], 0).await;
    check("/b/", RangeEnd::Prefix, 2, &["/b/1", "/b/10"], 1).await;
    check("/b/", RangeEnd::Prefix, 3, &["/b/1", "/b/10", "/b/2"], 0).await;
    check("/b", RangeEnd::Key, 0, &["/b"], 0).await;
    check("/x", RangeEnd::Key, 0, &[], 0).await;
    check("/b/10", RangeEnd::Exclusive("/b0"), 0, &["/b/10", "/b/2"], 0).await;
    check("/b/1\0", RangeEnd::Exclusive("/b0"), 1, &["/b/10"], 1).await;
    check("/b/2", RangeEnd::Exclusive("/b/1"), 0, &[], 0).await;
    check("", RangeEnd::Prefix, 2, &["/a/1", "/b"], 5).await;
    check("", RangeEnd::Prefix, 0, &["/a/1", "/b", "/b/1", "/b/10", "/b/2", "/b0", "/c/1"], 0).await;
}

pub async fn pages_show_one_revision_while_others_write(store: Arc<dyn Store>) {
    put_all(&store, &["/p/1", "/p/2", "/p/3", "/p/4", "/p/5"]).await;
    let first = store.range(RangeRequest::prefix("/p/").limit(2)).await.unwrap();
    assert_eq!((keys(&first), first.remaining), (vec!["/p/1", "/p/2"], 3));
    store.create("/p/25", "new".into(), None).await.unwrap();
    store.delete("/p/3", None).await.unwrap();
    let end = prefix_end("/p/").unwrap();
    let second = store.range(RangeRequest::between("/p/2\0", &end).limit(2).at(first.revision)).await.unwrap();
    assert_eq!((keys(&second), second.remaining), (vec!["/p/3", "/p/4"], 1));
    assert!(second.revision > first.revision, "returns the store's revision, not the page's");
    let third = store.range(RangeRequest::between("/p/4\0", &end).limit(2).at(first.revision)).await.unwrap();
    assert_eq!((keys(&third), third.remaining, third.more), (vec!["/p/5"], 0, false));
}

pub async fn old_revisions_stay_readable_until_compacted(store: Arc<dyn Store>) {
    let first = store.create("/k", "1".into(), None).await.unwrap();
    let second = store.update("/k", "2".into(), first, None).await.unwrap();
    let deleted = store.delete("/k", None).await.unwrap().0;
    let again = store.create("/k", "3".into(), None).await.unwrap();
    let check = async |revision: u64, expected: Option<&'static [u8]>| {
        let result = store.range(RangeRequest::prefix("/k").at(revision)).await.unwrap();
        assert_eq!(result.kvs.first().map(|kv| &*kv.value), expected, "at {revision}");
    };
    check(first - 1, None).await;
    check(first, Some(b"1")).await;
    check(second, Some(b"2")).await;
    check(deleted, None).await;
    check(again, Some(b"3")).await;

    store.compact(second).await.unwrap();
    let gone = store.range(RangeRequest::prefix("/k").at(first)).await;
    assert!(
        matches!(gone, Err(Error::Compacted { requested, compacted }) if requested == first && compacted == second)
    );
    check(second, Some(b"2")).await;
    check(again, Some(b"3")).await;
    assert_eq!(store.compacted().await, second);

    store.compact(again).await.unwrap();
    check(again, Some(b"3")).await;
    assert_eq!(&*store.get("/k").await.unwrap().0.unwrap().value, b"3");
}

pub async fn revisions_that_cannot_be_read_are_refused(store: Arc<dyn Store>) {
    let now = store.create("/k", "1".into(), None).await.unwrap();
    let future = store.range(RangeRequest::prefix("/k").at(now + 100)).await;
    assert!(matches!(future, Err(Error::FutureRevision { requested, .. }) if requested == now + 100), "{future:?}");
    assert!(matches!(store.compact(now + 100).await, Err(Error::FutureRevision { .. })));
    store.compact(now).await.unwrap();
    assert!(matches!(store.compact(now).await, Err(Error::Compacted { .. })));
    assert!(matches!(store.compact(now - 1).await, Err(Error::Compacted { .. })));
    assert!(matches!(store.range(RangeRequest::prefix("/k").at(0)).await, Err(Error::Compacted { .. })));
}

pub async fn counts_follow_writes(store: Arc<dyn Store>) {
    put_all(&store, &["/a/1", "/a/2", "/b/1"]).await;
    assert_eq!(store.count("/a/").await.unwrap(), 2);
    store.delete("/a/1", None).await.unwrap();
    assert_eq!(store.count("/a/").await.unwrap(), 1);
    assert_eq!(store.count("").await.unwrap(), 2);
    assert_eq!(store.count("/x").await.unwrap(), 0);
}

pub async fn health_and_size_are_reported(store: Arc<dyn Store>) {
    store.create("/a", "1".into(), None).await.unwrap();
    store.health().await.unwrap();
    assert!(store.size_bytes().await.unwrap() > 0);
    assert!(["memory", "embedded", "etcd"].contains(&store.engine()));
}
