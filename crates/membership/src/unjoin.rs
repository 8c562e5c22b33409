//! Unjoins a push-mode cluster: waits for its cleanup, reports what it waits for, and ends at a deadline.

use std::time::Duration;

use api::Resource;
use api::cluster::{CLUSTERS, ClusterSpec, SyncMode};
use api::names::execution_namespace;
use api::work::{BindingSpec, CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, WORKS};
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::credentials::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SERVICE_ACCOUNTS, ignore_missing, role_of, service_account_of,
    target_of,
};
use crate::{MembershipError, Progress};

const POLL: Duration = Duration::from_millis(250);
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout for an object to disappear after its finalizers were removed.
const FORCED_TIMEOUT: Duration = Duration::from_secs(10);
/// Names shown of the objects that are still being removed.
const NAMES_SHOWN_MAX: usize = 3;

pub struct UnjoinOptions {
    pub control_plane: ClusterClient,
    /// Given to delete what `join` created in the member.
    pub member: Option<ClusterClient>,
    pub name: String,
    /// Namespace of the secrets, in the control plane and in the member.
    pub namespace: String,
    pub wait: Duration,
    /// Removes the cluster even if its cleanup does not finish in time.
    pub force: bool,
    /// Checks everything and changes nothing.
    pub dry_run: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum UnjoinOutcome {
    /// All checks passed, nothing was changed.
    Checked,
    Removed {
        member_is_clean: bool,
    },
}

pub async fn unjoin(options: &UnjoinOptions, progress: &dyn Progress) -> Result<UnjoinOutcome, MembershipError> {
    let (name, client) = (&options.name, &options.control_plane);
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    let Some(cluster) = client.find(target.clone()).await? else {
        // Force asks for the result: the cluster is gone.
        if options.force && !options.dry_run {
            progress.note(&format!("cluster({name}) is not in the control plane"));
            return finish(options, progress).await;
        }
        return Err(MembershipError::NoSuchCluster(name.clone()));
    };
    if api::read::<ClusterSpec>(&cluster)?.sync_mode == SyncMode::Pull {
        return Err(MembershipError::IsPullMember(name.clone()));
    }
    if options.dry_run {
        return Ok(UnjoinOutcome::Checked);
    }
    ignore_missing(client.delete(target, DeleteOptions::default()).await)?;
    if let Some(remaining) = wait_until_gone(client, name, options.wait, progress).await? {
        let not_removed = MembershipError::NotRemoved { name: name.clone(), wait: options.wait, remaining };
        if !options.force {
            return Err(not_removed);
        }
        progress.warn(&format!("{not_removed}; removing it by force"));
        remove_by_force(client, name, progress).await?;
    }
    progress.note(&format!("cluster({name}) is removed from the control plane"));
    finish(options, progress).await
}

/// Cleans up the member of a Cluster that is gone.
async fn finish(options: &UnjoinOptions, progress: &dyn Progress) -> Result<UnjoinOutcome, MembershipError> {
    if let Some(member) = &options.member {
        clean_member(options, member, progress).await?;
    }
    Ok(UnjoinOutcome::Removed { member_is_clean: options.member.is_some() })
}

/// Returns `None` once the Cluster is gone, or, at the deadline, what it still waits for.
async fn wait_until_gone(
    client: &ClusterClient,
    name: &str,
    wait: Duration,
    progress: &dyn Progress,
) -> Result<Option<String>, MembershipError> {
    let deadline = Instant::now() + wait;
    let mut shown = String::new();
    let mut next_report = Instant::now() + REPORT_INTERVAL;
    loop {
        let Some(cluster) = client.find(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await? else { return Ok(None) };
        let is_late = Instant::now() >= deadline;
        if is_late || Instant::now() >= next_report {
            let remaining = describe_remaining(client, &cluster).await?;
            if is_late {
                return Ok(Some(remaining));
            }
            if remaining != shown {
                progress.note(&format!("waiting for cluster {name} to be removed: {remaining}"));
                shown = remaining;
            }
            next_report = Instant::now() + REPORT_INTERVAL;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Returns why a Cluster that is being deleted still exists.
async fn describe_remaining(client: &ClusterClient, cluster: &Object) -> Result<String, MembershipError> {
    let name = cluster.name();
    let namespace = execution_namespace(name);
    let works = client.list_all(ResourceRef::within(&WORKS.gvr(), &namespace), ListOptions::default()).await?.items;
    if !works.is_empty() {
        let names = some_names(works.iter().map(|work| work.name()));
        return Ok(format!("{} object(s) in it are not cleaned up yet ({names})", works.len()));
    }
    if client.find(ResourceRef::cluster(&NAMESPACES.gvr(), &namespace)).await?.is_some() {
        return Ok(format!("namespace {namespace} is being removed"));
    }
    let mut bindings: Vec<String> = Vec::new();
    for resource in [&RESOURCE_BINDINGS, &CLUSTER_RESOURCE_BINDINGS] {
        let list = client.list_all(ResourceRef::all(&resource.gvr()), ListOptions::default()).await?;
        let placed = |binding: &Object| {
            api::read::<BindingSpec>(binding).is_ok_and(|spec| spec.clusters.iter().any(|target| target.name == name))
        };
        bindings.extend(list.items.iter().filter(|b| placed(b)).map(|b| format!("{}/{}", b.namespace(), b.name())));
    }
    if !bindings.is_empty() {
        let names = some_names(bindings.iter().map(|name| name.trim_start_matches('/')));
        return Ok(format!("{} workload(s) are still placed on it ({names})", bindings.len()));
    }
    let finalizers: Vec<&str> = cluster.finalizers().collect();
    Ok(format!("waiting for the controllers of its finalizers {}", finalizers.join(", ")))
}

fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let is_cut = names.len() > NAMES_SHOWN_MAX;
    names.truncate(NAMES_SHOWN_MAX);
    names.join(", ") + if is_cut { ", …" } else { "" }
}

/// Removes the finalizers that hold the Cluster: those of its works, then its own.
async fn remove_by_force(client: &ClusterClient, name: &str, progress: &dyn Progress) -> Result<(), MembershipError> {
    let namespace = execution_namespace(name);
    let works = client.list_all(ResourceRef::within(&WORKS.gvr(), &namespace), ListOptions::default()).await?.items;
    for work in &works {
        let target = ResourceRef::namespaced(&WORKS.gvr(), &namespace, work.name());
        drop_finalizers(client, target.clone(), work).await?;
        if !work.is_deleting() {
            ignore_missing(client.delete(target, DeleteOptions::default()).await)?;
        }
    }
    if !works.is_empty() {
        progress.warn(&format!("{} object(s) may be left behind in cluster {name}", works.len()));
    }
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    if let Some(cluster) = client.find(target.clone()).await? {
        drop_finalizers(client, target, &cluster).await?;
    }
    match wait_until_gone(client, name, FORCED_TIMEOUT, progress).await? {
        None => Ok(()),
        Some(remaining) => Err(MembershipError::NotRemovedByForce { name: name.to_owned(), remaining }),
    }
}

/// Removes only the control plane's own finalizers: those of others belong to their controllers.
async fn drop_finalizers(client: &ClusterClient, target: ResourceRef, object: &Object) -> Result<(), Status> {
    let (own, others): (Vec<&str>, Vec<&str>) = object.finalizers().partition(|f| f.starts_with("karmada.io/"));
    if own.is_empty() {
        return Ok(());
    }
    let others = if others.is_empty() { Value::Null } else { json!(others) };
    let patch = Patch::merge(json!({"metadata": {"finalizers": others}}));
    ignore_missing(client.patch(target, patch, WriteOptions::default()).await)
}

/// Deletes the objects `join` created in the member.
async fn clean_member(
    options: &UnjoinOptions,
    member: &ClusterClient,
    progress: &dyn Progress,
) -> Result<(), MembershipError> {
    let account = service_account_of(&options.name);
    let role = role_of(&account);
    let objects: [(&Resource, &str, &str); 4] = [
        (&CLUSTER_ROLE_BINDINGS, "", &role),
        (&CLUSTER_ROLES, "", &role),
        (&SERVICE_ACCOUNTS, &options.namespace, &account),
        (&NAMESPACES, "", &options.namespace),
    ];
    for (resource, namespace, name) in objects {
        let deleted = member.delete(target_of(resource, namespace, name), DeleteOptions::default()).await;
        match ignore_missing(deleted) {
            Ok(()) => {}
            Err(status) if options.force => {
                progress.warn(&format!("{} {name} remains in cluster {}: {status}", resource.kind, options.name));
            }
            Err(status) => {
                let (name, cluster) = (name.to_owned(), options.name.clone());
                return Err(MembershipError::DeleteInMember { kind: resource.kind, name, cluster, status });
            }
        }
    }
    progress.note(&format!("service account {account} and its permissions are removed from the cluster"));
    Ok(())
}

#[cfg(test)]
mod tests;
