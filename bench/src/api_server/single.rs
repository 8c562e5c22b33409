//! Operations on one object by many clients: create, get, merge patch.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api_server::objects::{collection, config_map, item, object_name, pause, turns};
use crate::api_server::results::Measured;
use crate::load::{Calls, Sample, Until, drive};
use crate::options::Api;
use crate::server::Server;
use crate::wire::Call;

const WARM_UP: Duration = Duration::from_millis(400);

#[derive(Clone, Copy)]
pub enum Operation {
    Create,
    Get,
    Patch,
}

/// Loads the servers in turns; gets and patches use the objects in `namespace`.
pub async fn measure(
    operation: Operation,
    namespace: &str,
    servers: &[Server],
    options: Api<'_>,
) -> anyhow::Result<Vec<Measured>> {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(server.target.connect_many(options.own.clients).await?);
    }
    let mut samples: Vec<Sample> = servers.iter().map(|_| Sample::default()).collect();
    for round in 0..=options.rounds() {
        for turn in turns(round, servers) {
            // Round 0 is a warm-up and does not count.
            let length = if round == 0 { WARM_UP } else { options.turn() };
            let calls = calls(operation, namespace, round, options);
            let sample = drive(&servers[turn], &mut clients[turn], Until::Elapsed(length), &calls).await?;
            if round > 0 {
                samples[turn].add(sample);
            }
            pause().await;
        }
    }
    let sides = servers.iter().map(|server| server.side);
    Ok(sides.zip(samples).map(|(side, sample)| Measured { side, figures: sample.figures() }).collect())
}

fn calls(operation: Operation, namespace: &str, round: usize, options: Api<'_>) -> Calls {
    let namespace = namespace.to_owned();
    let (clients, objects) = (options.own.clients, options.listed_objects());
    match operation {
        Operation::Create => {
            let path = collection(&namespace);
            Arc::new(move |client, request| {
                Call::create(path.clone(), config_map(&format!("new-{round}-{client}-{request}")))
            })
        }
        Operation::Get => Arc::new(move |client, request| {
            Call::get(item(&namespace, &object_name(scattered(client, request, clients, objects))))
        }),
        Operation::Patch => Arc::new(move |client, request| {
            let body = format!(r#"{{"data":{{"touched":"{round}-{request}"}}}}"#);
            let name = object_name(scattered(client, request, clients, objects));
            Call::merge_patch(item(&namespace, &name), Bytes::from(body))
        }),
    }
}

/// Every client uses its own objects in an order without locality, so that patches never conflict.
fn scattered(client: usize, request: usize, clients: usize, objects: usize) -> usize {
    let own = objects / clients;
    client + clients * (request * 7919 % own.max(1))
}
