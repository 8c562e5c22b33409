//! The objects in both servers, and the order in which the servers are loaded.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;

use crate::load::{Calls, Until, drive};
use crate::server::Server;
use crate::wire::Call;

/// Lets the other server finish its background work.
const PAUSE: Duration = Duration::from_millis(300);
const PAYLOAD_BYTES: usize = 1024;

/// The order of the servers in a round: reversed every time, so that neither gains from going first.
pub fn turns(round: usize, servers: &[Server]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers.len()).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

pub async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

pub fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub fn item(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// A ConfigMap with 1 KiB of unique data.
pub fn config_map(name: &str) -> Bytes {
    let mut state = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut payload = String::with_capacity(PAYLOAD_BYTES);
    while payload.len() < PAYLOAD_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        payload.push(char::from(b'a' + (state >> 59) as u8 % 26));
    }
    let labels = format!(r#"{{"app":"bench","shard":"{}"}}"#, state >> 61);
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{labels}}},"data":{{"payload":"{payload}"}}}}"#
    );
    Bytes::from(text)
}

pub async fn make_namespace(server: &Server, namespace: &str) -> anyhow::Result<()> {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
    let mut connection = server.target.connect().await?;
    let call = Call::create("/api/v1/namespaces".to_owned(), Bytes::from(body));
    connection.read(call).await.with_context(|| format!("cannot create namespace {namespace}"))?;
    Ok(())
}

/// Fills a namespace with objects `from..to`, named by `object_name`.
pub async fn fill(
    server: &Server,
    namespace: &str,
    range: std::ops::Range<usize>,
    clients: usize,
) -> anyhow::Result<()> {
    let mut connections = server.target.connect_many(clients).await?;
    let (each, rest) = (range.len() / clients, range.len() % clients);
    if rest > 0 {
        let mut one = vec![connections.swap_remove(0)];
        create_range(server, namespace, range.start, rest, &mut one).await?;
        connections.append(&mut one);
    }
    create_range(server, namespace, range.start + rest, each, &mut connections).await
}

async fn create_range(
    server: &Server,
    namespace: &str,
    first: usize,
    each: usize,
    connections: &mut Vec<crate::wire::Connection>,
) -> anyhow::Result<()> {
    let path = collection(namespace);
    let calls: Calls = std::sync::Arc::new(move |client, request| {
        Call::create(path.clone(), config_map(&object_name(first + client * each + request)))
    });
    let figures = drive(server, connections, Until::Count(each), &calls).await?.figures();
    if figures.refused > 0 {
        bail!("{} of {} creates failed while filling {namespace}", figures.refused, figures.requests);
    }
    Ok(())
}

pub fn object_name(number: usize) -> String {
    format!("object-{number:06}")
}
