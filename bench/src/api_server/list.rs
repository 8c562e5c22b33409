//! Full lists of 10,000 objects by one client, plain and compressed.

use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::api_server::objects::{collection, pause, turns};
use crate::api_server::results::Measured;
use crate::load::{Calls, Sample, Until, drive};
use crate::options::Api;
use crate::server::Server;
use crate::wire::Call;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Plain,
    Gzip,
}

pub async fn measure(
    encoding: Encoding,
    namespace: &str,
    servers: &[Server],
    options: Api<'_>,
) -> anyhow::Result<Vec<Measured>> {
    let path = collection(namespace);
    let calls: Calls = Arc::new(move |_, _| Call { gzip: encoding == Encoding::Gzip, ..Call::get(path.clone()) });
    let mut clients = Vec::new();
    for server in servers {
        let mut connection = server.target.connect().await?;
        check_list(&connection.read(Call::get(collection(namespace))).await?, options.listed_objects())?;
        clients.push(vec![connection]);
    }
    let mut samples: Vec<Sample> = servers.iter().map(|_| Sample::default()).collect();
    for round in 0..options.rounds() {
        for turn in turns(round, servers) {
            let until = Until::Elapsed(options.turn());
            samples[turn].add(drive(&servers[turn], &mut clients[turn], until, &calls).await?);
            pause().await;
        }
    }
    let sides = servers.iter().map(|server| server.side);
    Ok(sides.zip(samples).map(|(side, sample)| Measured { side, figures: sample.figures() }).collect())
}

/// Both servers must return the same list before they are compared. Controllers may have added ConfigMaps.
fn check_list(body: &[u8], objects: usize) -> anyhow::Result<()> {
    let list: Value = serde_json::from_slice(body).context("the list is not JSON")?;
    let items = list["items"].as_array().context("the list has no items")?;
    let ours = items.iter().filter(|object| object["metadata"]["labels"]["app"] == "bench");
    let complete = ours.filter(|object| object["data"]["payload"].is_string()).count();
    ensure!(complete == objects, "the list has {complete} complete objects, not {objects}");
    Ok(())
}
