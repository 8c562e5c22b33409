//! Installs a control plane in a host cluster, waits for it, and writes its kubeconfig.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use api::Resource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use membership::credentials::{NAMESPACES, SECRETS};
use membership::plane_manifests::{
    ADMIN_SECRET, ADMIN_SECRET_KEY, PLANE, PLANE_RESOURCES, PlaneInstallation, SERVICES,
};
use object::Object;
use serde_json::Value;
use tokio::time::Instant;

use crate::console::Console;
use crate::init::InitArgs;

const NODES: Resource = Resource::cluster("", "v1", "Node", "nodes");
const PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods");
const FIELD_MANAGER: &str = "flotilla-init";
const POLL: Duration = Duration::from_millis(500);
/// Nodes whose addresses are in the certificate, if none has a control-plane label.
const NODES_MAX: usize = 3;

pub async fn install(
    console: &Console,
    host: &ClusterClient,
    args: &InitArgs,
    mut installation: PlaneInstallation,
) -> anyhow::Result<()> {
    check_port(host, args).await?;
    let addresses = match &args.karmada_apiserver_advertise_address {
        Some(address) => vec![address.clone()],
        None => node_addresses(host).await?,
    };
    let address = addresses.first().context("the host cluster has no node with an address")?.clone();
    for found in addresses {
        if !installation.tls_names.contains(&found) {
            installation.tls_names.push(found);
        }
    }
    for object in installation.objects() {
        let resource = PLANE_RESOURCES.iter().chain([&NAMESPACES]).find(|resource| resource.kind == object.kind());
        let resource = resource.with_context(|| format!("no resource for {}", object.kind()))?;
        let (kind, name) = (object.kind().to_lowercase(), object.name().to_owned());
        let applied = host.apply(ResourceRef::of(&resource.gvr(), &object), object, FIELD_MANAGER).await;
        applied.with_context(|| format!("cannot create {kind} {name:?}"))?;
        console.note(format!("create {kind} {name:?}"));
    }
    console.note(format!("waiting for {PLANE} in namespace {}", args.namespace));
    let timeout = args.wait_component_ready_timeout;
    let deadline = (timeout > 0).then(|| Instant::now() + Duration::from_secs(timeout));
    wait_until_ready(host, &installation, deadline).await?;
    let kubeconfig = published(host, &args.namespace, deadline).await?;
    let file = write_kubeconfig(args, &kubeconfig, &address)?;
    print_success(console, args, &file)
}

/// A port that another Service uses would be refused when the Service is created, after everything else.
async fn check_port(host: &ClusterClient, args: &InitArgs) -> anyhow::Result<()> {
    let services = host.list_all(ResourceRef::all(&SERVICES.gvr()), ListOptions::default()).await;
    let services = services.context("cannot list the Services of the host cluster")?;
    let is_own = |service: &Object| service.name() == PLANE && service.namespace() == args.namespace;
    let uses = |service: &Object| {
        service.items(&["spec", "ports"]).iter().any(|port| port["nodePort"].as_u64() == Some(args.port.into()))
    };
    if let Some(other) = services.items.iter().find(|service| !is_own(service) && uses(service)) {
        let (namespace, name) = (other.namespace(), other.name());
        bail!("--port {}: the Service {namespace}/{name} uses this node port; choose another", args.port);
    }
    Ok(())
}

/// Returns the addresses of the control-plane nodes, or of the first nodes.
async fn node_addresses(host: &ClusterClient) -> anyhow::Result<Vec<String>> {
    let nodes = host.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await;
    let nodes = nodes.context("cannot list the nodes of the host cluster")?.items;
    let with_role = |role: &str| -> Vec<&Object> {
        let label = format!("node-role.kubernetes.io/{role}");
        nodes.iter().map(AsRef::as_ref).filter(|node: &&Object| node.label(&label).is_some()).collect()
    };
    let mut chosen = with_role("master");
    if chosen.is_empty() {
        chosen = with_role("control-plane");
    }
    if chosen.is_empty() {
        chosen = nodes.iter().map(AsRef::as_ref).take(NODES_MAX).collect();
    }
    let address = |node: &Object| node.items(&["status", "addresses"]).first()?["address"].as_str().map(str::to_owned);
    Ok(chosen.into_iter().filter_map(address).collect())
}

/// Returns when the workload of the control plane is ready with the current manifests.
pub async fn wait_until_ready(
    host: &ClusterClient,
    installation: &PlaneInstallation,
    deadline: Option<Instant>,
) -> anyhow::Result<()> {
    let target = || ResourceRef::namespaced(&installation.workload_resource().gvr(), &installation.namespace, PLANE);
    loop {
        let workload = host.get(target()).await.context("cannot read the state of the control plane")?;
        if is_rolled_out(&workload, installation.replicas()) {
            return Ok(());
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            let problem = pod_problem(host, &installation.namespace).await;
            bail!(
                "{PLANE} is not ready{problem}; see `kubectl -n {0} describe pods` and `kubectl -n {0} logs -l app.kubernetes.io/instance={PLANE}`. \
                 Run the command again to continue",
                installation.namespace
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

fn is_rolled_out(workload: &Object, replicas: u32) -> bool {
    let count = |field: &str| workload.i64_at(&["status", field]).unwrap_or_default();
    workload.i64_at(&["status", "observedGeneration"]) == Some(workload.generation())
        && count("updatedReplicas") == i64::from(replicas)
        && count("readyReplicas") == i64::from(replicas)
}

/// Returns the reason why a container waits, for the error message.
async fn pod_problem(host: &ClusterClient, namespace: &str) -> String {
    let options =
        ListOptions { label_selector: Some(format!("app.kubernetes.io/instance={PLANE}")), ..ListOptions::default() };
    let listed = host.list_all(ResourceRef::within(&PODS.gvr(), namespace), options).await;
    let pods = listed.map(|list| list.items).unwrap_or_default();
    let waiting = |pod: &Object| {
        let states = pod.items(&["status", "containerStatuses"]).iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut found = states.map(|status| &status["state"]["waiting"]).filter(|state| state["reason"].is_string());
        found.next().map(|state| format!(": {} {}", text(&state["reason"]), text(&state["message"])))
    };
    pods.iter().find_map(|pod| waiting(pod)).unwrap_or_default()
}

/// Returns the kubeconfig that the server publishes when it is ready.
async fn published(host: &ClusterClient, namespace: &str, deadline: Option<Instant>) -> anyhow::Result<String> {
    loop {
        let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, ADMIN_SECRET);
        let secret = host.find(target).await.with_context(|| format!("cannot read the Secret {ADMIN_SECRET}"))?;
        let text = secret.and_then(|secret| STANDARD.decode(secret.str_at(&["data", ADMIN_SECRET_KEY])).ok());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            return String::from_utf8(text).context("the published kubeconfig is not text");
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            bail!("the control plane has not published its kubeconfig in the Secret {namespace}/{ADMIN_SECRET}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Writes the kubeconfig with the address of a node instead of the Service.
fn write_kubeconfig(args: &InitArgs, kubeconfig: &str, address: &str) -> anyhow::Result<PathBuf> {
    let mut parsed: Value = serde_saphyr::from_str(kubeconfig).context("the published kubeconfig is not valid")?;
    let host = if address.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
        format!("[{address}]")
    } else {
        address.to_owned()
    };
    for cluster in parsed["clusters"].as_array_mut().into_iter().flatten() {
        cluster["cluster"]["server"] = format!("https://{host}:{}", args.port).into();
    }
    let file = args.karmada_data.join("karmada-apiserver.config");
    let write = || -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.karmada_data)?;
        write_private(&file, object::yaml::to_string(&parsed).as_bytes())
    };
    write()
        .with_context(|| format!("cannot write {}; choose another directory with --karmada-data", file.display()))?;
    Ok(file)
}

/// Writes a file only its owner can read, also if it exists with other permissions.
fn write_private(path: &std::path::Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

fn print_success(console: &Console, args: &InitArgs, file: &std::path::Path) -> anyhow::Result<()> {
    let (program, file, namespace) = (&console.program, file.display(), &args.namespace);
    console.print(&format!(
        "Karmada is installed successfully.\n\n\
         Its kubeconfig is {file}, and in the Secret {namespace}/{ADMIN_SECRET} of the host cluster:\n\n  \
         kubectl --kubeconfig {file} get clusters\n\n\
         If the nodes cannot be reached from here, forward the port of the Service, and use https://127.0.0.1:5443:\n\n  \
         kubectl -n {namespace} port-forward svc/{PLANE} 5443:5443\n\n\
         Add a cluster in push mode:\n\n  \
         {program} join CLUSTER_NAME --kubeconfig {file} --cluster-kubeconfig FILE\n\n\
         Add a cluster in pull mode:\n\n  \
         {program} token create --kubeconfig {file} --cluster CLUSTER_NAME --print-register-command\n"
    ))?;
    Ok(())
}
