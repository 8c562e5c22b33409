//! Sign-in at the OIDC issuer for programs, sessions of browsers, and the end of both.

use apiserver::auth::{Oidc, SignInAttempt};
use http::Uri;
use jiff::Timestamp;
use manager_api::*;
use manager_kinds::permissions::Verdict;
use object::Status;
use transcode::errors::failed_precondition;

use super::convert::timestamp;
use super::sessions::LOGIN_VALID;
use super::{ApiCaller, ManagerApi};
use crate::tokens::TokenRequest;

const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// The code of a sign-in goes to the program that began it: over TLS, or on the same machine.
fn check_redirect(address: &str) -> Result<(), Status> {
    let parsed: Option<Uri> = address.parse().ok();
    let is_good = parsed
        .as_ref()
        .and_then(|uri| Some((uri.scheme_str()?, uri.host()?)))
        .is_some_and(|(scheme, host)| scheme == "https" || (scheme == "http" && LOOPBACK.contains(&host)));
    match is_good && !address.contains(['#', '@']) {
        true => Ok(()),
        false => Err(Status::bad_request("redirectUri: must begin with https://, or with http://127.0.0.1")),
    }
}

fn at(time: Timestamp) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: time.as_second(), nanos: 0 })
}

impl ManagerApi {
    fn issuer(&self) -> Result<&Oidc, Status> {
        let missing = || failed_precondition("the manager has no OIDC issuer: start it with --oidc-issuer-url");
        self.operations.server.oidc().ok_or_else(missing)
    }

    pub(super) async fn begin_sign_in(&self, redirect: &str) -> Result<OidcAttempt, Status> {
        let issuer = self.issuer()?;
        check_redirect(redirect)?;
        let attempt = SignInAttempt::begin().map_err(Status::internal)?;
        let url = issuer.sign_in_address(&attempt, redirect).await;
        let url = url.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(OidcAttempt { url, attempt: attempt.to_cookie() })
    }

    pub(super) async fn end_sign_in(&self, request: &FinishOidcRequest) -> Result<LoginResponse, Status> {
        let issuer = self.issuer()?;
        check_redirect(&request.redirect_uri)?;
        let attempt = SignInAttempt::from_cookie(&request.attempt).filter(|one| one.state.matches(&request.state));
        let attempt = attempt.ok_or_else(|| Status::bad_request("state: belongs to another sign-in"))?;
        let refused = |text: String| Status::new(401, "Unauthorized", text);
        let (user, _) = issuer
            .finish_sign_in(&attempt, &request.code, &request.redirect_uri)
            .await
            .map_err(|error| refused(error.to_string()))?;
        if self.operations.rights.is_disabled(&user.name) {
            return Err(refused("the user is disabled".to_owned()));
        }
        let issued = TokenRequest { user: &user, instance: None, valid_for: LOGIN_VALID };
        let (info, token) = self.operations.tokens.issue(&issued).await?;
        let visible = self.operations.visible_instances(&user);
        let instances = visible.iter().map(|entry| entry.name()).collect();
        Ok(LoginResponse { token, expire_time: timestamp(&info.expires_at), instances })
    }

    /// Returns the user whose sessions are meant.
    fn sessions_owner(&self, caller: &ApiCaller, user: &str) -> Result<String, Status> {
        if user.is_empty() || user == caller.user.name {
            return Ok(caller.user.name.clone());
        }
        match self.verdict(&caller.user, "iam.manage", None) {
            Verdict::Allowed => Ok(user.to_owned()),
            _ => Err(Status::new(403, "Forbidden", "user: sessions of others need the permission iam.manage")),
        }
    }

    pub(super) async fn browser_sessions(
        &self,
        caller: &ApiCaller,
        request: &ListSessionsRequest,
    ) -> Result<ListSessionsResponse, Status> {
        let user = self.sessions_owner(caller, &request.user)?;
        let found = self.console.sessions_of(&user).await?;
        let current = caller.credential.session.as_deref();
        let sessions = found.into_iter().map(|session| Session {
            current: current == Some(session.id.as_str()),
            id: session.id,
            user: session.user,
            create_time: at(session.opened),
            last_use_time: at(session.used),
        });
        Ok(ListSessionsResponse { sessions: sessions.collect() })
    }

    pub(super) async fn end_session(&self, caller: &ApiCaller, request: &RevokeSessionRequest) -> Result<(), Status> {
        let user = self.sessions_owner(caller, &request.user)?;
        let found = self.console.sessions_of(&user).await?;
        if !found.iter().any(|session| session.id == request.id) {
            return Err(Status::new(404, "NotFound", format!("there is no session {:?} of {user}", request.id)));
        }
        if request.validate_only {
            return Ok(());
        }
        self.console.end_session(&request.id).await
    }

    /// Ends what the call was made with.
    pub(super) async fn log_out(&self, caller: &ApiCaller, validate_only: bool) -> Result<(), Status> {
        let credential = &caller.credential;
        if credential.token.is_none() && credential.session.is_none() {
            return Err(failed_precondition("the call has no session and no access token that could be ended"));
        }
        if validate_only {
            return Ok(());
        }
        if let Some(token) = &credential.token {
            self.operations.tokens.revoke(token).await?;
        }
        if let Some(session) = &credential.session {
            self.console.end_session(session).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sent_over_tls_or_to_the_same_machine() {
        for good in ["https://app.example.com/callback", "http://127.0.0.1:8123/", "http://localhost:1/x"] {
            assert!(check_redirect(good).is_ok(), "{good}");
        }
        for bad in ["", "app", "http://app.example.com/", "javascript:x", "https://a@b/", "http://127.0.0.1.example/"] {
            assert!(check_redirect(bad).is_err(), "{bad}");
        }
    }
}
