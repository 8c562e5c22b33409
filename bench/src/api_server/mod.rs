//! The API server compared with kube-apiserver on etcd: start, single operations, lists, watches, growth.

mod growth;
mod list;
mod objects;
pub mod results;
pub mod rows;
mod single;
mod start;
pub mod text;
pub mod watch;
pub mod watchers;

use crate::api_server::list::Encoding;
use crate::api_server::objects::{fill, make_namespace};
use crate::api_server::results::Results;
use crate::api_server::single::Operation;
use crate::options::{Api, Protocol, Scenario};
use crate::programs;
use crate::server::{Server, Side};

/// The namespace of objects that are read, patched and listed.
const FILLED: &str = "filled";
/// The namespace of the create load.
const CREATED: &str = "created";

pub async fn run(api: Api<'_>, report: &mut Results, notes: &mut Vec<String>) -> anyhow::Result<()> {
    let mut sides = vec![Side::Flotilla];
    if !api.options.alone {
        match programs::ensure_present(api.options, programs::API).await {
            Ok(()) => sides.push(Side::Kube),
            Err(error) => notes.push(format!("kube-apiserver did not run: {error:#}")),
        }
    }
    report.clients = api.own.clients;
    report.protocol = match api.options.protocol {
        Protocol::Http1 => "HTTP/1.1".to_owned(),
        Protocol::Http2 => "HTTP/2".to_owned(),
    };
    let on_objects =
        [Scenario::Create, Scenario::Get, Scenario::Patch, Scenario::List, Scenario::Watch, Scenario::Watchers];
    let servers = if api.wants(Scenario::Start) {
        say("start");
        let (servers, started) = start::measure(&sides, api).await?;
        report.started = started;
        servers
    } else if on_objects.iter().any(|scenario| api.wants(*scenario)) {
        start::start_all(&sides, api).await?
    } else {
        Vec::new()
    };
    measure_objects(&servers, api, report).await?;
    drop(servers);
    if api.wants(Scenario::Growth) {
        say("growth");
        report.growth = growth::measure(&sides, api).await?;
    }
    Ok(())
}

async fn measure_objects(servers: &[Server], options: Api<'_>, report: &mut Results) -> anyhow::Result<()> {
    if options.wants(Scenario::Create) {
        say("create");
        for server in servers {
            make_namespace(server, CREATED).await?;
        }
        report.create = single::measure(Operation::Create, CREATED, servers, options).await?;
    }
    let filled = [Scenario::Get, Scenario::Patch, Scenario::List];
    if filled.iter().any(|scenario| options.wants(*scenario)) {
        for server in servers {
            make_namespace(server, FILLED).await?;
            fill(server, FILLED, 0..options.listed_objects(), options.own.clients).await?;
        }
    }
    if options.wants(Scenario::Get) {
        say("get");
        report.get = single::measure(Operation::Get, FILLED, servers, options).await?;
    }
    if options.wants(Scenario::Patch) {
        say("patch");
        report.patch = single::measure(Operation::Patch, FILLED, servers, options).await?;
    }
    if options.wants(Scenario::List) {
        say("list");
        report.list = list::measure(Encoding::Plain, FILLED, servers, options).await?;
        report.list_gzip = list::measure(Encoding::Gzip, FILLED, servers, options).await?;
    }
    if options.wants(Scenario::Watch) {
        say("watch");
        report.watch = watch::measure(servers, options).await?;
    }
    if options.wants(Scenario::Watchers) && options.options.protocol == Protocol::Http2 {
        say("watchers");
        report.watchers = watchers::measure(servers, options).await?;
    }
    Ok(())
}

fn say(scenario: &str) {
    eprintln!("measuring: {scenario}");
}
