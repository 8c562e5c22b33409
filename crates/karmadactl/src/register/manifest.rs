//! `agent manifest`: what an agent is in its cluster, as YAML for a repository, without asking anybody.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::Args;
use cluster_client::Kubeconfig;

use crate::console::Console;
use crate::join::check_name;
use crate::register::manifests::{self, AgentFlags, Installation, KUBECONFIG_SECRET, PlaneAccess};
use crate::whereabouts::WhereaboutsArgs;

/// Print the manifests of an agent: namespace, service account, rights, secret and Deployment.
///
/// Nothing is asked and nothing is changed, in the control plane or in the cluster.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The kubeconfig is in a secret of its own, encrypted in the repository with SOPS
  flotilla agent manifest --cluster-name robbinsdale --kubeconfig-secret karmada-kubeconfig > agent.yaml

  # All in one, as `kubectl apply` takes it
  flotilla agent manifest --cluster-name robbinsdale --karmada-kubeconfig robbinsdale.config | kubectl apply -f -

The kubeconfig is what `flotilla register --print-manifest-only` makes. The key in its secret is karmada-kubeconfig.")]
pub struct ManifestArgs {
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Kubeconfig of the control plane, to be put into the secret
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig_secret")]
    karmada_kubeconfig: Option<PathBuf>,
    /// Secret that holds it already, or will [default: karmada-kubeconfig]
    #[arg(long, value_name = "NAME")]
    kubeconfig_secret: Option<String>,
    /// Namespace of the agent in the cluster
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Namespace in the control plane where the cluster's secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// Where others reach the cluster's API, when they can
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    cluster_api_endpoint: String,
    #[command(flatten)]
    whereabouts: WhereaboutsArgs,
    /// Proxy through which others reach the cluster
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// Image of the agent; it must have `flotilla` in its path
    #[arg(long, default_value = manifests::IMAGE, value_name = "IMAGE")]
    image: String,
    /// Agents to run; one of them works
    #[arg(long, default_value_t = 1, value_name = "N")]
    replicas: u32,
    /// A further flag of `flotilla agent`, like --agent-flag=--tunnel=false; may be given several times
    #[arg(long = "agent-flag", value_name = "FLAG", allow_hyphen_values = true)]
    flags: Vec<String>,
}

pub fn run(console: &Console, args: &ManifestArgs) -> anyhow::Result<()> {
    super::print(console, &args.installation()?)
}

impl ManifestArgs {
    fn installation(&self) -> anyhow::Result<Installation> {
        check_name(&self.cluster_name)?;
        if let Some(flag) = self.flags.iter().find(|flag| !flag.starts_with("--")) {
            bail!("--agent-flag: {flag:?} is not a flag; say it like --agent-flag=--tunnel=false");
        }
        let flags = AgentFlags {
            cluster_name: &self.cluster_name,
            cluster_api_endpoint: &self.cluster_api_endpoint,
            whereabouts: &self.whereabouts,
            proxy_server_address: &self.proxy_server_address,
            cluster_namespace: &self.cluster_namespace,
            namespace: &self.namespace,
        };
        let mut arguments = flags.arguments();
        arguments.extend(self.flags.iter().cloned());
        Ok(Installation {
            namespace: self.namespace.clone(),
            kubeconfig: self.access()?,
            image: self.image.clone(),
            replicas: self.replicas,
            arguments,
        })
    }

    fn access(&self) -> anyhow::Result<PlaneAccess> {
        let Some(path) = &self.karmada_kubeconfig else {
            let name = self.kubeconfig_secret.as_deref().unwrap_or(KUBECONFIG_SECRET);
            return Ok(PlaneAccess::Secret(name.to_owned()));
        };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // What no agent could use is better noticed here than in a pod that does not start.
        let parsed = Kubeconfig::parse(&text, std::path::Path::new("/"))?;
        parsed.remote(None).with_context(|| format!("{} is of no use to an agent", path.display()))?;
        Ok(PlaneAccess::Given(text))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use object::Object;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ManifestArgs,
    }

    #[track_caller]
    fn objects(flags: &[&str]) -> Vec<Object> {
        let line = ["manifest", "--cluster-name", "ottawa"].iter().chain(flags);
        let line = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
        line.args.installation().expect("an installation").objects()
    }

    #[test]
    fn a_secret_made_elsewhere_is_only_named_and_flags_reach_the_agent() {
        let objects = objects(&["--kubeconfig-secret=sealed", "--cluster-zones=a,b", "--agent-flag=--tunnel=false"]);
        let kinds: Vec<&str> = objects.iter().map(Object::kind).collect();
        assert_eq!(kinds, ["Namespace", "ClusterRole", "ServiceAccount", "ClusterRoleBinding", "Deployment"]);
        let arguments = &objects[4].items(&["spec", "template", "spec", "containers"])[0]["args"];
        for flag in ["--cluster-zones=a,b", "--tunnel=false", "--karmada-kubeconfig-secret=sealed"] {
            assert!(arguments.as_array().is_some_and(|list| list.iter().any(|found| found == flag)), "{arguments}");
        }
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_refused() {
        let line = ["manifest", "--cluster-name=ottawa", "--karmada-kubeconfig=/dev/null"];
        let line = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
        assert!(line.args.installation().is_err());
    }
}
