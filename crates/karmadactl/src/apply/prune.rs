//! `apply --prune`: deletes objects that were applied before and are in no manifest now.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use clap::Args;
use cluster_client::{
    ApiResource, ApiResources, ClusterClient, DeleteOptions, ListOptions, PropagationPolicy, ResourceRef,
};
use object::{GroupVersionKind, Object};

use super::LAST_APPLIED;
use crate::outcome::{DryRun, Printer};
use crate::selection::Namespace;

/// The kinds that kubectl prunes.
const KINDS: [&str; 16] = [
    "/v1/ConfigMap",
    "/v1/Endpoints",
    "/v1/Namespace",
    "/v1/PersistentVolumeClaim",
    "/v1/PersistentVolume",
    "/v1/Pod",
    "/v1/ReplicationController",
    "/v1/Secret",
    "/v1/Service",
    "batch/v1/Job",
    "batch/v1/CronJob",
    "networking.k8s.io/v1/Ingress",
    "apps/v1/DaemonSet",
    "apps/v1/Deployment",
    "apps/v1/ReplicaSet",
    "apps/v1/StatefulSet",
];

/// Options of pruning.
#[derive(Args, Clone, Debug, Default)]
pub struct PruneArgs {
    /// Delete applied objects that are in no manifest of this call; needs -l or --all
    #[arg(long)]
    pub prune: bool,
    /// With --prune, consider all objects instead of those with a label
    #[arg(long)]
    pub all: bool,
    /// With --prune, the kinds to consider instead of kubectl's
    #[arg(long, visible_alias = "prune-whitelist", value_name = "GROUP/VERSION/KIND")]
    pub prune_allowlist: Vec<String>,
}

impl PruneArgs {
    pub fn check(&self, selector: Option<&str>) -> anyhow::Result<()> {
        if self.prune && !self.all && selector.is_none() {
            bail!(
                "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector"
            );
        }
        if self.all && selector.is_some() {
            bail!("cannot set --all and --selector at the same time");
        }
        self.kinds().map(drop)
    }

    /// The kinds to look at.
    fn kinds(&self) -> anyhow::Result<Vec<GroupVersionKind>> {
        let given = self.prune_allowlist.iter().map(String::as_str);
        let names: Vec<&str> = if self.prune_allowlist.is_empty() { KINDS.to_vec() } else { given.collect() };
        names.into_iter().map(parse_kind).collect()
    }
}

/// Reads `GROUP/VERSION/KIND`; the group `core` has no name.
fn parse_kind(text: &str) -> anyhow::Result<GroupVersionKind> {
    let parts: Vec<&str> = text.split('/').collect();
    let [group, version, kind] = parts[..] else {
        bail!("invalid GroupVersionKind format: {text}, please follow <group/version/kind>")
    };
    let group = if group == "core" { "" } else { group };
    Ok(GroupVersionKind::new(group, version, kind))
}

/// Deletes what was applied before and is not among these objects.
pub struct Pruning<'a> {
    pub client: &'a ClusterClient,
    pub known: &'a ApiResources,
    pub args: &'a PruneArgs,
    pub selector: Option<&'a str>,
    pub dry_run: DryRun,
    pub namespace: Namespace<'a>,
}

impl Pruning<'_> {
    pub async fn run(&self, printer: &mut Printer<'_>, applied: &[Object]) -> anyhow::Result<()> {
        let kept: BTreeSet<&str> = applied.iter().map(Object::uid).collect();
        let namespaces: BTreeSet<&str> =
            applied.iter().map(Object::namespace).filter(|name| !name.is_empty()).collect();
        for kind in self.args.kinds()? {
            let Some(resource) = self.known.resources.iter().find(|resource| resource.gvk() == kind) else { continue };
            if resource.namespaced {
                for namespace in &namespaces {
                    self.prune(printer, resource, ResourceRef::within(&resource.gvr, namespace), &kept).await?;
                }
            } else if !self.namespace.is_given || !self.args.prune_allowlist.is_empty() {
                // With a namespace on the command line, kubectl prunes other objects only if their kind is named.
                self.prune(printer, resource, ResourceRef::all(&resource.gvr), &kept).await?;
            }
        }
        Ok(())
    }

    async fn prune(
        &self,
        printer: &mut Printer<'_>,
        resource: &ApiResource,
        place: ResourceRef,
        kept: &BTreeSet<&str>,
    ) -> anyhow::Result<()> {
        let options = ListOptions { label_selector: self.selector.map(str::to_owned), ..ListOptions::default() };
        let list = self.client.list_all(place.clone(), options).await;
        for object in list.with_context(|| format!("error pruning {}", resource.gvr.resource))?.items {
            if !is_pruned(&object, kept) {
                continue;
            }
            let mut object = Object::clone(&object);
            object.set_gvk(&resource.gvk());
            if self.dry_run != DryRun::Client {
                let options = DeleteOptions {
                    propagation_policy: Some(PropagationPolicy::Background),
                    dry_run: self.dry_run == DryRun::Server,
                    ..DeleteOptions::default()
                };
                let namespaced = || ResourceRef::namespaced(&resource.gvr, object.namespace(), object.name());
                let target =
                    if resource.namespaced { namespaced() } else { ResourceRef::cluster(&resource.gvr, object.name()) };
                match self.client.delete(target, options).await {
                    Err(status) if !status.is_not_found() => return Err(status.into()),
                    _ => {}
                }
            }
            printer.print(&object, "pruned")?;
        }
        Ok(())
    }
}

/// An object that was applied, and is neither kept nor on its way out.
fn is_pruned(object: &Object, kept: &BTreeSet<&str>) -> bool {
    object.annotation(LAST_APPLIED).is_some() && !kept.contains(object.uid()) && !object.is_deleting()
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use object::builtin;
    use serde_json::json;

    use super::*;
    use crate::console::testing;
    use crate::outcome::OutcomeArgs;

    fn config_map(name: &str, applied: bool, labels: serde_json::Value) -> Object {
        let annotations = if applied { json!({LAST_APPLIED: "{}"}) } else { json!({}) };
        let metadata = json!({"name": name, "namespace": "shop", "annotations": annotations, "labels": labels});
        Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
    }

    /// `kept` was applied now, `old` before; `other` was not applied, and `alien` has another label.
    async fn check(args: &PruneArgs, selector: Option<&str>, dry_run: DryRun, printed: &str, left: &[&str]) {
        let api = MemoryApi::default();
        let maps = builtin::config_maps();
        let kept = api.seed(&maps, config_map("kept", true, json!({"app": "web"})));
        for object in [
            config_map("old", true, json!({"app": "web"})),
            config_map("other", false, json!({"app": "web"})),
            config_map("alien", true, json!({})),
        ] {
            api.seed(&maps, object);
        }
        let client = api.client();
        let known = ApiResources::discover(&client).await.unwrap();
        let (console, out, _) = testing::console();
        let outcome = OutcomeArgs { dry_run, ..OutcomeArgs::default() };
        let mut printer = Printer::new(&console, &outcome).unwrap();
        let namespace = Namespace { name: "shop", is_given: false };
        let pruning = Pruning { client: &client, known: &known, args, selector, dry_run, namespace };
        pruning.run(&mut printer, &[Object::clone(&kept)]).await.unwrap();
        assert_eq!(out.text(), printed);
        let list = client.list_all(ResourceRef::within(&maps, "shop"), ListOptions::default()).await.unwrap();
        assert_eq!(list.items.iter().map(|object| object.name()).collect::<Vec<_>>(), left);
    }

    #[tokio::test]
    async fn what_was_applied_before_is_pruned() {
        let only_maps =
            PruneArgs { prune: true, prune_allowlist: vec!["core/v1/ConfigMap".to_owned()], ..PruneArgs::default() };
        let all = PruneArgs { all: true, ..only_maps.clone() };
        check(&only_maps, Some("app=web"), DryRun::None, "configmap/old pruned\n", &["alien", "kept", "other"]).await;
        check(&all, None, DryRun::None, "configmap/alien pruned\nconfigmap/old pruned\n", &["kept", "other"]).await;
        let printed = "configmap/old pruned (dry run)\n";
        check(&only_maps, Some("app=web"), DryRun::Client, printed, &["alien", "kept", "old", "other"]).await;
    }

    #[test]
    fn pruning_needs_a_selector_or_all() {
        let prune = PruneArgs { prune: true, ..PruneArgs::default() };
        assert!(prune.check(None).unwrap_err().to_string().contains("--all"));
        assert!(prune.check(Some("a=b")).is_ok());
        assert!(PruneArgs { all: true, ..prune.clone() }.check(None).is_ok());
        assert!(PruneArgs { all: true, ..prune }.check(Some("a=b")).is_err());
        let unclear = PruneArgs { prune_allowlist: vec!["v1/ConfigMap".to_owned()], ..PruneArgs::default() };
        assert!(unclear.check(None).unwrap_err().to_string().contains("<group/version/kind>"));
    }
}
