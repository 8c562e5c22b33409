//! `restore status` and `restore confirm`: the safe mode of a restored control plane.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api::cluster::LABEL_MANAGED;
use api::core::{Condition, find_condition};
use api::names;
use api::safe_mode::{CONFIRM_PATH, HELD_BACK, Held, REASON, STATE_PATH};
use api::work::{ANNOTATION_WORK_NAME, ANNOTATION_WORK_NAMESPACE, CONDITION_DISPATCHING, WORKS};
use bytes::Bytes;
use clap::Args;
use cluster_client::{ApiResources, ClusterClient, ListOptions, ResourceRef, is_unreachable};
use futures::StreamExt;
use http::Request;
use object::{Object, Status};
use serde::Serialize;
use serde_json::Value;

use crate::console::Console;
use crate::get::ask;
use crate::output::Format;
use crate::plane::{PlaneArgs, PlaneClient};
use crate::why::{document_format, show, unknown_path};

/// Maximum number of members queried concurrently.
const MEMBERS_AT_ONCE: usize = 8;
/// Timeout for one member.
const MEMBER_WAIT: Duration = Duration::from_secs(15);
/// Timeout for the original control plane.
const FORMER_WAIT: Duration = Duration::from_secs(3);
/// Kinds searched in members in addition to those of works.
const USUAL_KINDS: [&str; 10] = [
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "Service",
    "ConfigMap",
    "Secret",
    "Ingress",
    "PersistentVolumeClaim",
];

/// Show whether the control plane is in safe mode after a restore or an import, the pending changes, and unknown objects in members.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  flotilla restore status
  flotilla restore status -o json")]
pub struct StatusArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    /// Output format: json or yaml [default: text]
    #[arg(short, long, value_parser = document_format, value_name = "FORMAT")]
    output: Option<Format>,
}

/// End safe mode: synchronize members with the restored control plane, which also deletes objects in them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # What will be deleted and changed, and where?
  flotilla restore confirm --dry-run

  flotilla restore confirm")]
pub struct ConfirmArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    /// Only print what would happen
    #[arg(long)]
    dry_run: bool,
    /// Continue although the original control plane is running or could not be checked
    #[arg(long)]
    force: bool,
}

/// The state of safe mode.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    on: bool,
    restored: Value,
    held: Vec<Held>,
    /// Objects in members without a work: created after the backup. They are never changed.
    orphans: Vec<Held>,
    /// Members that did not answer.
    silent: Vec<String>,
    text: String,
}

pub async fn status(console: &Console, args: StatusArgs) -> anyhow::Result<()> {
    let plane = PlaneClient::open(&args.plane)?;
    let mut report = gather(&plane).await.map_err(|error| plane.explain(error))?;
    report.text = describe(&report, &console.program);
    show(console, &serde_json::to_value(&report)?, args.output.as_ref())
}

pub async fn confirm(console: &Console, args: ConfirmArgs) -> anyhow::Result<()> {
    let plane = PlaneClient::open(&args.plane)?;
    let report = gather(&plane).await.map_err(|error| plane.explain(error))?;
    console.print(&describe(&report, &console.program))?;
    if !report.on || args.dry_run {
        return Ok(());
    }
    if !args.force {
        refuse_former(&plane, &report.restored).await?;
    }
    let request = Request::post(CONFIRM_PATH).body(Bytes::new()).context("cannot build the request")?;
    let response = plane.client.raw(request).await?;
    let code = response.status().as_u16();
    if code >= 400 {
        let status = Status::from_response(code, response.body());
        return Err(plane.explain(anyhow::Error::from(status).context("cannot end safe mode")));
    }
    console.line("Safe mode has ended: members are synchronized with the control plane.")?;
    Ok(())
}

async fn gather(plane: &PlaneClient) -> anyhow::Result<Report> {
    let state = ask(&plane.client, STATE_PATH, "application/json").await.map_err(unknown_path)?;
    let mut report = Report { on: state["on"] == true, restored: state["restored"].clone(), ..Report::default() };
    if !report.on {
        return Ok(report);
    }
    report.held = serde_json::from_value(state["held"].clone()).unwrap_or_default();
    let works = plane.client.list_all(ResourceRef::all(&WORKS.gvr()), ListOptions::default()).await?.items;
    report.held.extend(works.iter().filter_map(|work| held_work(work)));
    report.held.sort();
    report.held.dedup();
    let known: BTreeSet<String> = works.iter().map(|work| format!("{}/{}", work.namespace(), work.name())).collect();
    let kinds = kinds_of(&works);
    let clusters = plane.clusters().await?;
    let answers: Vec<(String, Option<Vec<Held>>)> =
        futures::stream::iter(clusters.iter().map(|cluster| cluster.name()))
            .map(|cluster| find_orphans(plane, cluster, &kinds, &known))
            .buffered(MEMBERS_AT_ONCE)
            .collect()
            .await;
    for (cluster, found) in answers {
        match found {
            Some(orphans) => report.orphans.extend(orphans),
            None => report.silent.push(cluster),
        }
    }
    Ok(report)
}

/// Returns the pending change of a work, in push and pull mode.
fn held_work(work: &Object) -> Option<Held> {
    let conditions: Vec<Condition> = api::read_at(work, &["status", "conditions"]).ok()?;
    let held = find_condition(&conditions, CONDITION_DISPATCHING).filter(|condition| condition.reason == REASON)?;
    let what = held.message.trim_start_matches(HELD_BACK).trim_start_matches(": ").trim_start_matches("it would ");
    let (action, object) = match what.split_once(' ') {
        Some(("bring", rest)) => ("bring back", rest.trim_start_matches("back ")),
        Some((action, rest)) => (action, rest),
        None => ("change", what),
    };
    let cluster = names::cluster_of_execution_namespace(work.namespace())?;
    Some(Held { cluster: cluster.to_owned(), action: action.to_owned(), object: object.to_owned() })
}

fn kinds_of(works: &[Arc<Object>]) -> BTreeSet<String> {
    let manifests = works.iter().flat_map(|work| work.items(&["spec", "workload", "manifests"]));
    let used = manifests.filter_map(|manifest| manifest["kind"].as_str()).map(str::to_owned);
    USUAL_KINDS.iter().map(|kind| (*kind).to_owned()).chain(used).collect()
}

/// Returns `None` if the member does not answer.
async fn find_orphans(
    plane: &PlaneClient,
    cluster: &str,
    kinds: &BTreeSet<String>,
    known: &BTreeSet<String>,
) -> (String, Option<Vec<Held>>) {
    let found = async {
        let member = plane.member(cluster).ok()?;
        list_orphans(&member, cluster, kinds, known).await.ok()
    };
    (cluster.to_owned(), tokio::time::timeout(MEMBER_WAIT, found).await.ok().flatten())
}

async fn list_orphans(
    member: &ClusterClient,
    cluster: &str,
    kinds: &BTreeSet<String>,
    known: &BTreeSet<String>,
) -> Result<Vec<Held>, Status> {
    let served = ApiResources::discover(member).await?;
    let mut orphans = BTreeSet::new();
    for resource in served.resources.iter().filter(|resource| kinds.contains(&resource.gvk().kind)) {
        let managed = ListOptions { label_selector: Some(format!("{LABEL_MANAGED}=true")), ..ListOptions::default() };
        let items = match member.list_all(ResourceRef::all(&resource.gvr), managed).await {
            Ok(list) => list.items,
            Err(status) if matches!(status.code, 404 | 405) => continue,
            Err(status) => return Err(status),
        };
        for item in items {
            let annotation = |key: &str| item.str_at(&["metadata", "annotations", key]).to_owned();
            let (namespace, name) = (annotation(ANNOTATION_WORK_NAMESPACE), annotation(ANNOTATION_WORK_NAME));
            if namespace.is_empty() || known.contains(&format!("{namespace}/{name}")) {
                continue;
            }
            let kind = resource.gvk().kind;
            let object = match item.namespace() {
                "" => format!("{kind} {}", item.name()),
                within => format!("{kind} {within}/{}", item.name()),
            };
            orphans.insert(Held { cluster: cluster.to_owned(), action: "keep".to_owned(), object });
        }
    }
    Ok(orphans.into_iter().collect())
}

/// Refuses while the original control plane is running: both would manage the same members.
async fn refuse_former(plane: &PlaneClient, restored: &Value) -> anyhow::Result<()> {
    let Some(url) = restored["formerUrl"].as_str() else { return Ok(()) };
    let former = plane.elsewhere(url)?;
    let answer = tokio::time::timeout(FORMER_WAIT, ask(&former, STATE_PATH, "application/json")).await;
    let is_running = match answer {
        Ok(Ok(answer)) => answer["restored"]["instance"] != restored["instance"],
        // A Karmada with the same CA knows the caller and not the path.
        Ok(Err(status)) => matches!(status.code, 403 | 404) && !is_unreachable(&status),
        Err(_) => false,
    };
    if !is_running {
        return Ok(());
    }
    bail!(
        "the original control plane still answers at {url}, with the same keys and the same members: stop it first. Two planes \
         would undo each other's work. (--force goes on all the same)"
    )
}

fn describe(report: &Report, program: &str) -> String {
    if !report.on {
        return "The control plane is not in safe mode.\n".to_owned();
    }
    let of = |key: &str| report.restored[key].as_str().unwrap_or("unknown");
    let mut text = match report.restored["importedFrom"].as_str() {
        Some(origin) => format!("Safe mode: imported at {} from {origin}.\n", of("restoredAt")),
        None => format!(
            "Safe mode: restored at {} from a backup taken at {} (revision {}).\n",
            of("restoredAt"),
            of("backupTakenAt"),
            report.restored["backupRevision"],
        ),
    };
    text.push_str(&section("Held back until `restore confirm`", &report.held));
    text.push_str(&section(
        "In members, but not known to this control plane (created after it was backed up or imported; never deleted)",
        &report.orphans,
    ));
    for cluster in &report.silent {
        text.push_str(&format!("Cluster {cluster} did not answer.\n"));
    }
    text.push_str(&format!("\nEnd safe mode with `{program} restore confirm`.\n"));
    text
}

fn section(title: &str, entries: &[Held]) -> String {
    if entries.is_empty() {
        return format!("\n{title}: none.\n");
    }
    let mut text = format!("\n{title}: {}\n", entries.len());
    let (cluster, action) = entries
        .iter()
        .fold((7, 6), |(cluster, action), held| (cluster.max(held.cluster.len()), action.max(held.action.len())));
    text.push_str(&format!("  {:cluster$}  {:action$}  OBJECT\n", "CLUSTER", "ACTION"));
    for held in entries {
        text.push_str(&format!("  {:cluster$}  {:action$}  {}\n", held.cluster, held.action, held.object));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn works_list_the_changes_that_are_held_back() {
        let check = |message: &str, expected: Option<(&str, &str)>| {
            let work = Object::from_value(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": {"name": "w", "namespace": "karmada-es-m1"},
                "status": {"conditions": [{"type": "Dispatching", "status": "False",
                    "reason": if expected.is_some() { REASON } else { "SuspendDispatching" },
                    "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
            let held = held_work(&work.unwrap());
            let expected = expected.map(|(action, object)| Held {
                cluster: "m1".into(),
                action: action.into(),
                object: object.into(),
            });
            assert_eq!(held, expected, "{message}");
        };
        check("held back by safe mode: it would change ConfigMap default/a", Some(("change", "ConfigMap default/a")));
        check("held back by safe mode: it would bring back Job default/j", Some(("bring back", "Job default/j")));
        check("held back by safe mode: it would delete Namespace n", Some(("delete", "Namespace n")));
        check("Work dispatching is in a suspended state.", None);
    }

    #[test]
    fn reports_name_object_and_cluster() {
        let held = |action: &str| Held { cluster: "m1".into(), action: action.into(), object: "Job default/j".into() };
        let report = Report {
            on: true,
            restored: json!({"restoredAt": "T2", "backupTakenAt": "T1", "backupRevision": 7}),
            held: vec![held("delete")],
            ..Report::default()
        };
        let text = describe(&report, "flotilla");
        assert!(text.contains("restored at T2 from a backup taken at T1 (revision 7)"), "{text}");
        assert!(text.contains("  m1       delete  Job default/j\n"), "{text}");
        assert!(text.contains("never deleted): none."), "{text}");
        let imported = Report { restored: json!({"restoredAt": "T2", "importedFrom": "the Karmada at U"}), ..report };
        let text = describe(&imported, "flotilla");
        assert!(text.contains("imported at T2 from the Karmada at U."), "{text}");
    }
}
