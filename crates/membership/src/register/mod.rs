//! Registers a cluster in pull mode with a bootstrap token: the agent gets a certificate with access to its own objects.

mod administrator;
pub mod discovery;
mod kubeconfig;
mod signing;

use std::time::Duration;

use api::Resource;
use api::cluster::{CLUSTERS, ClusterSpec};
use api::names::execution_namespace;
use api::work::WORKS;
use cluster_client::{ClusterClient, ListOptions, ResourceRef, WriteOptions};
use object::{Object, Status};
use tokio::time::Instant;

use crate::agent_manifests::{
    AGENT, AGENT_ACCOUNT, AgentFlags, AgentInstallation, DEPLOYMENTS, KUBECONFIG_SECRET, KubeconfigSecret, resource_of,
};
use crate::cluster_name::check_name;
use crate::credentials::{NAMESPACES, SECRETS, SERVICE_ACCOUNTS};
use crate::invitation;
use crate::join::cluster_id;
use crate::register::discovery::{CaVerification, VerifiedControlPlane, discover};
use crate::register::signing::{CertificateRequest, IssuedCertificate};
use crate::registration::{self, Registration, ReportSecrets};
use crate::rights::AgentRights;
use crate::token::{BootstrapToken, random};
use crate::{ClusterLocation, MemberAccess, MembershipError, Progress};

pub use administrator::register_as_administrator;

const POLL: Duration = Duration::from_millis(500);
/// The identity that grants permissions to agents. Every bootstrap token that is not bound to a cluster can get it.
const RIGHTS_USER: &str = "system:karmada:agent:rbac-generator";

pub struct RegisterOptions {
    pub member: MemberAccess,
    pub name: String,
    /// URL of the control plane.
    pub server: String,
    /// Namespace of the member's secrets in the control plane.
    pub namespace: String,
    pub location: ClusterLocation,
    /// Proxy through which the control plane reaches the member, unless its kubeconfig sets one.
    pub proxy_server_address: String,
    pub agent: AgentDeployment,
    /// Lifetime of the agent's certificate.
    pub certificate_seconds: i32,
    /// Timeout for the control plane, the certificates and the agent together.
    pub timeout: Duration,
}

/// The deployment of the agent in the member.
pub struct AgentDeployment {
    pub namespace: String,
    pub image: String,
    pub replicas: u32,
    pub delivery: AgentDelivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentDelivery {
    /// Create the agent's objects in the member and wait until it runs.
    Install,
    /// Only return the agent's objects.
    ReturnManifests,
}

/// A registered cluster.
#[derive(Debug)]
pub struct Registered {
    /// The agent's kubeconfig for the control plane.
    pub kubeconfig: String,
    pub installation: AgentInstallation,
}

/// Returns the problems that prevent an installation: objects of an agent that already exist in the member.
pub async fn preflight(member: &ClusterClient, namespace: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let objects: [(&Resource, &str); 3] =
        [(&SECRETS, KUBECONFIG_SECRET), (&SERVICE_ACCOUNTS, AGENT_ACCOUNT), (&DEPLOYMENTS, AGENT)];
    for (resource, name) in objects {
        match member.find(ResourceRef::namespaced(&resource.gvr(), namespace, name)).await {
            Ok(None) => {}
            Ok(Some(_)) => problems.push(format!("{namespace}/{name} {} already exists", resource.kind)),
            Err(status) => problems.push(status.to_string()),
        }
    }
    problems
}

/// Registers a cluster with a bootstrap token.
pub async fn register(
    options: &RegisterOptions,
    token: &BootstrapToken,
    verification: &CaVerification,
    progress: &dyn Progress,
) -> Result<Registered, MembershipError> {
    check_name(&options.name)?;
    progress.note("[karmada-agent-start] Waiting to perform the TLS Bootstrap");
    let deadline = Instant::now() + options.timeout;
    let control_plane = discover(&options.server, token, verification, deadline, progress).await?;
    let bootstrap = control_plane.connect_with_token(&options.server, token)?;
    let bound_to = invitation::bound_to(&bootstrap).await?;
    let attempt = Attempt { options, progress, control_plane, bootstrap, deadline };
    match bound_to {
        Some(bound) if bound != options.name => {
            Err(MembershipError::TokenOfOtherCluster { bound, name: options.name.clone() })
        }
        Some(_) => attempt.register_invited().await,
        None => attempt.register_uninvited().await,
    }
}

/// One registration in progress.
struct Attempt<'a> {
    options: &'a RegisterOptions,
    progress: &'a dyn Progress,
    control_plane: VerifiedControlPlane,
    /// The control plane, with the token as credentials.
    bootstrap: ClusterClient,
    deadline: Instant,
}

impl Attempt<'_> {
    /// Registers with a token for any cluster: it grants the agent's permissions through an identity with full access.
    async fn register_uninvited(&self) -> Result<Registered, MembershipError> {
        let Self { options, progress, .. } = self;
        let name = &options.name;
        let csr = format!("agent-rbac-generator-{name}{}", random(5)?);
        let issued = self.certificate(csr.clone(), RIGHTS_USER).await?;
        let grantor = self.control_plane.connect_with_certificate(&options.server, &issued)?;
        signing::delete_request(&grantor, &csr, *progress).await;
        progress.note("[karmada-agent-start] Waiting to check cluster exists");
        let id = cluster_id(&options.member.client, &options.member.endpoint).await?;
        refuse_duplicates(&grantor, name, &id).await?;
        progress.note("[karmada-agent-start] Assign the necessary RBAC permissions to the agent");
        let rights = AgentRights::new(name, &options.namespace);
        let outcome = async {
            rights.grant(&grantor, options.cluster_object(&id)?).await?;
            let issued = self.agent_certificate().await?;
            self.finish(&issued).await
        };
        match outcome.await {
            Ok(registered) => Ok(registered),
            Err(error) => {
                progress.note("register failed and started deleting the created resources");
                rights.revoke_with_objects(&grantor, *progress).await;
                Err(error)
            }
        }
    }

    /// Registers with a token for this cluster: the agent already has its permissions. A later attempt uses what a failed
    /// one left behind.
    async fn register_invited(&self) -> Result<Registered, MembershipError> {
        let Self { options, progress, .. } = self;
        let name = &options.name;
        progress.note("[karmada-agent-start] Waiting to check cluster exists");
        let id = cluster_id(&options.member.client, &options.member.endpoint).await?;
        if let Some(known) = self.bootstrap.find(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await?
            && api::read::<ClusterSpec>(&known)?.id != id
        {
            return Err(name_taken(name));
        }
        let issued = self.agent_certificate().await?;
        let agent = self.control_plane.connect_with_certificate(&options.server, &issued)?;
        require_permissions(&agent, name).await?;
        let rights = AgentRights::new(name, &options.namespace);
        rights.create_objects(&self.bootstrap, options.cluster_object(&id)?).await?;
        self.finish(&issued).await
    }

    async fn agent_certificate(&self) -> Result<IssuedCertificate, MembershipError> {
        self.progress.note("[karmada-agent-start] Waiting to construct karmada-agent kubeconfig");
        let name = &self.options.name;
        self.certificate(format!("{name}-{}", random(5)?), &format!("system:karmada:agent:{name}")).await
    }

    async fn certificate(&self, csr: String, user: &str) -> Result<IssuedCertificate, MembershipError> {
        let seconds = self.options.certificate_seconds;
        let requested = CertificateRequest { csr, user: user.to_owned(), seconds, deadline: self.deadline };
        signing::certificate(&self.bootstrap, requested, self.progress).await
    }

    /// Builds the agent's objects, and installs them if requested.
    async fn finish(&self, issued: &IssuedCertificate) -> Result<Registered, MembershipError> {
        let Self { options, control_plane, .. } = self;
        let kubeconfig = kubeconfig::write(&options.server, &options.name, &control_plane.authority, issued);
        let installation = options.installation(kubeconfig.clone());
        if options.agent.delivery == AgentDelivery::Install {
            install(&options.member.client, &installation, self.deadline, self.progress).await?;
        }
        Ok(Registered { kubeconfig, installation })
    }
}

impl RegisterOptions {
    /// Builds the Cluster as the agent will report it.
    fn cluster_object(&self, id: &str) -> Result<Object, Status> {
        let registration = Registration {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            report: ReportSecrets::default(),
            api_endpoint: self.member.endpoint.clone(),
            proxy: self.member.proxy.clone().unwrap_or_else(|| self.proxy_server_address.clone()),
            insecure: self.member.insecure,
            location: self.location.clone(),
            authority: None,
        };
        registration::cluster_object(None, &registration, id)
    }

    fn installation(&self, kubeconfig: String) -> AgentInstallation {
        let flags = AgentFlags {
            cluster_name: &self.name,
            cluster_api_endpoint: &self.member.endpoint,
            location: &self.location,
            proxy_server_address: &self.proxy_server_address,
            cluster_namespace: &self.namespace,
            namespace: &self.agent.namespace,
        };
        AgentInstallation {
            namespace: self.agent.namespace.clone(),
            kubeconfig: KubeconfigSecret::Create(kubeconfig),
            image: self.agent.image.clone(),
            replicas: self.agent.replicas,
            arguments: flags.arguments(),
        }
    }
}

/// Checks the agent's permissions: those granted in advance are removed together with the Cluster.
async fn require_permissions(agent: &ClusterClient, name: &str) -> Result<(), MembershipError> {
    let works = ResourceRef::within(&WORKS.gvr(), &execution_namespace(name));
    match agent.list(works, ListOptions { limit: Some(1), ..ListOptions::default() }).await {
        Err(status) if status.code == 403 => Err(MembershipError::NoAgentPermissions(name.to_owned())),
        Err(status) => Err(MembershipError::ReadWorks(status)),
        Ok(_) => Ok(()),
    }
}

fn name_taken(name: &str) -> MembershipError {
    MembershipError::AlreadyRegisteredByAgent(format!("cluster with name {name} already exists"))
}

/// Refuses a cluster that is already registered, under this or another name.
async fn refuse_duplicates(plane: &ClusterClient, name: &str, id: &str) -> Result<(), MembershipError> {
    let clusters = plane.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
    for cluster in clusters.items {
        if cluster.name() == name {
            return Err(name_taken(name));
        }
        if api::read::<ClusterSpec>(&cluster)?.id == id {
            let reason = format!("this cluster is registered already, with name {}", cluster.name());
            return Err(MembershipError::AlreadyRegisteredByAgent(reason));
        }
    }
    Ok(())
}

async fn install(
    member: &ClusterClient,
    installation: &AgentInstallation,
    deadline: Instant,
    progress: &dyn Progress,
) -> Result<(), MembershipError> {
    progress.note("[karmada-agent-start] Waiting the necessary secret and RBAC");
    for object in installation.objects() {
        if object.kind() == DEPLOYMENTS.kind {
            progress.note("[karmada-agent-start] Waiting karmada-agent Deployment");
        }
        let (kind, name) = (object.kind().to_owned(), object.name().to_owned());
        let put = put(member, object).await;
        put.map_err(|status| MembershipError::CreateInMember { kind, name, status })?;
    }
    let target = ResourceRef::namespaced(&DEPLOYMENTS.gvr(), &installation.namespace, AGENT);
    loop {
        let deployment = member.get(target.clone()).await?;
        let count = |field: &str| deployment.i64_at(&["status", field]).unwrap_or_default();
        if count("observedGeneration") >= deployment.generation()
            && count("updatedReplicas") >= i64::from(installation.replicas)
            && count("availableReplicas") >= i64::from(installation.replicas)
        {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let (namespace, name) = (installation.namespace.clone(), AGENT.to_owned());
            return Err(MembershipError::AgentNotRunning { namespace, name });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Creates the object, or replaces one left by an earlier attempt.
async fn put(member: &ClusterClient, object: Object) -> Result<(), Status> {
    let Some(resource) = resource_of(&object) else {
        return Err(Status::internal(format!("{} is not a kind of an agent's object", object.kind())));
    };
    let collection = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    match member.create(collection, object.clone(), WriteOptions::default()).await {
        Err(status) if status.is_already_exists() && resource != NAMESPACES => {}
        Err(status) if status.is_already_exists() => return Ok(()),
        answer => return answer.map(drop),
    }
    let target = ResourceRef::of(&resource.gvr(), &object);
    member.update(target, object, WriteOptions::default()).await.map(drop)
}
