//! `agent manifest`: prints the manifests of an agent without contacting any cluster.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::Args;
use cluster_client::Kubeconfig;
use membership::agent_manifests::{self, AgentFlags, AgentInstallation, KUBECONFIG_SECRET, KubeconfigSecret};
use membership::cluster_name::check_name;

use crate::cluster_location::ClusterLocationArgs;
use crate::console::Console;

/// Print the manifests of an agent: namespace, service account, permissions, secret and Deployment.
///
/// Neither the control plane nor the cluster is contacted or changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The kubeconfig is in a separate secret, encrypted in the repository with SOPS
  flotilla agent manifest --cluster-name robbinsdale --kubeconfig-secret karmada-kubeconfig > agent.yaml

  # Include the kubeconfig secret
  flotilla agent manifest --cluster-name robbinsdale --karmada-kubeconfig robbinsdale.config | kubectl apply -f -

`flotilla register --print-manifest-only` creates the kubeconfig. The key in its secret is karmada-kubeconfig.")]
pub struct ManifestArgs {
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Kubeconfig of the control plane to store in the secret
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig_secret")]
    karmada_kubeconfig: Option<PathBuf>,
    /// Name of a secret that contains the kubeconfig [default: karmada-kubeconfig]
    #[arg(long, value_name = "NAME")]
    kubeconfig_secret: Option<String>,
    /// Namespace of the agent in the cluster
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Namespace in the control plane where the cluster's secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// URL at which the control plane reaches the cluster's API
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    cluster_api_endpoint: String,
    #[command(flatten)]
    location: ClusterLocationArgs,
    /// Proxy through which the control plane reaches the cluster
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// Image of the agent; it must have `flotilla` in its PATH
    #[arg(long, default_value = agent_manifests::IMAGE, value_name = "IMAGE")]
    image: String,
    /// Replicas of the agent; one is active at a time
    #[arg(long, default_value_t = 1, value_name = "N")]
    replicas: u32,
    /// Additional flag of `flotilla agent`, such as --agent-flag=--tunnel=false (can be repeated)
    #[arg(long = "agent-flag", value_name = "FLAG", allow_hyphen_values = true)]
    flags: Vec<String>,
}

pub fn run(console: &Console, args: &ManifestArgs) -> anyhow::Result<()> {
    super::print(console, &args.installation()?)
}

impl ManifestArgs {
    fn installation(&self) -> anyhow::Result<AgentInstallation> {
        check_name(&self.cluster_name)?;
        if let Some(flag) = self.flags.iter().find(|flag| !flag.starts_with("--")) {
            bail!("--agent-flag: {flag:?} is not a flag; use for example --agent-flag=--tunnel=false");
        }
        let location = self.location.location();
        let flags = AgentFlags {
            cluster_name: &self.cluster_name,
            cluster_api_endpoint: &self.cluster_api_endpoint,
            location: &location,
            proxy_server_address: &self.proxy_server_address,
            cluster_namespace: &self.cluster_namespace,
            namespace: &self.namespace,
        };
        let mut arguments = flags.arguments();
        arguments.extend(self.flags.iter().cloned());
        Ok(AgentInstallation {
            namespace: self.namespace.clone(),
            kubeconfig: self.kubeconfig()?,
            image: self.image.clone(),
            replicas: self.replicas,
            arguments,
        })
    }

    fn kubeconfig(&self) -> anyhow::Result<KubeconfigSecret> {
        let Some(path) = &self.karmada_kubeconfig else {
            let name = self.kubeconfig_secret.as_deref().unwrap_or(KUBECONFIG_SECRET);
            return Ok(KubeconfigSecret::Existing(name.to_owned()));
        };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // An invalid kubeconfig is reported here rather than by a pod that does not start.
        let parsed = Kubeconfig::parse(&text, std::path::Path::new("/"))?;
        parsed.remote(None).with_context(|| format!("{} cannot be used by an agent", path.display()))?;
        Ok(KubeconfigSecret::Create(text))
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
    fn an_existing_secret_is_only_referenced_and_flags_reach_the_agent() {
        let objects = objects(&["--kubeconfig-secret=sealed", "--cluster-zones=a,b", "--agent-flag=--tunnel=false"]);
        let kinds: Vec<&str> = objects.iter().map(Object::kind).collect();
        assert_eq!(kinds, ["Namespace", "ClusterRole", "ServiceAccount", "ClusterRoleBinding", "Deployment"]);
        let arguments = &objects[4].items(&["spec", "template", "spec", "containers"])[0]["args"];
        for flag in ["--cluster-zones=a,b", "--tunnel=false", "--karmada-kubeconfig-secret=sealed"] {
            assert!(arguments.as_array().is_some_and(|list| list.iter().any(|found| found == flag)), "{arguments}");
        }
    }

    #[test]
    fn an_invalid_kubeconfig_is_rejected() {
        let line = ["manifest", "--cluster-name=ottawa", "--karmada-kubeconfig=/dev/null"];
        let line = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
        assert!(line.args.installation().is_err());
    }
}
