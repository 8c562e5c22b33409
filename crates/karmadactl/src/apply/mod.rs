//! `apply`: makes objects of the control plane like manifests, as kubectl does, and propagates them with `-C`.

mod policies;
mod prune;
mod three_way;

use std::collections::BTreeMap;

use anyhow::bail;
use clap::Args;
use cluster_client::{ApiRequest, ApiResources, ClusterClient, Patch, PatchKind};
use object::{GroupVersion, Object, Status};
use serde_json::Value;

use crate::console::Console;
use crate::files::FileArgs;
use crate::openapi::Document;
use crate::outcome::{self, DryRun, OutcomeArgs, Printer, when};
use crate::output;
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::selection::{self, Namespace, Selected};

use prune::{PruneArgs, Pruning};
pub use three_way::plan_patch;

/// The manifest that was applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const CLIENT_MANAGER: &str = "kubectl-client-side-apply";
const SERVER_MANAGER: &str = "kubectl";
/// Attempts of a patch that conflicts with another change.
const TRIES_MAX: usize = 5;

const CONFLICT_ADVICE: &str = "\
Please review the fields above: other managers own them. To resolve the conflict
* take the fields over with `--force-conflicts`, or
* remove them from the manifest to leave them to their managers, or
* set them to their current values to own them together.";

/// Apply manifests to the control plane by file name or stdin, and propagate them into member clusters.
///
/// Objects that do not exist are created. With -C or --all-clusters, every applied object gets a policy that propagates
/// it to these members.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Apply the manifests in a directory
  flotilla apply -f manifests/

  # Apply a manifest and propagate its objects to two members, or to all
  flotilla apply -f web.yaml -C member1,member2
  flotilla apply -f web.yaml --all-clusters

  # Show what the server would store
  flotilla apply -f web.yaml --dry-run=server -o yaml")]
pub struct ApplyArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Propagate the applied objects to these members
    #[arg(short = 'C', long, visible_alias = "cluster", value_delimiter = ',', value_name = "NAME")]
    clusters: Vec<String>,
    /// Propagate the applied objects to all members
    #[arg(long, conflicts_with = "clusters")]
    all_clusters: bool,
    /// Only objects of the files with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Let the server merge the manifest (server-side apply)
    #[arg(long)]
    server_side: bool,
    /// With --server-side, take over fields of other managers
    #[arg(long, requires = "server_side")]
    force_conflicts: bool,
    /// Name of the owner of the fields [default: kubectl-client-side-apply, or kubectl with --server-side]
    #[arg(long, value_name = "NAME")]
    field_manager: Option<String>,
    /// Accepted for compatibility: the server always validates
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "strict", hide = true)]
    validate: Option<String>,
    #[command(flatten)]
    prune: PruneArgs,
    #[command(flatten)]
    outcome: OutcomeArgs,
}

pub async fn run(console: &Console, args: ApplyArgs) -> anyhow::Result<()> {
    args.check()?;
    let mut files = args.files.read(&console.program, "apply").await?;
    if let Some(selector) = &args.selector {
        let selector = object::selector::LabelSelector::parse(selector)?;
        files.retain(|file| selector.matches(&file.object));
    }
    let plane = PlaneClient::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let namespace = Namespace { name: &namespace, is_given: args.namespace.namespace.is_some() };
    let work = async {
        policies::check_clusters(&plane, &args.clusters).await?;
        let known = ApiResources::discover(&plane.client).await?;
        let objects = selection::from_files(files, &known, namespace)?;
        if objects.is_empty() {
            bail!("no objects passed to apply");
        }
        let applied = apply_all(console, &plane.client, &args, &objects).await?;
        let is_placed = args.all_clusters || !args.clusters.is_empty();
        if args.prune.prune {
            let (selector, dry_run) = (args.selector.as_deref(), args.outcome.dry_run);
            let pruning =
                Pruning { client: &plane.client, known: &known, args: &args.prune, selector, dry_run, namespace };
            pruning.run(&mut Printer::new(console, &args.outcome)?, &applied).await?;
        }
        if is_placed && args.outcome.dry_run == DryRun::None {
            policies::apply(console, &plane, &applied, &args.clusters).await?;
        }
        Ok(())
    };
    work.await.map_err(|error| plane.explain(error))
}

impl ApplyArgs {
    fn check(&self) -> anyhow::Result<()> {
        self.prune.check(self.selector.as_deref())?;
        if self.files.is_empty() {
            bail!("must specify one of -f and -k");
        }
        if self.server_side && self.outcome.dry_run == DryRun::Client {
            bail!("--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)");
        }
        Ok(())
    }

    fn manager(&self) -> &str {
        let default = if self.server_side { SERVER_MANAGER } else { CLIENT_MANAGER };
        self.field_manager.as_deref().unwrap_or(default)
    }
}

async fn apply_all(
    console: &Console,
    client: &ClusterClient,
    args: &ApplyArgs,
    objects: &[Selected],
) -> anyhow::Result<Vec<Object>> {
    let mut printer = Printer::new(console, &args.outcome)?;
    let mut apply = Apply { console, client, args, documents: BTreeMap::new() };
    let mut applied: Vec<Object> = Vec::new();
    let mut errors: Vec<anyhow::Error> = Vec::new();
    for one in objects {
        match apply.apply(one).await {
            Ok((object, operation)) => {
                if !printer.shows_objects() {
                    printer.print(&object, operation)?;
                }
                applied.push(object);
            }
            Err(error) => errors.push(error),
        }
    }
    match &applied[..] {
        _ if !printer.shows_objects() => {}
        [] => {}
        [one] => printer.print(one, "")?,
        several => printer.print_list(several)?,
    }
    outcome::finish(console, &errors)?;
    Ok(applied)
}

/// One run of the command.
struct Apply<'a> {
    console: &'a Console,
    client: &'a ClusterClient,
    args: &'a ApplyArgs,
    /// Documents of the server; `None` where it has none.
    documents: BTreeMap<String, Option<Document>>,
}

impl Apply<'_> {
    async fn apply(&mut self, one: &Selected) -> anyhow::Result<(Object, &'static str)> {
        if one.name.is_empty() {
            match one.object.generate_name() {
                "" => bail!("error when applying {:?}: resource name may not be empty", one.source),
                generated => bail!("from {generated}: cannot use generate name with apply"),
            }
        }
        if self.args.server_side {
            return self.on_server(one).await;
        }
        let modified = with_last_applied(&one.object);
        match self.client.find(one.target()).await {
            Ok(None) => self.create(one, without_nulls(modified)).await,
            Ok(Some(live)) => self.change(one, modified, Object::clone(&live)).await,
            Err(status) => Err(when(status, "retrieving current configuration of", &one.source).into()),
        }
    }

    async fn on_server(&self, one: &Selected) -> anyhow::Result<(Object, &'static str)> {
        let patch = Patch::apply(one.object.clone(), self.args.force_conflicts);
        let options = self.args.outcome.dry_run.write_options(self.args.manager());
        let sent = outcome::send(self.console, self.client, one.target(), ApiRequest::Patch { patch, options }).await;
        let reply = sent.map_err(|status| match status.is_conflict() {
            true => Status { message: format!("{}\n{CONFLICT_ADVICE}", status.message), ..status },
            false => status,
        })?;
        Ok((Object::clone(&*reply.into_object()?), "serverside-applied"))
    }

    async fn create(&self, one: &Selected, object: Object) -> anyhow::Result<(Object, &'static str)> {
        if self.args.outcome.dry_run == DryRun::Client {
            return Ok((object, "created"));
        }
        let options = self.args.outcome.dry_run.write_options(self.args.manager());
        let request = ApiRequest::Create { object, options };
        let reply = outcome::send(self.console, self.client, one.collection(), request).await;
        let reply = reply.map_err(|status| when(status, "creating", &one.source))?;
        Ok((Object::clone(&*reply.into_object()?), "created"))
    }

    async fn change(
        &mut self,
        one: &Selected,
        modified: Object,
        mut live: Object,
    ) -> anyhow::Result<(Object, &'static str)> {
        if live.annotation(LAST_APPLIED).is_none() {
            self.console.warn(missing_annotation(one, &self.console.program));
        }
        for attempt in 1..=TRIES_MAX {
            let patch = self.plan(one, &modified, &live).await;
            if patch.body.as_object().is_none_or(serde_json::Map::is_empty) {
                return Ok((live, "unchanged"));
            }
            if self.args.outcome.dry_run == DryRun::Client {
                let mut changed = live.to_value();
                object::patch::merge::apply(&mut changed, modified.as_value())?;
                return Ok((Object::from_value(changed).unwrap_or_default(), "configured"));
            }
            let options = self.args.outcome.dry_run.write_options(self.args.manager());
            let request = ApiRequest::Patch { patch, options };
            match outcome::send(self.console, self.client, one.target(), request).await {
                Ok(reply) => {
                    let changed = Object::clone(&*reply.into_object()?);
                    let is_same =
                        !changed.resource_version().is_empty() && changed.resource_version() == live.resource_version();
                    return Ok((changed, if is_same { "unchanged" } else { "configured" }));
                }
                Err(status) if status.is_conflict() && attempt < TRIES_MAX => {
                    live = Object::clone(&*self.client.get(one.target()).await?);
                }
                Err(status) => return Err(when(status, "applying patch for", &one.source).into()),
            }
        }
        bail!("error when applying {:?}: it was changed by others at the same time", one.source)
    }

    async fn plan(&mut self, one: &Selected, modified: &Object, live: &Object) -> Patch {
        let gvk = one.resource.gvk();
        let document = self.document(&gvk.group_version()).await;
        let schema = document.filter(|document| document.merges_strategically(&gvk)).and_then(|d| d.schema(&gvk));
        let original = live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let body = three_way::plan_patch(schema, original.as_ref(), modified.as_value(), live.as_value());
        Patch { kind: if schema.is_some() { PatchKind::Strategic } else { PatchKind::Merge }, body }
    }

    async fn document(&mut self, version: &GroupVersion) -> Option<&Document> {
        let key = version.to_string();
        if !self.documents.contains_key(&key) {
            let document = Document::read(self.client, version).await.ok();
            self.documents.insert(key.clone(), document);
        }
        self.documents.get(&key)?.as_ref()
    }
}

fn missing_annotation(one: &Selected, program: &str) -> String {
    format!(
        "{}/{} was not created by apply: the annotation {LAST_APPLIED} is missing and is added now. Use `{program} apply` \
         or `{program} create --save-config` for objects that are applied later",
        one.resource.gvr.resource, one.name
    )
}

/// Returns the manifest with itself in the annotation, in the form that kubectl writes.
pub fn with_last_applied(manifest: &Object) -> Object {
    let mut plain = manifest.clone();
    plain.remove(&["metadata", "annotations", LAST_APPLIED]);
    if plain.get(&["metadata", "annotations"]).is_none_or(Value::is_null) {
        plain.set(&["metadata", "annotations"], serde_json::Map::new());
    }
    let text = output::sort_keys(plain.as_value()).to_string();
    // Go escapes these characters in JSON.
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    plain.set_annotation(LAST_APPLIED, &(text + "\n"));
    plain
}

fn without_nulls(object: Object) -> Object {
    fn prune(value: &mut Value) {
        if let Value::Object(map) = value {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(prune);
        }
    }
    let mut value = object.into_value();
    prune(&mut value);
    Object::from_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotation_is_what_kubectl_writes() {
        let manifest =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": "<&>"}});
        let applied = with_last_applied(&Object::from_value(manifest).unwrap());
        let expected = "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"\\u003c\\u0026\\u003e\"},\"kind\":\"ConfigMap\",\
                        \"metadata\":{\"annotations\":{},\"name\":\"a\"}}\n";
        assert_eq!(applied.annotation(LAST_APPLIED), Some(expected));
        let again = with_last_applied(&applied);
        assert_eq!(again.annotation(LAST_APPLIED), Some(expected));
    }
}
