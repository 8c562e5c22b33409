//! The clusters of the control plane: registered, ready, with valid credentials and running agents.

use std::sync::Arc;

use api::Resource;
use api::cluster::{
    CLUSTERS, ClusterSpec, ClusterStatus, SECRET_CA_BUNDLE, SECRET_TOKEN, SyncMode, TAINT_UNSCHEDULABLE,
};
use api::core::find_condition;
use api::failover::TAINT_NODES_UNSCHEDULABLE;
use api::names::CLUSTER_NAMESPACE;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cluster_client::remote::config::{Credentials, Pem};
use cluster_client::{ClusterClient, ListOptions, RemoteConfig, ResourceRef};
use jiff::Timestamp;
use object::Object;
use serde_json::Value;

use super::probe::{Answer, Probe, Route, probe};
use super::subject::{Hints, connect};
use super::{Check, DoctorSubject, Evidence, Finding, Layer, Severity, broken};
use crate::hint::Hint;
use crate::spec::Mode;

const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");
const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// An agent renews its lease several times within its duration; past this grace period, it has stopped doing so.
const LEASE_GRACE_SECONDS: i64 = 10;
const LEASE_SECONDS: i64 = 40;

#[derive(Debug)]
pub struct Seen {
    pub clusters: Vec<ClusterSeen>,
    /// The members the testbed should have, with their modes.
    pub expected: Vec<(String, Mode)>,
}

#[derive(Debug)]
pub struct ClusterSeen {
    pub cluster: Arc<Object>,
    /// The lease that an agent renews.
    pub lease: Option<Lease>,
    pub secret: SecretSeen,
    /// Push mode: the member, with the credentials in the secret. Pull mode: the control plane, with those of the agent.
    pub probe: Option<Probe>,
}

#[derive(Debug)]
pub struct Lease {
    pub renewed: Option<Timestamp>,
    pub seconds: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum SecretSeen {
    /// None is needed.
    NotNamed,
    Missing,
    Unreadable(String),
    Present {
        token: String,
        ca: Vec<u8>,
    },
}

pub struct Registrations;

#[async_trait]
impl Check for Registrations {
    fn layer(&self) -> Layer {
        Layer::Registrations
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let members = subject.bed().into_iter().flat_map(|(_, spec)| spec.members.iter());
        let expected = members.map(|member| (member.name.clone(), member.mode)).collect();
        let clusters = match subject.plane_client() {
            Ok(client) => gather_clusters(subject, &client).await,
            Err(why) => Err(why),
        };
        match clusters {
            Ok(clusters) => Evidence::Registrations(Seen { clusters, expected }),
            Err(why) => Evidence::Unknown(Layer::Registrations, why),
        }
    }
}

async fn gather_clusters(subject: &DoctorSubject, plane: &ClusterClient) -> Result<Vec<ClusterSeen>, String> {
    let listed = plane.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await;
    let clusters = listed.map_err(|status| status.to_string())?.items;
    Ok(futures::future::join_all(clusters.into_iter().map(|cluster| gather_cluster(subject, plane, cluster))).await)
}

async fn gather_cluster(subject: &DoctorSubject, plane: &ClusterClient, cluster: Arc<Object>) -> ClusterSeen {
    let spec: ClusterSpec = api::read(&cluster).unwrap_or_default();
    if spec.sync_mode == SyncMode::Pull {
        let lease = plane.find(ResourceRef::namespaced(&LEASES.gvr(), CLUSTER_NAMESPACE, cluster.name())).await;
        let lease = lease.ok().flatten().map(|lease| Lease {
            renewed: lease.str_at(&["spec", "renewTime"]).parse().ok(),
            seconds: lease.i64_at(&["spec", "leaseDurationSeconds"]).unwrap_or(LEASE_SECONDS),
        });
        let probe = probe_as_agent(subject, cluster.name()).await;
        return ClusterSeen { cluster, lease, secret: SecretSeen::NotNamed, probe };
    }
    let secret = match &spec.secret_ref {
        None => SecretSeen::Missing,
        Some(named) => match plane.find(ResourceRef::namespaced(&SECRETS.gvr(), &named.namespace, &named.name)).await {
            Ok(Some(secret)) => read_secret(&secret),
            Ok(None) => SecretSeen::Missing,
            Err(status) => SecretSeen::Unreadable(status.to_string()),
        },
    };
    let probe = probe_with(&spec, &secret).await;
    ClusterSeen { cluster, lease: None, secret, probe }
}

fn read_secret(secret: &Object) -> SecretSeen {
    let field =
        |key: &str| STANDARD.decode(secret.str_at(&["data", key])).map_err(|_| format!("{key} is not valid base64"));
    let read = || {
        let token = String::from_utf8(field(SECRET_TOKEN)?).map_err(|_| format!("{SECRET_TOKEN} is not text"))?;
        Ok::<_, String>(SecretSeen::Present { token, ca: field(SECRET_CA_BUNDLE)? })
    };
    read().unwrap_or_else(SecretSeen::Unreadable)
}

/// Asks the control plane as the agent of a testbed's member does.
async fn probe_as_agent(subject: &DoctorSubject, member: &str) -> Option<Probe> {
    let (place, _) = subject.bed()?;
    let remote = super::subject::load(&place.agent_plane_config(member), None).ok()?;
    Some(probe(&connect(remote).ok()?, Route::Direct).await)
}

/// Asks the member as the control plane would.
async fn probe_with(spec: &ClusterSpec, secret: &SecretSeen) -> Option<Probe> {
    let SecretSeen::Present { token, ca } = secret else { return None };
    let remote = RemoteConfig {
        ca: (!ca.is_empty()).then(|| Pem::Text(ca.clone())),
        insecure_skip_tls_verify: spec.insecure_skip_tls_verification,
        credentials: Credentials { token: Some(token.clone()), ..Credentials::default() },
        proxy: Some(spec.proxy_url.clone()).filter(|proxy| !proxy.is_empty()),
        ..RemoteConfig::new(spec.api_endpoint.clone())
    };
    Some(match connect(remote) {
        Ok(client) => probe(&client, Route::Direct).await,
        Err(why) => Probe::unreachable(why),
    })
}

pub fn judge(seen: &Seen, hints: &Hints, now: Timestamp) -> Vec<Finding> {
    let clusters = &seen.clusters;
    let mut findings: Vec<Finding> = clusters.iter().flat_map(|cluster| judge_cluster(cluster, hints, now)).collect();
    let missing = seen.expected.iter().filter(|(name, _)| !clusters.iter().any(|seen| seen.cluster.name() == name));
    findings.extend(missing.map(|(name, mode)| {
        let why = match mode {
            Mode::Push => "it was never joined, or was unjoined",
            Mode::Pull => "its agent never registered it, or it was unregistered",
        };
        broken(Layer::Registrations, name, "is not registered with the control plane", why, hints.flotilla(&Hint::Up))
    }));
    findings
}

fn judge_cluster(seen: &ClusterSeen, hints: &Hints, now: Timestamp) -> Vec<Finding> {
    let name = seen.cluster.name();
    let spec: ClusterSpec = api::read(&seen.cluster).unwrap_or_default();
    let status: ClusterStatus = api::read_at(&seen.cluster, &["status"]).unwrap_or_default();
    let mut findings = Vec::new();
    if seen.cluster.is_deleting() {
        let finalizers: Vec<&str> = seen.cluster.finalizers().collect();
        let why = format!("its finalizers remain: {}", finalizers.join(", "));
        let command = hints.flotilla(&Hint::UnjoinForced(name));
        findings.push(broken(Layer::Registrations, name, "is being deleted, but does not end", why, command));
    }
    let causes = match spec.sync_mode {
        SyncMode::Pull => judge_agent(seen, hints, now),
        SyncMode::Push => judge_credentials(seen, &spec, hints, now),
    };
    // A cause that is known says more than the condition it leads to.
    if causes.is_empty() && !status.is_ready() {
        let ready = find_condition(&status.conditions, "Ready");
        let why = ready.map_or("the control plane has not checked it yet".to_owned(), |ready| {
            format!("{}: {}", ready.reason, ready.message)
        });
        let what = format!("is not ready ({})", ready.map_or("no condition", |ready| ready.status.as_str()));
        let command = hints.repair_cluster(name, &hints.kubectl(&format!("describe cluster {name}")));
        findings.push(broken(Layer::Registrations, name, what, why, command));
    }
    findings.extend(causes);
    if spec.taints.iter().any(|taint| taint.key == TAINT_UNSCHEDULABLE) {
        let command = hints.flotilla(&Hint::Uncordon(name));
        let finding = broken(Layer::Registrations, name, "is cordoned", "no new workload is scheduled to it", command);
        findings.push(Finding { severity: Severity::Note, ..finding });
    }
    if spec.taints.iter().any(|taint| taint.key == TAINT_NODES_UNSCHEDULABLE && taint.effect == "NoExecute") {
        let command = hints.flotilla(&Hint::UncordonNodes(name));
        let why = "all its nodes are cordoned or not ready; workloads with failover move to other clusters";
        findings.push(broken(Layer::Registrations, name, "has no schedulable node", why, command));
    }
    findings
}

fn judge_agent(seen: &ClusterSeen, hints: &Hints, now: Timestamp) -> Vec<Finding> {
    let name = seen.cluster.name();
    let command = hints.repair_cluster(name, &hints.kubectl(&format!("describe cluster {name}")));
    let silent =
        |why: String| vec![broken(Layer::Registrations, name, "its agent does not report", why, command.clone())];
    if let Some(Probe { answer: Answer::Unauthorized(why), .. }) = &seen.probe {
        let what = "the control plane rejects the credentials of its agent";
        return vec![broken(Layer::Registrations, name, what, why.clone(), command)];
    }
    match &seen.lease {
        None => silent("it has never renewed its lease: it does not run, or its credentials are rejected".to_owned()),
        Some(Lease { renewed: None, .. }) => silent("its lease has no time".to_owned()),
        Some(Lease { renewed: Some(renewed), seconds }) => {
            let age = now.as_second() - renewed.as_second();
            if age <= seconds + LEASE_GRACE_SECONDS {
                return Vec::new();
            }
            silent(format!(
                "it renewed its lease {age} seconds ago, and should within {seconds}: it does not run, or cannot reach the \
                 control plane"
            ))
        }
    }
}

fn judge_credentials(seen: &ClusterSeen, spec: &ClusterSpec, hints: &Hints, now: Timestamp) -> Vec<Finding> {
    let name = seen.cluster.name();
    let finding = |what: &str, why: String| vec![broken(Layer::Registrations, name, what, why, hints.join_again(name))];
    let named =
        spec.secret_ref.as_ref().map(|secret| format!("{}/{}", secret.namespace, secret.name)).unwrap_or_default();
    match &seen.secret {
        SecretSeen::NotNamed => return Vec::new(),
        SecretSeen::Missing => return finding("has no credentials", format!("the secret {named} does not exist")),
        SecretSeen::Unreadable(why) => return finding("its credentials cannot be read", format!("{named}: {why}")),
        SecretSeen::Present { token, .. } if token.trim().is_empty() => {
            return finding("has an empty token", format!("the secret {named} has none"));
        }
        SecretSeen::Present { token, .. } => {
            if let Some(expired) = expiry(token).filter(|expiry| *expiry < now) {
                return finding(
                    "its token has expired",
                    format!("the token in the secret {named} was valid until {expired}"),
                );
            }
        }
    }
    match seen.probe.as_ref().map(|probe| &probe.answer) {
        Some(Answer::Unauthorized(why)) => {
            finding("rejects the token it was joined with", format!("the token in the secret {named}: {why}"))
        }
        _ => Vec::new(),
    }
}

/// The expiry in a token. The member verifies its signature.
fn expiry(token: &str) -> Option<Timestamp> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    Timestamp::from_second(claims["exp"].as_i64()?).ok()
}
