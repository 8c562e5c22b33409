//! Making members known to the control plane: joined where it pushes, registered with an agent beside them where they pull.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use api::Resource;
use api::cluster::{CLUSTERS, CONDITION_READY, ClusterSpec, ClusterStatus};
use api::core::find_condition;
use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use cluster_client::{ClusterClient, DeleteOptions, Kubeconfig, ResourceRef};
use karmadactl::console::Console;
use karmadactl::join::{Joining, MemberAccess, NAMESPACES};
use karmadactl::plane::{Plane, PlaneArgs};
use karmadactl::register::{KUBECONFIG_SECRET, RegisterArgs, Rights};
use karmadactl::token::TokenArgs;
use karmadactl::unjoin::UnjoinArgs;
use object::Object;
use serde_json::Value;
use tokio::time::Instant;

use crate::clusters::{open, rewrite, write_if_changed};
use crate::display::Line;
use crate::place::Place;
use crate::spec::{MemberSpec, Mode, loopback};

const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
const POLL: Duration = Duration::from_millis(50);
const JOIN_PATIENCE: Duration = Duration::from_secs(60);
const TOKEN_TTL: &str = "10m";
const SIGNING_PATIENCE: Duration = Duration::from_secs(10);

/// The control plane, as its administrator.
pub fn open_plane(place: &Place) -> anyhow::Result<Plane> {
    Plane::open(&PlaneArgs { kubeconfig: Some(place.plane_config()), karmada_context: None })
}

/// What is known of a member in the control plane.
pub enum Known {
    Not,
    /// As it should be; Ready or not is another question.
    Rightly,
    /// Under this name another cluster is known, or this one under another address.
    Wrongly(String),
}

pub async fn look_up(plane: &ClusterClient, place: &Place, member: &MemberSpec) -> anyhow::Result<Known> {
    let Some(cluster) = plane.find(ResourceRef::cluster(&CLUSTERS.gvr(), &member.name)).await? else {
        return Ok(Known::Not);
    };
    let spec: ClusterSpec = api::read(&cluster)?;
    let client = open(&place.member_config(&member.name))?;
    let id = client.get(ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system")).await?.uid().to_owned();
    if spec.id != id {
        return Ok(Known::Wrongly("it is known as another cluster".to_owned()));
    }
    if member.mode == Mode::Push && spec.api_endpoint != endpoint_in(place, member)? {
        return Ok(Known::Wrongly(format!("it is known at {}", spec.api_endpoint)));
    }
    if member.mode == Mode::Pull && !place.agent_plane_config(&member.name).exists() {
        return Ok(Known::Wrongly("its agent has lost its credentials".to_owned()));
    }
    Ok(Known::Rightly)
}

/// Where a member's kubeconfig says it is.
fn endpoint_in(place: &Place, member: &MemberSpec) -> anyhow::Result<String> {
    Ok(Kubeconfig::load(&[place.member_config(&member.name)])?.remote(None)?.server)
}

/// Takes a cluster out of the control plane that is no longer there. Nothing is asked of the member.
pub async fn forget(plane: &ClusterClient, member: &MemberSpec, deadline: Instant) -> anyhow::Result<()> {
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), &member.name);
    match plane.delete(target.clone(), DeleteOptions::default()).await {
        Err(status) if !status.is_not_found() => return Err(status.into()),
        _ => {}
    }
    while plane.find(target.clone()).await?.is_some() {
        if Instant::now() >= deadline {
            bail!("the control plane does not let go of {}; try `flotilla unjoin {0} --force`", member.name);
        }
        tokio::time::sleep(POLL).await;
    }
    Rights::new(&member.name, CLUSTER_NAMESPACE).take(&silent(), plane, true).await;
    Ok(())
}

pub async fn join(place: &Place, member: &MemberSpec) -> anyhow::Result<()> {
    let plane = open_plane(place)?;
    let kubeconfig = Kubeconfig::load(&[place.member_config(&member.name)])?;
    let remote = kubeconfig.remote(None)?;
    let access = MemberAccess {
        client: open(&place.member_config(&member.name))?,
        endpoint: remote.server.clone(),
        insecure: remote.insecure_skip_tls_verify,
        proxy: kubeconfig.proxy_url(None).map(str::to_owned),
        authority: remote.ca.as_ref().map(cluster_client::remote::config::Pem::read).transpose()?,
    };
    let joining = Joining {
        name: member.name.clone(),
        namespace: CLUSTER_NAMESPACE.to_owned(),
        provider: None,
        region: None,
        zones: Vec::new(),
        dry_run: false,
    };
    karmadactl::join::join(&silent(), &plane, &joining, &access, Some(JOIN_PATIENCE)).await
}

/// Takes a cluster out again with all that joining and propagation made in it: it is not ours to throw away.
pub async fn unjoin(place: &Place, member: &MemberSpec) -> anyhow::Result<()> {
    let cluster = ResourceRef::cluster(&CLUSTERS.gvr(), &member.name);
    if open_plane(place)?.client.find(cluster).await?.is_none() {
        return Ok(());
    }
    let kubeconfig = place.member_config(&member.name).display().to_string();
    let plane = plane_path(place);
    let words = ["unjoin", &member.name, "--kubeconfig", &plane, "--cluster-kubeconfig", &kubeconfig];
    let line = UnjoinLine::try_parse_from(words).context("the line to unjoin a member")?;
    karmadactl::unjoin::run(&silent(), line.args).await
}

/// Arguments of a command of the library, as a line would give them.
#[derive(Parser)]
struct RegisterLine {
    #[command(flatten)]
    args: RegisterArgs,
}

#[derive(Parser)]
struct UnjoinLine {
    #[command(flatten)]
    args: UnjoinArgs,
}

#[derive(Parser)]
struct TokenLine {
    #[command(flatten)]
    args: TokenArgs,
}

/// Registers a member as `flotilla register` does, and keeps what its agent needs to reach the control plane.
pub async fn register(place: &Place, plane_port: u16, member: &MemberSpec) -> anyhow::Result<()> {
    let plane = open_plane(place)?;
    let token = create_token(place).await?;
    wait_until_signed(&plane.client, &token).await?;
    let server = loopback(plane_port).to_string();
    let authority = plane.authority()?.context("the control plane's kubeconfig has no CA")?;
    let pins = karmadactl::token::key_pins(&authority)?.join(",");
    let kubeconfig = place.member_config(&member.name).display().to_string();
    let words = [
        "register",
        &server,
        "--kubeconfig",
        &kubeconfig,
        "--cluster-name",
        &member.name,
        "--token",
        &token,
        "--discovery-token-ca-cert-hash",
        &pins,
        "--print-manifest-only",
    ];
    let line = RegisterLine::try_parse_from(words).context("the line to register a member")?;
    let (console, printed) = captured();
    karmadactl::register::run(&console, line.args).await?;
    let config = agent_kubeconfig(&printed.text())?;
    // Through a port of its own, so that the way can be cut.
    let own = format!("https://{}", loopback(member.agent_plane_port));
    let config = rewrite(&config, &member.name, &own)?;
    write_if_changed(&place.agent_plane_config(&member.name), &config)?;
    let id = token.split('.').next().unwrap_or_default().to_owned();
    let line = TokenLine::try_parse_from(["token", "delete", &id, "--kubeconfig", &plane_path(place)])?;
    // It ends by itself; that it goes now is only tidier.
    let _ = karmadactl::token::run(&silent(), line.args).await;
    Ok(())
}

async fn create_token(place: &Place) -> anyhow::Result<String> {
    let words = ["token", "create", "--ttl", TOKEN_TTL, "--kubeconfig", &plane_path(place)];
    let line = TokenLine::try_parse_from(words).context("the line to make a token")?;
    let (console, printed) = captured();
    karmadactl::token::run(&console, line.args).await?;
    Ok(printed.text().trim().to_owned())
}

fn plane_path(place: &Place) -> String {
    place.plane_config().display().to_string()
}

/// Whoever registers asks for cluster-info and believes it by a signature made with the token; until it is there,
/// asking only costs time.
async fn wait_until_signed(plane: &ClusterClient, token: &str) -> anyhow::Result<()> {
    let id = token.split('.').next().unwrap_or_default();
    let key = format!("jws-kubeconfig-{id}");
    let target = ResourceRef::namespaced(&CONFIG_MAPS.gvr(), "kube-public", "cluster-info");
    let deadline = Instant::now() + SIGNING_PATIENCE;
    loop {
        let info = plane.find(target.clone()).await?;
        if info.is_some_and(|info| !info.str_at(&["data", &key]).is_empty()) || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The kubeconfig among the manifests of an agent.
fn agent_kubeconfig(manifests: &str) -> anyhow::Result<String> {
    for document in manifests.split("---\n").filter(|text| !text.trim().is_empty()) {
        let value: Value = serde_saphyr::from_str(document).context("a manifest that cannot be read")?;
        let object = Object::from_value(value).context("a manifest that is no object")?;
        if object.kind() == "Secret" && object.name() == KUBECONFIG_SECRET {
            let data = object.str_at(&["data", KUBECONFIG_SECRET]);
            return Ok(String::from_utf8(STANDARD.decode(data)?)?);
        }
    }
    bail!("registering printed no kubeconfig for the agent")
}

/// Returns when the control plane says that the member is ready.
pub async fn wait_ready(plane: &ClusterClient, member: &str, line: &Line, deadline: Instant) -> anyhow::Result<()> {
    loop {
        let why = match readiness(plane, member).await? {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        line.say(&format!("waiting to be ready: {why}"));
        if Instant::now() >= deadline {
            bail!("not ready in time: {why}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Is a member ready, and if not, why not.
pub async fn readiness(plane: &ClusterClient, member: &str) -> anyhow::Result<Result<(), String>> {
    let Some(cluster) = plane.find(ResourceRef::cluster(&CLUSTERS.gvr(), member)).await? else {
        return Ok(Err("the control plane does not know it".to_owned()));
    };
    let status: ClusterStatus = api::read_at(&cluster, &["status"])?;
    if status.is_ready() {
        return Ok(Ok(()));
    }
    Ok(Err(match find_condition(&status.conditions, CONDITION_READY) {
        Some(ready) => format!("{}: {}", ready.reason, ready.message),
        None => "the control plane has not looked at it yet".to_owned(),
    }))
}

fn silent() -> Console {
    Console::new("flotilla", Box::new(std::io::sink()), Box::new(std::io::sink()))
}

/// A console whose results are kept instead of printed.
fn captured() -> (Console, Kept) {
    let kept = Kept::default();
    (Console::new("flotilla", Box::new(kept.clone()), Box::new(std::io::sink())), kept)
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
