//! Registration of clusters in pull mode: tokens, the command to run, and the approval of agents.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::remote::config::Pem;
use cluster_client::{Kubeconfig, ListOptions, RemoteConfig, ResourceRef, WriteOptions};
use instances::plane::Connection;
use instances::running::RunningInstance;
use jiff::Timestamp;
use manager_api::*;
use membership::cluster_name::check_name;
use membership::renewal::REQUESTS;
use membership::token::{
    BootstrapToken, StoredToken, TokenOptions, delete_token, key_pins, list_tokens, parse_id, store_token,
};
use membership::{MembershipError, NoProgress};
use object::conditions::{self, NewCondition};
use object::request::Subresource;
use object::{Object, Status};
use pki::csr::Csr;
use transcode::errors::failed_precondition;

use super::convert::created;
use super::{ApiCaller, ManagerApi};

const FIELD_MANAGER: &str = "flotilla";
const VALID_DEFAULT: Duration = Duration::from_secs(24 * 3600);
const VALID_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Common names of agents, with the name of their cluster.
const AGENT_PREFIX: &str = "system:karmada:agent:";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The address of a control plane for agents, and the CA of its server.
struct AgentAddress {
    server: String,
    ca_pem: Vec<u8>,
}

fn validity(seconds: i64) -> Result<Duration, Status> {
    let asked = match u64::try_from(seconds) {
        Ok(0) => VALID_DEFAULT,
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => return Err(Status::bad_request("expirationSeconds: must not be negative")),
    };
    match asked > VALID_MAX {
        true => Err(Status::bad_request(format!("expirationSeconds: must be at most {}", VALID_MAX.as_secs()))),
        false => Ok(asked),
    }
}

fn status_of(error: MembershipError) -> Status {
    match error {
        MembershipError::CreateToken { status, .. }
        | MembershipError::DeleteToken { status, .. }
        | MembershipError::ListTokens(status) => status,
        other => Status::bad_request(other.to_string()),
    }
}

/// Returns the address at which the plane itself listens: agents verify its own certificate, so that they cannot come through
/// the manager's address.
fn agent_address(running: &RunningInstance) -> Result<RemoteConfig, String> {
    match (&running.connection, &running.kubeconfig) {
        (_, Some(file)) => {
            let kubeconfig = Kubeconfig::load(std::slice::from_ref(file)).map_err(|error| error.to_string())?;
            kubeconfig.remote(None).map_err(|error| error.to_string())
        }
        (Connection::Remote(_), None) if running.replica.is_some() => {
            let address = running.replica.as_ref().map_or("", |replica| replica.address.as_str());
            Err(format!("the instance runs on another replica of the manager: send the request to {address}"))
        }
        (Connection::Remote(remote), None) => Ok(remote.config.clone()),
        (Connection::InProcess(_), None) => Err("the control plane has no address".to_owned()),
    }
}

fn message(stored: &StoredToken) -> RegistrationToken {
    RegistrationToken {
        id: stored.token.id.clone(),
        cluster: stored.cluster.clone().unwrap_or_default(),
        expire_time: stored.expires.map(|at| prost_types::Timestamp { seconds: at.as_second(), nanos: 0 }),
        description: stored.description.clone(),
        token: String::new(),
        command: String::new(),
    }
}

/// Returns the cluster whose agent asks for a certificate; `None` for other requests.
fn cluster_of(request: &Object) -> Option<String> {
    if request.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
        return None;
    }
    let pem = STANDARD.decode(request.str_at(&["spec", "request"])).ok()?;
    let csr = Csr::from_pem(&pem).ok()?;
    csr.subject().common_name.strip_prefix(AGENT_PREFIX).map(str::to_owned)
}

/// Returns true while a request is neither approved nor denied.
fn is_undecided(request: &Object) -> bool {
    conditions::all(request).next().is_none() && request.str_at(&["status", "certificate"]).is_empty()
}

fn agent(request: &Object, cluster: String) -> PendingAgent {
    PendingAgent {
        name: request.name().to_owned(),
        cluster,
        requester: request.str_at(&["spec", "username"]).to_owned(),
        create_time: created(request),
        approved: conditions::is_true(request, "Approved"),
    }
}

impl ManagerApi {
    async fn address_for_agents(&self, instance: &str) -> Result<AgentAddress, Status> {
        let entry = self.entry(instance)?;
        let stopped = || Status::unavailable(format!("the instance {instance} is not running"));
        let running = self.operations.directory.connect(&entry).await.ok_or_else(stopped)?;
        let config = agent_address(&running).map_err(Status::internal)?;
        let reachable = self.operations.endpoints.check(&config.server).await;
        reachable.map_err(|problem| {
            failed_precondition(format!(
                "agents cannot reach the control plane at {}: {problem}. Give the instance an address of its own with the \
                 annotation flotilla.dev/expose: HOST[:PORT]",
                config.server
            ))
        })?;
        let missing = || failed_precondition("the CA of the control plane is not known");
        let ca_pem = config.ca.as_ref().map(Pem::read).ok_or_else(missing)?.map_err(Status::internal)?;
        Ok(AgentAddress { server: config.server, ca_pem })
    }

    pub(super) async fn new_registration_token(
        &self,
        caller: &ApiCaller,
        request: &CreateRegistrationTokenRequest,
    ) -> Result<RegistrationToken, Status> {
        let ttl = validity(request.expiration_seconds)?;
        check_name(&request.cluster).map_err(|error| Status::bad_request(format!("cluster: {error}")))?;
        let address = self.address_for_agents(&request.instance).await?;
        let pins = key_pins(&address.ca_pem).map_err(status_of)?.join(",");
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let options = TokenOptions {
            ttl,
            cluster: Some(request.cluster.clone()),
            description: request.description.clone(),
            ..TokenOptions::default()
        };
        if request.validate_only {
            return Ok(RegistrationToken {
                cluster: request.cluster.clone(),
                description: request.description.clone(),
                ..RegistrationToken::default()
            });
        }
        let (token, now) = (BootstrapToken::generate().map_err(status_of)?, Timestamp::now());
        store_token(&client, &token, &options, now).await.map_err(status_of)?;
        let seconds = now.as_second().saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        let server = address.server.trim_start_matches("https://");
        Ok(RegistrationToken {
            id: token.id.clone(),
            cluster: request.cluster.clone(),
            expire_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            description: request.description.clone(),
            command: format!(
                "flotilla register {server} --token {token} --discovery-token-ca-cert-hash {pins} --cluster-name {}",
                request.cluster
            ),
            token: token.to_string(),
        })
    }

    pub(super) async fn registration_tokens(
        &self,
        caller: &ApiCaller,
        instance: &str,
    ) -> Result<Vec<RegistrationToken>, Status> {
        let client = self.operations.instance_client(&caller.user, instance).await?;
        let tokens = list_tokens(&client, &NoProgress).await.map_err(status_of)?;
        Ok(tokens.iter().map(message).collect())
    }

    pub(super) async fn remove_registration_token(
        &self,
        caller: &ApiCaller,
        request: &DeleteRegistrationTokenRequest,
    ) -> Result<(), Status> {
        let id = parse_id(&request.id).ok_or_else(|| Status::bad_request("id: is not the id of a token"))?;
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        if !request.validate_only {
            return delete_token(&client, &id, &NoProgress).await.map_err(status_of);
        }
        let known = list_tokens(&client, &NoProgress).await.map_err(status_of)?;
        match known.iter().any(|stored| stored.token.id == id) {
            true => Ok(()),
            false => Err(Status::new(404, "NotFound", format!("there is no token {id:?}"))),
        }
    }

    pub(super) async fn pending_agents(&self, caller: &ApiCaller, instance: &str) -> Result<Vec<PendingAgent>, Status> {
        let client = self.operations.instance_client(&caller.user, instance).await?;
        let list = client.list_all(ResourceRef::all(&REQUESTS.gvr()), ListOptions::default()).await?;
        let waiting = list.items.iter().filter(|request| is_undecided(request));
        Ok(waiting.filter_map(|request| Some(agent(request, cluster_of(request)?))).collect())
    }

    pub(super) async fn approve(
        &self,
        caller: &ApiCaller,
        request: &ApproveAgentRequest,
    ) -> Result<PendingAgent, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let target = ResourceRef::cluster(&REQUESTS.gvr(), &request.name);
        let found = client.get(target.clone()).await?;
        let cluster = cluster_of(&found)
            .ok_or_else(|| failed_precondition(format!("{} is not the request of an agent", request.name)))?;
        if !is_undecided(&found) {
            return Err(failed_precondition(format!("{} was decided already", request.name)));
        }
        let mut approved = Object::clone(&found);
        let text = format!("approved by {} in the manager", caller.user.name);
        let new = NewCondition { kind: "Approved", status: "True", reason: "ApprovedInManager", message: &text };
        conditions::edit(&mut approved, new.kind, |condition| condition.write(&new));
        let target = ResourceRef { subresource: Some(Subresource::Approval), ..target };
        let options = WriteOptions { dry_run: request.validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let written = client.update(target, approved, options).await?;
        Ok(agent(&written, cluster))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_valid_for_a_day_by_default_and_a_week_at_most() {
        for (seconds, expected) in
            [(0, Some(86_400)), (60, Some(60)), (604_800, Some(604_800)), (604_801, None), (-1, None)]
        {
            assert_eq!(validity(seconds).ok().map(|found| found.as_secs()), expected, "{seconds}");
        }
    }

    #[test]
    fn only_undecided_requests_of_agents_are_pending() {
        let key = pki::key::PrivateKey::generate().expect("a key");
        let check = |name: &str, signer: &str, conditions: serde_json::Value, expected: Option<&str>| {
            let subject = pki::subject::CertificateSubject::new(name, &["system:karmada:agents".to_owned()]);
            let text = pki::csr::create_csr(&key, &subject, &Default::default()).expect("a request");
            let mut request = REQUESTS.object("", "csr");
            request.set(&["spec"], json!({"signerName": signer, "request": STANDARD.encode(text)}));
            request.set(&["status"], json!({"conditions": conditions}));
            let found = cluster_of(&request).filter(|_| is_undecided(&request));
            assert_eq!(found.as_deref(), expected, "{name} {signer} {conditions}");
        };
        check("system:karmada:agent:m1", CLIENT_SIGNER, json!([]), Some("m1"));
        check("system:karmada:agent:m1", "kubernetes.io/kubelet-serving", json!([]), None);
        check("ann", CLIENT_SIGNER, json!([]), None);
        check("system:karmada:agent:m1", CLIENT_SIGNER, json!([{"type": "Denied", "status": "True"}]), None);
    }
}
