//! Operations on one object with 1,000, 10,000 and 100,000 objects in the store: none may get slower.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::api_server::objects::{collection, config_map, fill, item, make_namespace, object_name, pause};
use crate::api_server::results::Grown;
use crate::load::{Calls, Figures, Until, drive};
use crate::options::Api;
use crate::server::{Server, Side};
use crate::wire::Call;

const NAMESPACE: &str = "growth";
/// Few enough that latency is the server's work and not a queue.
const CLIENTS: usize = 4;
const REQUESTS_EACH: usize = 300;

/// On fresh servers, so that the sizes are exact.
pub async fn measure(sides: &[Side], options: Api<'_>) -> anyhow::Result<Vec<Grown>> {
    let mut grown = Vec::new();
    for side in sides {
        let sizes = options.growth_sizes().iter().copied();
        let sizes: Vec<usize> = match side {
            Side::Flotilla => sizes.collect(),
            Side::Kube => sizes.filter(|size| *size <= options.growth_kube_max()).collect(),
        };
        if sizes.is_empty() {
            continue;
        }
        let server = Server::start(*side, options.options).await?;
        make_namespace(&server, NAMESPACE).await?;
        let mut held = 0;
        for size in sizes {
            let start = Instant::now();
            fill(&server, NAMESPACE, held..size, options.own.clients).await?;
            eprintln!("  {side:?} has {size} objects after {:.1} s more", start.elapsed().as_secs_f64());
            held = size;
            pause().await;
            grown.extend(measure_at(&server, size).await?);
        }
    }
    Ok(grown)
}

/// Creates, reads, patches and deletes the same extra objects, so that the size is unchanged afterwards.
async fn measure_at(server: &Server, size: usize) -> anyhow::Result<Vec<Grown>> {
    let mut clients = server.target.connect_many(CLIENTS).await?;
    let extra = move |client: usize, request: usize| format!("extra-{size}-{client}-{request}");
    let existing = move |client: usize, request: usize| object_name((client + request * CLIENTS) * 7919 % size);
    let operations: [(&'static str, Calls); 4] = [
        ("create", Arc::new(move |c, r| Call::create(collection(NAMESPACE), config_map(&extra(c, r))))),
        ("get", Arc::new(move |c, r| Call::get(item(NAMESPACE, &existing(c, r))))),
        (
            "patch",
            Arc::new(move |c, r| {
                let body = format!(r#"{{"data":{{"touched":"{size}-{r}"}}}}"#);
                Call::merge_patch(item(NAMESPACE, &existing(c, r)), Bytes::from(body))
            }),
        ),
        ("delete", Arc::new(move |c, r| Call::delete(item(NAMESPACE, &extra(c, r))))),
    ];
    let mut grown = Vec::new();
    for (operation, calls) in operations {
        let sample = drive(server, &mut clients, Until::Count(REQUESTS_EACH), &calls).await?;
        let figures: Figures = sample.figures();
        grown.push(Grown { side: server.side, size, operation: operation.to_owned(), figures });
        pause().await;
    }
    Ok(grown)
}
