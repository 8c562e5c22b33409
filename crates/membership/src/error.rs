//! Errors of membership operations, one variant per failed step.

use std::time::Duration;

use cluster_client::{ConnectError, KubeconfigError};
use object::Status;
use pki::error::PkiError;

use crate::credentials::CredentialError;

#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    #[error("invalid cluster name({name}): {problems}")]
    InvalidName { name: String, problems: String },
    #[error("invalid cluster name({0}): the name is reserved")]
    ReservedName(String),
    #[error("the bootstrap token must be of the form [a-z0-9]{{6}}.[a-z0-9]{{16}}")]
    InvalidToken,
    #[error("{0}")]
    InvalidTokenOptions(String),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot read the CA of the cluster")]
    ReadAuthority(#[source] std::io::Error),
    /// A request to the control plane that needs no explanation beyond the server's own.
    #[error("{0}")]
    ControlPlane(#[source] Status),
    #[error("cannot reach the joining cluster at {endpoint}")]
    ReachMember {
        endpoint: String,
        #[source]
        status: Status,
    },
    #[error("cannot read the ID of the joining cluster at {endpoint}")]
    ReadMemberId {
        endpoint: String,
        #[source]
        status: Status,
    },
    #[error("the cluster ID {id} or the cluster name {name} has been registered: {reason}")]
    AlreadyRegistered { id: String, name: String, reason: String },
    #[error("failed to register as {0}")]
    AlreadyRegisteredByAgent(String),
    #[error("failed to get serviceAccount secret from cluster({cluster})")]
    MemberCredentials {
        cluster: String,
        #[source]
        source: CredentialError,
    },
    #[error("failed to create the namespace in control plane")]
    CreateNamespace(#[source] CredentialError),
    #[error("failed to create secret {namespace}/{name} in control plane")]
    CreateSecret {
        namespace: String,
        name: String,
        #[source]
        status: Status,
    },
    #[error("failed to patch secret {namespace}/{name}")]
    OwnSecret {
        namespace: String,
        name: String,
        #[source]
        status: Status,
    },
    #[error("failed to create cluster({name}) object")]
    CreateCluster {
        name: String,
        #[source]
        status: Status,
    },
    #[error("cannot create {kind} {name} in the control plane")]
    CreateInControlPlane {
        kind: &'static str,
        name: String,
        #[source]
        status: Status,
    },
    #[error("cannot create {kind} {name}")]
    CreateInMember {
        kind: String,
        name: String,
        #[source]
        status: Status,
    },
    #[error("cannot delete {kind} {name} in cluster {cluster}")]
    DeleteInMember {
        kind: &'static str,
        name: String,
        cluster: String,
        #[source]
        status: Status,
    },
    #[error("no cluster object {0} found in karmada control Plane")]
    NoSuchCluster(String),
    #[error(
        "cluster {0} is a Pull mode member cluster, please use command `unregister` if you want to continue \
         unregistering the cluster"
    )]
    IsPullMember(String),
    #[error(
        "cluster {0} is a Push mode member cluster, please use command `unjoin` if you want to continue \
         unjoining the cluster"
    )]
    IsPushMember(String),
    /// The Cluster object still exists when the wait is over. Its removal continues in the control plane.
    #[error("cluster {name} is not removed after {wait:?}: {remaining}")]
    NotRemoved { name: String, wait: Duration, remaining: String },
    #[error("cluster {name} could not be removed by force: {remaining}")]
    NotRemovedByForce { name: String, remaining: String },
    #[error("cluster {name} is joined but not ready after {wait:?}: {reason}")]
    NotReady { name: String, wait: Duration, reason: String },
    #[error("couldn't validate the identity of the API Server: {0}")]
    Discovery(String),
    #[error("couldn't validate the identity of the API Server: {context}")]
    DiscoveryRequest {
        context: String,
        #[source]
        status: Status,
    },
    #[error("the control plane does not accept the bootstrap token")]
    RejectedToken(#[source] Status),
    #[error("this token was created for cluster {bound}, not for {name}: use --cluster-name {bound}, or another token")]
    TokenOfOtherCluster { bound: String, name: String },
    #[error("cannot create the certificate request {csr}")]
    RequestCertificate {
        csr: String,
        #[source]
        status: Status,
    },
    #[error("the certificate request {csr} was denied: {reason}")]
    DeniedCertificate { csr: String, reason: String },
    #[error("the certificate {csr} was not issued before the timeout")]
    CertificateTimeout { csr: String },
    #[error("the certificate {csr} is not valid base64")]
    UnreadableCertificate { csr: String },
    #[error(
        "the agent of {0} has no permissions in the control plane: they were removed together with the cluster. \
         Create a new token with `token create --cluster {0}`"
    )]
    NoAgentPermissions(String),
    #[error("the agent cannot read its works")]
    ReadWorks(#[source] Status),
    #[error("the agent is not running before the timeout: see `kubectl -n {namespace} describe deploy {name}`")]
    AgentNotRunning { namespace: String, name: String },
    #[error("failed to create bootstrap token with name {name}")]
    CreateToken {
        name: String,
        #[source]
        status: Status,
    },
    #[error("failed to list bootstrap tokens")]
    ListTokens(#[source] Status),
    #[error("failed to delete secret {name:?}")]
    DeleteToken {
        name: String,
        #[source]
        status: Status,
    },
    #[error("the control plane did not sign cluster-info with the token {id} within {wait:?}")]
    NotSigned { id: String, wait: Duration },
    #[error("no random numbers are available")]
    NoRandomness,
    #[error("failed to parse CA certificate from kubeconfig")]
    ParseAuthority,
    #[error("no CA certificates found in kubeconfig")]
    NoAuthority,
    #[error("cannot read the agent's kubeconfig from secret {secret}; use --karmada-config instead")]
    ReadAgentKubeconfig {
        secret: String,
        #[source]
        status: Status,
    },
    #[error("the agent's kubeconfig in secret {0} is not valid; use --karmada-config instead")]
    InvalidAgentKubeconfig(String),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Pki(#[from] PkiError),
}

impl From<Status> for MembershipError {
    fn from(status: Status) -> Self {
        Self::ControlPlane(status)
    }
}
