//! Commands of kubectl: run by the `kubectl` on PATH against the control plane or a member.

mod locate;

use std::ffi::OsString;
use std::io::{Read, Write};
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
use crate::kubectl::locate::PodTarget;
use crate::plane::{PlaneArgs, PlaneClient, proxy_url};
use crate::scope::{self, Scope};

/// Arguments that are passed to kubectl, except for those that select the cluster.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Runs `kubectl` with these arguments against the control plane or a member."
)]
pub struct KubectlArgs {
    /// Arguments of kubectl
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// The arguments that select the cluster, and the rest.
#[derive(Debug, Default, PartialEq)]
struct Split {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    testbed: Option<String>,
    scope: Scope,
    clusters: Vec<String>,
    all_clusters: bool,
    rest: Vec<OsString>,
}

/// The clusters a command can run against.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// The control plane only.
    Plane,
    /// The control plane or a member.
    PlaneOrMember,
    /// A member: there are no pods in a control plane. Without `-C` the members with the pod are found.
    Member,
    /// The control plane, with policies that propagate the applied objects.
    Placed,
}

pub async fn run(console: &Console, command: &str, targets: Targets, args: KubectlArgs) -> anyhow::Result<()> {
    let split = Split::of(args.arguments, targets)?;
    if split.wants_help() {
        console.print(&targets.help(console, command))?;
        // kubectl's own help is optional: it may not be installed.
        return match kubectl(console) {
            Ok(path) => exit(Process::new(path).arg(command).arg("--help")),
            Err(_) => Ok(()),
        };
    }
    let plane = PlaneClient::open(&split.plane_args())?;
    let member = match split.member(targets)? {
        None if targets == Targets::Member => Some(split.locate(console, &plane).await?),
        member => member,
    };
    if let Some(member) = &member {
        plane.existing_member(member).await.map_err(|error| plane.explain(error))?;
    }
    let is_placed = split.all_clusters || (targets == Targets::Placed && !split.clusters.is_empty());
    let input = if is_placed && split.reads_stdin() { Some(read_stdin()?) } else { None };
    let policies = if is_placed { split.plan_policies(console, &plane, input.as_deref()).await? } else { Vec::new() };
    let mut process = split.process(console, &plane, member.as_deref())?;
    process.arg(command).args(&split.rest);
    if !is_placed {
        return exit(&mut process);
    }
    match &input {
        None => exit_unless_successful(&mut process)?,
        Some(input) => check_exit(feed(&mut process, input)?.status)?,
    }
    for policy in policies {
        apply_policy(console, &plane, policy).await.map_err(|error| plane.explain(error))?;
    }
    Ok(())
}

/// Returns the path of kubectl, or an error with how to install it.
fn kubectl(console: &Console) -> anyhow::Result<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join("kubectl")).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "this command needs kubectl, which is not on PATH. Install it (https://kubernetes.io/docs/tasks/tools), or use \
             the commands of {} that do not need it: get, describe, promote, cordon, taint …",
            console.program
        )
    })
}

fn exit(process: &mut Process) -> anyhow::Result<()> {
    exit_unless_successful(process)
}

/// Runs kubectl, and exits with its code: it has printed its own error.
fn exit_unless_successful(process: &mut Process) -> anyhow::Result<()> {
    check_exit(process.status().context("cannot start kubectl")?)
}

/// Reads the manifests of `-f -`, which kubectl gets twice.
fn read_stdin() -> anyhow::Result<Vec<u8>> {
    let mut input = Vec::new();
    std::io::stdin().lock().read_to_end(&mut input).context("cannot read the standard input")?;
    Ok(input)
}

/// Runs kubectl with this standard input.
fn feed(process: &mut Process, input: &[u8]) -> anyhow::Result<std::process::Output> {
    let mut child = process.stdin(Stdio::piped()).spawn().context("cannot start kubectl")?;
    let mut pipe = child.stdin.take().context("kubectl has no standard input")?;
    let output = std::thread::scope(|scope| {
        // A kubectl that exits early closes the pipe; its exit code says why.
        scope.spawn(move || drop(pipe.write_all(input)));
        child.wait_with_output()
    });
    output.context("cannot run kubectl")
}

fn check_exit(status: std::process::ExitStatus) -> anyhow::Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Exit(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)).into())
}

impl Targets {
    /// Returns the help of the flags that are added to kubectl's.
    fn help(self, console: &Console, command: &str) -> String {
        let flags = match self {
            Self::Plane => "",
            Self::PlaneOrMember => {
                "  -s, --operation-scope <SCOPE>    karmada (default) or members\n  \
                 -C, --cluster <NAME>             Member, with -s members\n"
            }
            Self::Member => {
                "  -C, --cluster <NAME>             Member [default: the first member with the pod or workload]\n"
            }
            Self::Placed => {
                "  -C, --cluster <NAME,...>         Propagate the applied objects to these members\n      \
                 --all-clusters               Propagate the applied objects to all members\n"
            }
        };
        format!(
            "Usage: {} {command} [OPTIONS]\n\n\
             Options in addition to those of kubectl:\n      \
             --kubeconfig <FILE>          Kubeconfig of the control plane\n      \
             --karmada-context <CONTEXT>  Context in that kubeconfig\n      \
             --name <TESTBED>             Use the control plane of this testbed\n{flags}\n\
             Options and examples of kubectl:\n\n",
            console.program
        )
    }
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
                "--name" => split.testbed = Some(value()?),
                "-s" | "--operation-scope" if matches!(targets, Targets::PlaneOrMember | Targets::Member) => {
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

    /// Returns the selected member; `None` for the control plane, or when none is selected.
    fn member(&self, targets: Targets) -> anyhow::Result<Option<String>> {
        if self.all_clusters && !self.clusters.is_empty() {
            bail!("--all-clusters and --cluster cannot be used together");
        }
        match (targets, &self.clusters[..]) {
            (Targets::Plane | Targets::Placed, _) => Ok(None),
            (Targets::Member, [one]) => Ok(Some(one.clone())),
            (Targets::Member, []) => Ok(None),
            (Targets::PlaneOrMember, clusters) if clusters.len() <= 1 => {
                let member = scope::single_member(self.scope, clusters.first().map(String::as_str))?;
                Ok(member.map(str::to_owned))
            }
            _ => bail!("only one cluster can be given"),
        }
    }

    /// Prepares kubectl for the control plane, or for a member through its proxy.
    fn process(&self, console: &Console, plane: &PlaneClient, member: Option<&str>) -> anyhow::Result<Process> {
        let mut process = Process::new(kubectl(console)?);
        let source = self.plane_args().source()?;
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

    fn plane_args(&self) -> PlaneArgs {
        let (kubeconfig, karmada_context) = (self.kubeconfig.clone(), self.context.clone());
        PlaneArgs { kubeconfig, karmada_context, testbed: self.testbed.clone() }
    }

    /// Returns true if the manifests come from the standard input.
    fn reads_stdin(&self) -> bool {
        self.rest.iter().any(|argument| ["-", "-f-", "-f=-", "--filename=-"].iter().any(|stdin| argument == stdin))
    }

    /// Returns true if `--help` or `-h` comes before the command of `exec`.
    fn wants_help(&self) -> bool {
        let own = self.rest.iter().take_while(|argument| *argument != "--");
        own.into_iter().any(|argument| argument == "--help" || argument == "-h")
    }

    /// Finds the member with the pod or workload, and prints which one is used if there are several.
    async fn locate(&self, console: &Console, plane: &PlaneClient) -> anyhow::Result<String> {
        let Some(target) = PodTarget::parse(&self.rest) else {
            bail!("must specify a cluster with -C CLUSTER: the arguments name no pod or workload")
        };
        let clusters = target.clusters(plane).await.map_err(|error| plane.explain(error))?;
        match &clusters[..] {
            [] => bail!("{} not found in any reachable cluster; use -C CLUSTER to select one", target.describe()),
            [one] => Ok(one.clone()),
            [first, others @ ..] => {
                console.note(format!("Defaulted cluster {first:?} out of: {first}, {}", others.join(", ")));
                Ok(first.clone())
            }
        }
    }

    /// Plans a policy for every object that is about to be applied.
    async fn plan_policies(
        &self,
        console: &Console,
        plane: &PlaneClient,
        input: Option<&[u8]>,
    ) -> anyhow::Result<Vec<Object>> {
        let existing = plane.clusters().await.map_err(|status| plane.explain(status.into()))?;
        for cluster in &self.clusters {
            if !existing.iter().any(|known| known.name() == cluster) {
                bail!("cluster {cluster} does not exist");
            }
        }
        let mut process = self.process(console, plane, None)?;
        process.arg("apply").args(&self.rest).args(["--dry-run=client", "-o", "json"]).stderr(Stdio::inherit());
        let output = match input {
            None => process.output().context("cannot start kubectl")?,
            Some(input) => feed(process.stdout(Stdio::piped()), input)?,
        };
        if !output.status.success() {
            return Err(Exit(1).into());
        }
        let answer: Value = serde_json::from_slice(&output.stdout).context("kubectl did not print JSON")?;
        let objects = match answer["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![answer],
        };
        let objects = objects.into_iter().filter_map(Object::from_value);
        Ok(objects.map(|object| policy_for(&object, &self.clusters)).collect())
    }
}

/// Builds the policy that propagates one object to the given clusters, or to all.
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

async fn apply_policy(console: &Console, plane: &PlaneClient, policy: Object) -> anyhow::Result<()> {
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
    fn arguments_that_select_the_cluster_are_removed() {
        let one = split("nginx-1 -n x --kubeconfig=k -C m1 -f --tail 5", Targets::Member);
        assert_eq!(one.kubeconfig, Some("k".into()));
        assert_eq!(one.member(Targets::Member).unwrap().as_deref(), Some("m1"));
        assert_eq!(rest(&one), "nginx-1 -n x -f --tail 5");

        for line in ["-s members --cluster m1 -it nginx-1 -- sh -C -s", "-C m1 -it nginx-1 -- sh -C -s"] {
            let exec = split(line, Targets::Member);
            assert_eq!(exec.member(Targets::Member).unwrap().as_deref(), Some("m1"));
            assert_eq!(rest(&exec), "-it nginx-1 -- sh -C -s");
        }

        let apply = split("-f a.yaml --all-clusters --karmada-context c", Targets::Placed);
        assert!(apply.all_clusters);
        assert_eq!((apply.context.as_deref(), rest(&apply).as_str()), (Some("c"), "-f a.yaml"));
        assert!(!apply.reads_stdin() && split("-f - -n x", Targets::Placed).reads_stdin());
        assert_eq!(split("-f a.yaml --name nc1", Targets::Placed).plane_args().flags(), " --name nc1");

        let label = split("deploy nginx a=b -C kept", Targets::Plane);
        assert_eq!(rest(&label), "deploy nginx a=b -C kept");
    }

    #[test]
    fn conflicting_clusters_are_rejected() {
        assert_eq!(split("nginx", Targets::Member).member(Targets::Member).unwrap(), None);
        assert!(split("nginx -C a,b", Targets::Member).member(Targets::Member).is_err());
        let error = split("nginx -s members", Targets::PlaneOrMember).member(Targets::PlaneOrMember).unwrap_err();
        assert!(error.to_string().starts_with("must specify a member cluster"));
        assert!(Split::of(vec!["--kubeconfig".into()], Targets::Plane).is_err());
        let both = split("--all-clusters -C a", Targets::Placed);
        assert!(both.member(Targets::Placed).is_err());
    }

    #[test]
    fn help_is_printed_before_clusters_are_checked_and_names_our_flags() {
        let (console, _, _) = crate::console::testing::console();
        for (line, is_help) in [("--help", true), ("-h", true), ("web -- ls --help", false), ("web", false)] {
            assert_eq!(split(line, Targets::Member).wants_help(), is_help, "{line}");
        }
        for (targets, flag, is_there) in [
            (Targets::Member, "-C, --cluster", true),
            (Targets::Placed, "--all-clusters", true),
            (Targets::PlaneOrMember, "-s, --operation-scope", true),
            (Targets::Plane, "-C, --cluster", false),
            (Targets::Plane, "--karmada-context", true),
        ] {
            let help = targets.help(&console, "logs");
            assert_eq!(help.contains(flag), is_there, "{help}");
            assert!(help.contains("flotilla logs") && !help.contains("kubectl logs"), "{help}");
        }
    }

    #[test]
    fn every_applied_object_gets_its_own_policy() {
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
