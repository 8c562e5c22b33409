//! The web console of a control plane: its files, and the sessions of signed-in browsers.
//!
//! The page itself is public and holds no data. A browser signs in with a bearer token, a client certificate or a one-time
//! ticket, and gets a session cookie. With it the page calls the ordinary Kubernetes API in the rights of its user.

pub mod activity;
mod assets;
pub mod bindings;
pub mod components;
pub mod endpoints;
pub mod history;
pub mod namespaces;
mod oidc;
mod origin;
mod pages;
pub mod rows;
mod samples;
pub mod secret_keys;
mod session_store;
mod sessions;
mod tickets;

use std::sync::Arc;

use apiserver::auth::{Auth, RequestAuthenticator};
use apiserver::resources::Resources;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use http::HeaderMap;
use jiff::Timestamp;
use object::Status;
use object::request::User;
use pki::key::PrivateKey;
use pki::sealing::SealingKey;
use pki::token::hash;

use crate::session_store::SessionStore;
use crate::sessions::{SessionInfo, Sessions, public_id};
use crate::tickets::Tickets;

/// The path prefix of the console.
pub const CONSOLE_PATH: &str = "/console/";

/// The sessions and tickets of one control plane. Sessions are stored, tickets are kept in memory for a few minutes.
pub struct WebConsole {
    sessions: Sessions,
    tickets: Tickets,
    /// The server lists instances and is no control plane itself.
    manages_instances: bool,
}

impl WebConsole {
    /// The console of a control plane. `client` stores its sessions; all replicas have `shared_key`, which seals them.
    pub fn of_plane(client: ClusterClient, shared_key: &PrivateKey) -> Self {
        let key = SealingKey::derive(shared_key.to_pem().as_bytes(), "flotilla console sessions");
        let sessions = Sessions::stored(SessionStore { client, key });
        Self { sessions, tickets: Tickets::default(), manages_instances: false }
    }

    /// The console of a manager. The page opens instances below `/console/i/NAME/` and calls `/instances/NAME/` for them.
    pub fn of_manager(client: ClusterClient, shared_key: &PrivateKey) -> Self {
        Self { manages_instances: true, ..Self::of_plane(client, shared_key) }
    }
}

impl WebConsole {
    /// Returns the public id of the session of a request.
    pub fn session_of(&self, headers: &HeaderMap) -> Option<String> {
        origin::session_cookie(headers).map(|cookie| public_id(&hash(cookie)).to_owned())
    }

    /// Returns the sessions of a user.
    pub async fn sessions_of(&self, user: &str) -> Result<Vec<SessionInfo>, Status> {
        self.sessions.of_user(user, Timestamp::now()).await
    }

    /// Ends a session by its public id.
    pub async fn end_session(&self, id: &str) -> Result<(), Status> {
        self.sessions.close_public(id).await
    }
}

/// Identifies the callers that have a session cookie.
pub struct SessionCookies {
    pub console: Arc<WebConsole>,
}

#[async_trait]
impl RequestAuthenticator for SessionCookies {
    async fn user(
        &self,
        auth: &Auth,
        resources: Resources<'_>,
        headers: &HeaderMap,
    ) -> Option<Result<Arc<User>, String>> {
        let id = origin::session_cookie(headers)?;
        if let Err(reason) = origin::check(headers) {
            return Some(Err(reason.to_owned()));
        }
        let Some(session) = self.console.sessions.find(id, Timestamp::now()).await else {
            return Some(Err("the session has ended".to_owned()));
        };
        // A token that was revoked after the sign-in ends the session.
        if let Some(token) = &session.token
            && !matches!(auth.review_token(resources, token.expose(), &[]).await, Ok(Some(_)))
        {
            self.console.sessions.close(id).await;
            return Some(Err("the token of the session is no longer valid".to_owned()));
        }
        Some(Ok(session.user))
    }
}
