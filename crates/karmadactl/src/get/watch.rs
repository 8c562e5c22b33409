//! `get --watch`: prints changes from several clusters.

use anyhow::{anyhow, bail};
use cluster_client::{ApiResources, ClusterClient, ListOptions, WatchCall, WatchEvent};
use futures::StreamExt;
use object::{Object, Status};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::console::Console;
use crate::get::gather::{self, Query};
use crate::get::{GetArgs, Target, add_clusters, aggregate, objects_in};
use crate::output::{self, Format};
use crate::resources::{self, RequestedObjects};
use crate::table::{Column, Look, Table};
use crate::tabs;

/// Maximum number of buffered changes; a slow reader blocks the watches.
const CHANGES_MAX: usize = 256;
/// Pause between watches, so that a server that ends them at once is not flooded.
const REOPEN_DELAY: std::time::Duration = std::time::Duration::from_secs(1);

/// A change to print.
struct Change {
    cluster: String,
    is_plane: bool,
    kind: &'static str,
    object: Value,
}

/// The watch of one cluster.
struct Watched {
    target: Target,
    wanted: RequestedObjects,
    resource_version: String,
    first: Vec<Value>,
}

pub async fn watch(console: &Console, args: &GetArgs, query: &Query, targets: Vec<Target>) -> anyhow::Result<()> {
    let mut watched: Vec<Watched> = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    for target in targets {
        match start(query, target).await {
            Ok(one) => watched.push(one),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let Some(first) = watched.first() else { return aggregate(errors) };
    for error in errors {
        console.warn(error);
    }
    let mut screen = Screen {
        console,
        args,
        look: args.look(None, first.wanted.resource.namespaced),
        plural: first.wanted.resource.gvr.resource.clone(),
        columns: tabs::Running::default(),
        has_header: args.no_headers,
        known_columns: Vec::new(),
        documents: 0,
    };
    if !args.watch_only {
        for one in &mut watched {
            for answer in std::mem::take(&mut one.first) {
                screen.show_list(&one.target, answer)?;
            }
        }
    }
    let (sender, mut changes) = mpsc::channel(CHANGES_MAX);
    for one in watched {
        tokio::spawn(follow(query.clone(), one, sender.clone()));
    }
    drop(sender);
    while let Some(change) = changes.recv().await {
        screen.show_change(change?)?;
    }
    Ok(())
}

/// Lists the existing objects, so that the watch can start after them.
async fn start(query: &Query, target: Target) -> anyhow::Result<Watched> {
    let cluster = &target.cluster;
    let failed = |status: Status| anyhow!("cluster({cluster}): {status}");
    let known = ApiResources::discover(&target.client).await.map_err(failed)?;
    let mut wanted = resources::resolve(&query.typed, &known).map_err(|e| anyhow!("cluster({cluster}): {e}"))?;
    let (Some(one), true) = (wanted.pop(), wanted.is_empty()) else {
        bail!(
            "watch is only supported on individual resources and resource collections - more than 1 resource was found"
        );
    };
    if one.names.len() > 1 {
        bail!(
            "watch is only supported on individual resources and resource collections - more than 1 resource was found"
        );
    }
    let selector = field_selector(query, &one);
    let first = gather::list(query, &target.client, &one.resource, selector.as_deref()).await.map_err(failed)?;
    let resource_version = first.first().and_then(|page| page["metadata"]["resourceVersion"].as_str());
    let resource_version = resource_version.unwrap_or_default().to_owned();
    Ok(Watched { wanted: one, resource_version, first, target })
}

fn field_selector(query: &Query, wanted: &RequestedObjects) -> Option<String> {
    let by_name = wanted.names.first().map(|name| format!("metadata.name={name}"));
    match (by_name, &query.field_selector) {
        (Some(name), Some(fields)) => Some(format!("{name},{fields}")),
        (name, fields) => name.or_else(|| fields.clone()),
    }
}

/// Forwards changes until the receiver is closed or the server refuses.
async fn follow(query: Query, watched: Watched, sender: mpsc::Sender<Result<Change, anyhow::Error>>) {
    let Watched { target, wanted, mut resource_version, .. } = watched;
    loop {
        let call = WatchCall {
            gvr: wanted.resource.gvr.clone(),
            namespace: query.namespace_of(&wanted.resource).map(str::to_owned),
            options: ListOptions {
                label_selector: query.label_selector.clone(),
                field_selector: field_selector(&query, &wanted),
                resource_version: Some(resource_version.clone()).filter(|version| !version.is_empty()),
                bookmarks: true,
                ..ListOptions::default()
            },
            as_table: query.as_table,
        };
        if let Err(status) = follow_once(&target, call, &mut resource_version, &sender).await {
            if status.is_expired() {
                // Changes in between are unknown; the next list shows the current state.
                resource_version.clear();
            } else {
                let _ = sender.send(Err(anyhow!("cluster({}): {status}", target.cluster))).await;
                return;
            }
        }
        if sender.is_closed() {
            return;
        }
        tokio::time::sleep(REOPEN_DELAY).await;
    }
}

async fn follow_once(
    target: &Target,
    call: WatchCall,
    resource_version: &mut String,
    sender: &mpsc::Sender<Result<Change, anyhow::Error>>,
) -> Result<(), Status> {
    let client: &ClusterClient = &target.client;
    let mut events = client.watch(call).await?;
    while let Some(event) = events.next().await {
        let (kind, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark { resource_version: version, .. } => {
                *resource_version = version;
                continue;
            }
            WatchEvent::Error(status) => return Err(status),
        };
        if let Some(version) = version_of(&object) {
            *resource_version = version;
        }
        let (cluster, is_plane) = (target.cluster.clone(), target.is_plane);
        let change = Change { cluster, is_plane, kind, object: object.to_value() };
        if sender.send(Ok(change)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the metadata of an object or of a table row.
fn version_of(object: &Object) -> Option<String> {
    let of_row = || object.items(&["rows"]).first()?["object"]["metadata"]["resourceVersion"].as_str();
    let version = of_row().or_else(|| Some(object.resource_version()))?;
    (!version.is_empty()).then(|| version.to_owned())
}

/// Tracks the printed output, to decide on headers.
struct Screen<'a> {
    console: &'a Console,
    args: &'a GetArgs,
    look: Look,
    plural: String,
    columns: tabs::Running,
    has_header: bool,
    known_columns: Vec<Column>,
    documents: usize,
}

impl Screen<'_> {
    fn show_list(&mut self, target: &Target, answer: Value) -> anyhow::Result<()> {
        if Format::is_table(self.args.output.as_ref()) {
            return self.show_table(&target.cluster, target.is_plane, "ADDED", answer);
        }
        for object in objects_in(answer) {
            self.show_object("ADDED", object)?;
        }
        Ok(())
    }

    fn show_change(&mut self, change: Change) -> anyhow::Result<()> {
        if Format::is_table(self.args.output.as_ref()) {
            return self.show_table(&change.cluster, change.is_plane, change.kind, change.object);
        }
        match Object::from_value(change.object) {
            Some(object) => self.show_object(change.kind, object),
            None => Ok(()),
        }
    }

    fn show_table(&mut self, cluster: &str, is_plane: bool, event: &str, answer: Value) -> anyhow::Result<()> {
        let Some(mut table) = Table::read(answer, jiff::Timestamp::now()) else { return Ok(()) };
        // A server sends the columns only in the first event of a watch.
        if table.columns.is_empty() {
            table.columns.clone_from(&self.known_columns);
        }
        self.known_columns.clone_from(&table.columns);
        if table.rows.is_empty() {
            return Ok(());
        }
        add_clusters(&mut table, cluster, is_plane, &self.plural);
        if self.args.output_watch_events {
            table.insert_first("EVENT", event);
        }
        let look = Look { no_headers: self.has_header, ..self.look.clone() };
        self.has_header = true;
        self.console.print(&self.columns.align(&table.tabbed(&look)))?;
        Ok(())
    }

    fn show_object(&mut self, event: &str, object: Object) -> anyhow::Result<()> {
        let Some(format) = &self.args.output else { return Ok(()) };
        let keep = self.args.show_managed_fields;
        let value = if keep { object.into_value() } else { output::without_managed_fields(object).into_value() };
        let value = if self.args.output_watch_events { json!({"type": event, "object": value}) } else { value };
        if *format == Format::Yaml && self.documents > 0 {
            self.console.print("---\n")?;
        }
        self.documents += 1;
        self.console.print(&format.print(&value)?)?;
        Ok(())
    }
}
