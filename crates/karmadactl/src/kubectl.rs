//! Commands that are kubectl's own: they are handed to the `kubectl` on PATH, pointed at the control plane or a member.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};

use anyhow::{Context, bail};
use api::policy::{CLUSTER_PROPAGATION_POLICIES, PROPAGATION_POLICIES};
use clap::Args;
use cluster_client::ResourceRef;
use object::Object;
use serde_json::{Value, json};

use crate::Exit;
use crate::console::Console;
use crate::plane::{KubeconfigSource, Plane, PlaneArgs, proxy_url};
use crate::scope::{self, Scope};

/// Everything after the command's name goes to kubectl, apart from what says which cluster.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "\
Runs `kubectl` with these arguments against the control plane. Added to kubectl's own flags:
      --kubeconfig <FILE>          Which control plane
      --karmada-context <CONTEXT>  Which context of that kubeconfig
  -s, --operation-scope <SCOPE>    karmada (default) or members
  -C, --cluster <NAME>             The member, with -s members"
)]
pub struct KubectlArgs {
    /// Arguments of kubectl
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// What was taken out of the arguments, and the rest.
#[derive(Debug, Default, PartialEq)]
struct Split {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    scope: Scope,
    clusters: Vec<String>,
    all_clusters: bool,
    rest: Vec<OsString>,
}

/// How a command reads `-C` and `-s`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// The control plane only.
    Plane,
    /// The control plane or a member.
    PlaneOrMember,
    /// A member; there is nothing of the kind in a control plane.
    Member,
    /// The control plane, with policies that place what is applied.
    Placed,
}

pub async fn run(console: &Console, command: &str, targets: Targets, args: KubectlArgs) -> anyhow::Result<()> {
    let split = Split::of(args.arguments, targets)?;
    let member = split.member(targets)?;
    if split.rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return exit(Process::new(kubectl(console)?).arg(command).args(&split.rest));
    }
    let plane_args = PlaneArgs { kubeconfig: split.kubeconfig.clone(), karmada_context: split.context.clone() };
    let plane = Plane::open(&plane_args)?;
    if let Some(member) = &member {
        plane.existing_member(member).await.map_err(|error| plane.explain(error))?;
    }
    let is_placed = split.all_clusters || (targets == Targets::Placed && !split.clusters.is_empty());
    let policies = if is_placed { split.plan_policies(console, &plane).await? } else { Vec::new() };
    let mut process = split.process(console, &plane, member.as_deref())?;
    process.arg(command).args(&split.rest);
    if !is_placed {
        return exit(&mut process);
    }
    exit_unless_successful(&mut process)?;
    for policy in policies {
        apply_policy(console, &plane, policy).await.map_err(|error| plane.explain(error))?;
    }
    Ok(())
}

/// Where kubectl is, or how to get it.
fn kubectl(console: &Console) -> anyhow::Result<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join("kubectl")).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "this command is kubectl's, and there is no kubectl on PATH. Install it (https://kubernetes.io/docs/tasks/tools), \
             or use what {} has itself: get, describe, promote, cordon, taint …",
            console.program
        )
    })
}

fn exit(process: &mut Process) -> anyhow::Result<()> {
    exit_unless_successful(process)
}

/// kubectl has said what was wrong; its code is ours.
fn exit_unless_successful(process: &mut Process) -> anyhow::Result<()> {
    let status = process.status().context("cannot start kubectl")?;
    if status.success() {
        return Ok(());
    }
    Err(Exit(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)).into())
}

impl Split {
    fn of(arguments: Vec<OsString>, targets: Targets) -> anyhow::Result<Self> {
        let mut split = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some(text) = argument.to_str().map(str::to_owned) else {
                split.rest.push(argument);
                continue;
            };
            if text == "--" {
                split.rest.push(argument);
                split.rest.extend(arguments);
                break;
            }
            let (flag, given) = match text.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (text.clone(), None),
            };
            let mut value = || {
                let next = given.clone().or_else(|| arguments.next()?.into_string().ok());
                next.with_context(|| format!("flag needs an argument: {flag}"))
            };
            match flag.as_str() {
                "--kubeconfig" => split.kubeconfig = Some(value()?.into()),
                "--karmada-context" | "--context" => split.context = Some(value()?),
                "-s" | "--operation-scope" if targets == Targets::PlaneOrMember => {
                    split.scope = scope::parse(&value()?).map_err(anyhow::Error::msg)?;
                }
                "-C" | "--cluster" | "--clusters" if targets != Targets::Plane => {
                    split.clusters.extend(value()?.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
                }
                "--all-clusters" if targets == Targets::Placed => {
                    split.all_clusters = given.is_none_or(|value| value == "true");
                }
                _ => split.rest.push(argument),
            }
        }
        Ok(split)
    }

    /// The member that is meant, if one is.
    fn member(&self, targets: Targets) -> anyhow::Result<Option<String>> {
        if self.all_clusters && !self.clusters.is_empty() {
            bail!("--all-clusters and --cluster cannot be used together");
        }
        match (targets, &self.clusters[..]) {
            (Targets::Plane | Targets::Placed, _) => Ok(None),
            (Targets::Member, [one]) => Ok(Some(one.clone())),
            (Targets::Member, []) => bail!("must specify a cluster; say which with -C CLUSTER"),
            (Targets::PlaneOrMember, clusters) if clusters.len() <= 1 => {
                let member = scope::single_member(self.scope, clusters.first().map(String::as_str))?;
                Ok(member.map(str::to_owned))
            }
            _ => bail!("only one cluster can be given"),
        }
    }

    /// kubectl, pointed at the control plane or at a member behind it.
    fn process(&self, console: &Console, plane: &Plane, member: Option<&str>) -> anyhow::Result<Process> {
        let mut process = Process::new(kubectl(console)?);
        let source = KubeconfigSource::find(self.kubeconfig.as_deref());
        match &source.paths[..] {
            [one] => {
                process.arg("--kubeconfig").arg(one);
            }
            several => {
                process.env("KUBECONFIG", std::env::join_paths(several)?);
            }
        }
        if let Some(context) = &self.context {
            process.arg("--context").arg(context);
        }
        if let Some(member) = member {
            process.arg("--server").arg(proxy_url(plane.server().unwrap_or_default(), member));
        }
        Ok(process)
    }

    /// A policy for every object that is about to be applied.
    async fn plan_policies(&self, console: &Console, plane: &Plane) -> anyhow::Result<Vec<Object>> {
        let existing = plane.clusters().await.map_err(|status| plane.explain(status.into()))?;
        for cluster in &self.clusters {
            if !existing.iter().any(|known| known.name() == cluster) {
                bail!("cluster {cluster} does not exist");
            }
        }
        if self.rest.iter().any(|argument| argument == "-") {
            bail!("with --cluster or --all-clusters the manifests are read twice: give files, not -f -");
        }
        let mut process = self.process(console, plane, None)?;
        process.arg("apply").args(&self.rest).args(["--dry-run=client", "-o", "json"]).stderr(Stdio::inherit());
        let output = process.output().context("cannot start kubectl")?;
        if !output.status.success() {
            return Err(Exit(1).into());
        }
        let answer: Value = serde_json::from_slice(&output.stdout).context("kubectl did not answer in JSON")?;
        let objects = match answer["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![answer],
        };
        let objects = objects.into_iter().filter_map(Object::from_value);
        Ok(objects.map(|object| policy_for(&object, &self.clusters)).collect())
    }
}

/// Places one object on some clusters, or on all when none are named.
fn policy_for(object: &Object, clusters: &[String]) -> Object {
    let (namespace, gvk) = (object.namespace(), object.gvk());
    let name = api::names::policy_name(namespace, object.name(), &gvk.to_string());
    let kind = if namespace.is_empty() { &CLUSTER_PROPAGATION_POLICIES } else { &PROPAGATION_POLICIES };
    let mut policy = kind.object(namespace, &name);
    let mut selector = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "name": object.name()});
    if !namespace.is_empty() {
        selector["namespace"] = namespace.into();
    }
    let affinity = if clusters.is_empty() { json!({}) } else { json!({"clusterNames": clusters}) };
    policy.set(&["spec"], json!({"resourceSelectors": [selector], "placement": {"clusterAffinity": affinity}}));
    policy
}

async fn apply_policy(console: &Console, plane: &Plane, policy: Object) -> anyhow::Result<()> {
    let (kind, name) = (policy.kind().to_lowercase(), policy.name().to_owned());
    let gvr = match policy.namespace() {
        "" => CLUSTER_PROPAGATION_POLICIES.gvr(),
        _ => PROPAGATION_POLICIES.gvr(),
    };
    let target = match policy.namespace() {
        "" => ResourceRef::cluster(&gvr, &name),
        namespace => ResourceRef::namespaced(&gvr, namespace, &name),
    };
    let existed = plane.client.find(target.clone()).await?.is_some();
    plane.client.apply(target, policy, "karmadactl").await?;
    let word = if existed { "configured" } else { "created" };
    console.line(format!("{kind}.policy.karmada.io/{name} {word}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, targets: Targets) -> Split {
        Split::of(text.split_whitespace().map(OsString::from).collect(), targets).unwrap()
    }

    fn rest(split: &Split) -> String {
        split.rest.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_says_which_cluster_is_taken_out() {
        let one = split("nginx-1 -n x --kubeconfig=k -C m1 -f --tail 5", Targets::Member);
        assert_eq!(one.kubeconfig, Some("k".into()));
        assert_eq!(one.member(Targets::Member).unwrap().as_deref(), Some("m1"));
        assert_eq!(rest(&one), "nginx-1 -n x -f --tail 5");

        let exec = split("-s members --cluster m1 -it nginx-1 -- sh -C -s", Targets::PlaneOrMember);
        assert_eq!(exec.member(Targets::PlaneOrMember).unwrap().as_deref(), Some("m1"));
        assert_eq!(rest(&exec), "-it nginx-1 -- sh -C -s");

        let apply = split("-f a.yaml --all-clusters --karmada-context c", Targets::Placed);
        assert!(apply.all_clusters);
        assert_eq!((apply.context.as_deref(), rest(&apply).as_str()), (Some("c"), "-f a.yaml"));

        let label = split("deploy nginx a=b -C kept", Targets::Plane);
        assert_eq!(rest(&label), "deploy nginx a=b -C kept");
    }

    #[test]
    fn a_member_must_be_named_where_one_is_needed() {
        let error = split("nginx", Targets::Member).member(Targets::Member).unwrap_err();
        assert!(error.to_string().starts_with("must specify a cluster"));
        let error = split("nginx -s members", Targets::PlaneOrMember).member(Targets::PlaneOrMember).unwrap_err();
        assert!(error.to_string().starts_with("must specify a member cluster"));
        assert!(Split::of(vec!["--kubeconfig".into()], Targets::Plane).is_err());
        let both = split("--all-clusters -C a", Targets::Placed);
        assert!(both.member(Targets::Placed).is_err());
    }

    #[test]
    fn what_is_applied_gets_a_policy_of_its_own() {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
        let policy = policy_for(&Object::from_value(object).unwrap(), &["m1".into()]);
        assert_eq!(policy.kind(), "ClusterPropagationPolicy");
        assert_eq!(policy.get(&["spec", "placement"]), Some(&json!({"clusterAffinity": {"clusterNames": ["m1"]}})));
        let object =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "x"}});
        let policy = policy_for(&Object::from_value(object).unwrap(), &[]);
        assert_eq!((policy.kind(), policy.namespace()), ("PropagationPolicy", "x"));
        assert_eq!(policy.get(&["spec", "placement"]), Some(&json!({"clusterAffinity": {}})));
        assert_eq!(policy.name(), api::names::policy_name("x", "web", "apps/v1, Kind=Deployment"));
    }
}
