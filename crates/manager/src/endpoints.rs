//! Paths of the manager for the command line: login, kubeconfigs, passwords.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use object::request::User;
use serde_json::{Value, json};

use crate::accounts::Accounts;
use crate::kubeconfigs::{KubeconfigAddress, VALID_DEFAULT};
use crate::operations::Operations;
use crate::tokens::{TokenInfo, TokenRequest};

const LOGIN: &str = "/flotilla/manager/login";
const PASSWORDS: &str = "/flotilla/manager/passwords";
const KUBECONFIGS: &str = "/flotilla/manager/kubeconfigs";
/// Validity of the token of a login.
const LOGIN_VALID: Duration = Duration::from_secs(8 * 3600);

/// `POST /flotilla/manager/login`: a token for a name and password.
pub struct LoginEndpoint {
    pub operations: Arc<Operations>,
    pub accounts: Arc<Accounts>,
}

/// `POST`, `GET` and `DELETE /flotilla/manager/kubeconfigs`: kubeconfigs of the caller.
pub struct KubeconfigEndpoint {
    pub operations: Arc<Operations>,
}

#[async_trait]
impl Extension for LoginEndpoint {
    fn handles(&self, path: &str) -> bool {
        path == LOGIN || path == PASSWORDS
    }

    fn judges_callers(&self) -> bool {
        true
    }

    fn is_public(&self) -> bool {
        true
    }

    async fn serve(&self, _server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let path = request.incoming.uri.path().to_owned();
        if request.incoming.method != Method::POST {
            return Err(Status::method_not_served());
        }
        let (caller, address) = (request.user, request.incoming.peer_address.ip());
        let body = read_json(request.incoming.body.read().await?.as_ref())?;
        let (name, password) = (text(&body, "user")?, text(&body, "password")?);
        if path == PASSWORDS {
            return self.set_password(&caller, name, password).await;
        }
        self.log_in(name, password, address).await
    }
}

impl LoginEndpoint {
    async fn log_in(&self, name: &str, password: &str, address: IpAddr) -> Result<Response<Body>, Status> {
        let user = self.accounts.log_in(name, password, address).await?;
        let request = TokenRequest { user: &user, instance: None, valid_for: LOGIN_VALID };
        let (info, token) = self.operations.tokens.issue(&request).await?;
        let visible = self.operations.visible_instances(&user);
        let instances: Vec<String> = visible.iter().map(|entry| entry.name()).collect();
        answer(200, json!({"token": token, "expiresAt": info.expires_at, "instances": instances}))
    }

    /// Users set their own password; administrators set any.
    async fn set_password(&self, caller: &User, name: &str, password: &str) -> Result<Response<Body>, Status> {
        let is_own = caller.name == name && self.operations.rights.user_uid(name).is_some();
        if !is_own && !self.operations.is_platform_admin(caller) {
            return Err(Status::new(403, "Forbidden", "only administrators set the passwords of others"));
        }
        self.accounts.set_password(name, password).await?;
        answer(200, json!({"user": name}))
    }
}

#[async_trait]
impl Extension for KubeconfigEndpoint {
    fn handles(&self, path: &str) -> bool {
        path == KUBECONFIGS || path.strip_prefix(KUBECONFIGS).is_some_and(|rest| rest.starts_with('/'))
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, _server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let ExtensionRequest { incoming, user } = request;
        let path = incoming.uri.path().to_owned();
        let id = path.strip_prefix(KUBECONFIGS).unwrap_or_default().trim_start_matches('/');
        match (incoming.method.clone(), id) {
            (Method::POST, "") => {
                let body = read_json(incoming.body.read().await?.as_ref())?;
                let seconds = body["expirationSeconds"].as_u64().map_or(VALID_DEFAULT, Duration::from_secs);
                let address = KubeconfigAddress::parse(body["address"].as_str().unwrap_or_default())?;
                let instance = text(&body, "instance")?;
                let issued = self.operations.issue_kubeconfig(&user, instance, (seconds, address)).await?;
                let mut shown = shown(&issued.token);
                shown["kubeconfig"] = issued.text.into();
                answer(201, shown)
            }
            (Method::GET, "") => {
                let instance = incoming.query.get("instance").unwrap_or_default();
                let found = self.operations.list_kubeconfigs(&user, instance).await?;
                answer(200, json!({"items": found.iter().map(shown).collect::<Vec<_>>()}))
            }
            (Method::DELETE, id) if !id.is_empty() => {
                self.operations.revoke_kubeconfig(&user, id).await?;
                answer(200, json!({"id": id}))
            }
            _ => Err(Status::method_not_served()),
        }
    }
}

fn shown(token: &TokenInfo) -> Value {
    json!({
        "id": token.id, "user": token.user, "instance": token.instance,
        "issuedAt": token.issued_at, "expiresAt": token.expires_at,
    })
}

fn read_json(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| Status::bad_request(format!("the body is not JSON: {error}")))
}

fn text<'a>(body: &'a Value, field: &str) -> Result<&'a str, Status> {
    let found = body[field].as_str().filter(|text| !text.is_empty());
    found.ok_or_else(|| Status::bad_request(format!("{field}: is required and must be text")))
}

fn answer(code: u16, body: Value) -> Result<Response<Body>, Status> {
    Ok(respond::text(code, "application/json", body.to_string()))
}
