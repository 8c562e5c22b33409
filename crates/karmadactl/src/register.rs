//! `register`: adds a cluster to the control plane in pull mode, with a bootstrap token or an administrator's kubeconfig.

pub mod manifest;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use api::Resource;
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::Args;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use membership::MemberAccess;
use membership::agent_manifests::{AgentInstallation, IMAGE, KUBECONFIG_SECRET};
use membership::cluster_name::check_name;
use membership::register::discovery::CaVerification;
use membership::register::{
    AgentDelivery, AgentDeployment, RegisterOptions, Registered, preflight, register, register_as_administrator,
};
use membership::token::BootstrapToken;
use object::yaml;

use crate::Exit;
use crate::cluster_location::ClusterLocationArgs;
use crate::console::Console;
use crate::durations;
use crate::membership_progress::to_anyhow;
use crate::plane::{PlaneArgs, PlaneClient, open_kubeconfig};

const NODES: Resource = Resource::cluster("", "v1", "Node", "nodes");
/// Label of simulated nodes.
const SIMULATED_NODE: &str = "flotilla.dev/simulated";

/// Flags of a registration by token.
const TOKEN_FLAGS: [&str; 3] = ["token", "discovery_token_ca_cert_hash", "discovery_token_unsafe_skip_ca_verification"];

/// Register a cluster to Karmada control plane with Pull mode.
///
/// Run it with access to the cluster to register. The control plane is verified by the hash of its CA and a signature made
/// with the token. The agent gets its own certificate, with access to this cluster's objects only.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # On the control plane: print the command to run, with a token for this cluster only
  flotilla token create --cluster member3 --print-register-command

  # With access to the cluster to register
  flotilla register 10.0.0.1:5443 --cluster-name member3 --token abcdef.0123456789abcdef \\
    --discovery-token-ca-cert-hash sha256:...

  # For GitOps: register the cluster, and print the agent's manifests instead of applying them
  flotilla register 10.0.0.1:5443 ... --print-manifest-only > agent.yaml

  # With administrator access to the control plane, no token is needed
  flotilla register --cluster-name member3 --karmada-kubeconfig karmada.config --print-manifest-only > agent.yaml")]
pub struct RegisterArgs {
    /// Address of the control plane [default with --karmada-kubeconfig: the server in it]
    #[arg(value_name = "HOST:PORT", required_unless_present = "karmada_kubeconfig")]
    server: Option<String>,
    /// Kubeconfig of an administrator of the control plane, instead of a token
    #[arg(long, value_name = "FILE", conflicts_with_all = TOKEN_FLAGS)]
    karmada_kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, value_name = "CONTEXT", requires = "karmada_kubeconfig")]
    karmada_context: Option<String>,
    /// Kubeconfig of the cluster to register [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in it [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Name of the cluster [default: the cluster of the kubeconfig's context]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Namespace of the agent in the cluster
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Namespace in the control plane where the cluster's secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    #[command(flatten)]
    location: ClusterLocationArgs,
    /// Bootstrap token, from `flotilla token create`
    #[arg(long, value_name = "TOKEN", required_unless_present = "karmada_kubeconfig")]
    token: Option<String>,
    /// Hash of the control plane's CA, like sha256:<hex>; any of several may match
    #[arg(long, value_delimiter = ',', value_name = "HASH")]
    discovery_token_ca_cert_hash: Vec<String>,
    /// Trust any server that can sign with the token, without verifying its CA
    #[arg(long)]
    discovery_token_unsafe_skip_ca_verification: bool,
    /// Timeout for the control plane, the certificates and the agent
    #[arg(long, default_value = "5m", value_parser = durations::parse, value_name = "DURATION")]
    discovery_timeout: Duration,
    /// Lifetime of the agent's certificate
    #[arg(long, default_value_t = 365 * 24 * 3600, value_name = "SECONDS")]
    cert_expiration_seconds: i32,
    /// Image of the agent; it must have `flotilla` in its PATH
    #[arg(long, default_value = IMAGE, value_name = "IMAGE")]
    karmada_agent_image: String,
    /// Replicas of the agent; one is active at a time
    #[arg(long, default_value_t = 1, value_name = "N")]
    karmada_agent_replicas: u32,
    /// Proxy through which the control plane reaches the cluster
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// Accepted for compatibility with karmadactl: agents always renew their certificates
    #[arg(long, hide = true)]
    enable_cert_rotation: bool,
    /// Check the cluster without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Print the agent's manifests instead of applying them to the cluster
    #[arg(long)]
    print_manifest_only: bool,
}

/// The credentials a cluster is registered with.
enum Credentials {
    Token(BootstrapToken, CaVerification),
    Administrator(PlaneClient),
}

pub async fn run(console: &Console, args: RegisterArgs) -> anyhow::Result<()> {
    if args.enable_cert_rotation {
        console.warn("--enable-cert-rotation has no effect: agents always renew their certificates");
    }
    let credentials = args.credentials()?;
    let options = args.options(&credentials)?;
    console.note("[preflight] Running pre-flight checks");
    let problems = preflight(&options.member.client, &args.namespace).await;
    if !problems.is_empty() && !args.print_manifest_only {
        console.note("error execution phase preflight: [preflight] Some fatal errors occurred:");
        for problem in problems {
            console.note(format!("\t[ERROR]: {problem}"));
        }
        console.note("\n[preflight] Please check the above errors");
        return Err(Exit(1).into());
    }
    console.note("[preflight] All pre-flight checks were passed");
    if args.dry_run {
        return Ok(());
    }
    let registered = register_with(console, &options, &credentials).await?;
    match options.agent.delivery {
        AgentDelivery::ReturnManifests => print(console, &registered.installation),
        AgentDelivery::Install if has_only_simulated_nodes(&options.member.client).await => {
            console.line(format!("\ncluster({}) is registered", options.name))?;
            console.warn(args.start_agent_hint(console, &options.name));
            Ok(())
        }
        AgentDelivery::Install => Ok(console.line(format!("\ncluster({}) is joined successfully", options.name))?),
    }
}

/// Returns true for a light member whose nodes run no programs. Nodes that cannot be listed are taken for real.
async fn has_only_simulated_nodes(member: &ClusterClient) -> bool {
    let listed = member.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await;
    let nodes = listed.map(|list| list.items).unwrap_or_default();
    !nodes.is_empty() && nodes.iter().all(|node| node.label(SIMULATED_NODE).is_some())
}

async fn register_with(
    console: &Console,
    options: &RegisterOptions,
    credentials: &Credentials,
) -> anyhow::Result<Registered> {
    match credentials {
        Credentials::Token(token, verification) => {
            register(options, token, verification, console).await.map_err(to_anyhow)
        }
        Credentials::Administrator(plane) => {
            let authority = plane.authority()?.context("--karmada-kubeconfig has no certificate-authority")?;
            let registered = register_as_administrator(options, &plane.client, &authority, console).await;
            registered.map_err(|error| plane.explain(to_anyhow(error)))
        }
    }
}

impl RegisterArgs {
    /// The commands that start the agent outside of a cluster with simulated nodes.
    fn start_agent_hint(&self, console: &Console, name: &str) -> String {
        let member = match &self.kubeconfig {
            Some(path) => format!(" --kubeconfig {}", path.display()),
            None => String::new(),
        };
        let context = self.context.as_ref().map(|context| format!(" --context {context}")).unwrap_or_default();
        format!(
            "all nodes of the cluster are simulated, so the pod of the agent does not run. Start the agent as a process:\n  \
             kubectl{member}{context} -n {} get secret {KUBECONFIG_SECRET} -o jsonpath='{{.data.karmada-kubeconfig}}' \
             | base64 -d > {name}-agent.config\n  \
             {} agent --cluster-name {name}{member}{context} --karmada-kubeconfig {name}-agent.config",
            self.namespace, console.program
        )
    }

    fn credentials(&self) -> anyhow::Result<Credentials> {
        if let Some(path) = &self.karmada_kubeconfig {
            let args = PlaneArgs::of_kubeconfig(path, self.karmada_context.clone());
            return Ok(Credentials::Administrator(PlaneClient::open(&args).context("--karmada-kubeconfig")?));
        }
        let token = BootstrapToken::parse(self.token.as_deref().unwrap_or_default())?;
        if self.discovery_token_unsafe_skip_ca_verification {
            return Ok(Credentials::Token(token, CaVerification::SignatureOnly));
        }
        if self.discovery_token_ca_cert_hash.is_empty() {
            bail!("need to verify CACertHashes, or set --discovery-token-unsafe-skip-ca-verification=true");
        }
        Ok(Credentials::Token(token, CaVerification::Pins(self.discovery_token_ca_cert_hash.clone())))
    }

    fn options(&self, credentials: &Credentials) -> anyhow::Result<RegisterOptions> {
        let context = self.context.as_deref().filter(|context| !context.is_empty());
        let opened = open_kubeconfig(self.kubeconfig.as_deref(), context);
        let (kubeconfig, remote) =
            opened.context("cannot use the kubeconfig of the cluster to register (--kubeconfig)")?;
        let named = self.cluster_name.clone().filter(|name| !name.is_empty());
        let name = named.or_else(|| kubeconfig.cluster_name(context).map(str::to_owned));
        let name = name.context("--cluster-name is required: the kubeconfig has no cluster name")?;
        check_name(&name)?;
        Ok(RegisterOptions {
            name,
            server: self.server(credentials)?,
            member: MemberAccess::new(remote, kubeconfig.proxy_url(context))?,
            namespace: self.cluster_namespace.clone(),
            location: self.location.location(),
            proxy_server_address: self.proxy_server_address.clone(),
            agent: AgentDeployment {
                namespace: self.namespace.clone(),
                image: self.karmada_agent_image.clone(),
                replicas: self.karmada_agent_replicas,
                delivery: match self.print_manifest_only {
                    true => AgentDelivery::ReturnManifests,
                    false => AgentDelivery::Install,
                },
            },
            certificate_seconds: self.cert_expiration_seconds,
            timeout: self.discovery_timeout,
        })
    }

    fn server(&self, credentials: &Credentials) -> anyhow::Result<String> {
        let server = match (&self.server, credentials) {
            (Some(server), _) => server,
            (None, Credentials::Administrator(plane)) => {
                plane.server().context("--karmada-kubeconfig has no server")?
            }
            (None, Credentials::Token(..)) => bail!("HOST:PORT of the control plane is required"),
        };
        Ok(format!("https://{}", server.trim_start_matches("https://").trim_end_matches('/')))
    }
}

fn print(console: &Console, installation: &AgentInstallation) -> anyhow::Result<()> {
    for object in installation.objects() {
        console.print(&format!("---\n{}", yaml::to_string(&object.into_value())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RegisterArgs,
    }

    #[test]
    fn a_token_or_an_administrators_kubeconfig_is_needed() {
        let read = |line: &str| Line::try_parse_from(std::iter::once("register").chain(line.split_whitespace()));
        assert!(read("--cluster-name m3 --karmada-kubeconfig k --print-manifest-only").is_ok());
        assert!(read("10.0.0.1:5443 --karmada-kubeconfig k").is_ok(), "the address for the agent may differ");
        assert!(read("10.0.0.1:5443 --token abcdef.0123456789abcdef").is_ok());
        assert!(read("10.0.0.1:5443 --token abcdef.0123456789abcdef --enable-cert-rotation").is_ok());
        for (line, problem) in [
            ("--cluster-name m3", "--token <TOKEN>"),
            ("--cluster-name m3", "<HOST:PORT>"),
            ("10.0.0.1:5443", "--token <TOKEN>"),
            ("h:1 --token abcdef.0123456789abcdef --karmada-kubeconfig k", "cannot be used with"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }

    #[tokio::test]
    async fn a_member_with_simulated_nodes_needs_its_agent_outside() {
        let check = async |labels: &[Option<&str>], expected: bool| {
            let api = cluster_client::testing::MemoryApi::default();
            for (index, label) in labels.iter().enumerate() {
                let mut node = NODES.object("", &format!("n{index}"));
                label.iter().for_each(|label| node.set_label(label, "true"));
                api.seed(&NODES.gvr(), node);
            }
            assert_eq!(has_only_simulated_nodes(&api.client()).await, expected, "{labels:?}");
        };
        check(&[], false).await;
        check(&[None], false).await;
        check(&[Some(SIMULATED_NODE)], true).await;
        check(&[Some(SIMULATED_NODE), None], false).await;
        let line = "register h:1 --token abcdef.0123456789abcdef --kubeconfig m3.config";
        let args = Line::parse_from(line.split_whitespace()).args;
        let (console, ..) = crate::console::testing::console();
        let hint = args.start_agent_hint(&console, "m3");
        for command in [
            "kubectl --kubeconfig m3.config -n karmada-system get secret karmada-kubeconfig -o jsonpath='{.data.karmada-kubeconfig}'",
            "flotilla agent --cluster-name m3 --kubeconfig m3.config --karmada-kubeconfig m3-agent.config",
        ] {
            assert!(hint.contains(command), "{hint}");
        }
    }
}
