//! `SessionService`.

use std::time::Duration;

use async_trait::async_trait;
use manager_api::*;
use object::Status;

use super::convert::timestamp;
use super::instances::validity;
use super::{ApiCaller, ManagerApi};
use crate::accounts::check_password;
use crate::tokens::{TokenInfo, TokenRequest};

/// Validity of the token of a login.
pub(super) const LOGIN_VALID: Duration = Duration::from_secs(8 * 3600);

fn token_message(info: &TokenInfo, token: String) -> AccessToken {
    AccessToken {
        id: info.id.clone(),
        instance: info.instance.clone().unwrap_or_default(),
        create_time: timestamp(&info.issued_at),
        expire_time: timestamp(&info.expires_at),
        token,
    }
}

#[async_trait]
impl SessionService<ApiCaller> for ManagerApi {
    async fn get_login_options(&self, _: &ApiCaller, _: GetLoginOptionsRequest) -> Result<LoginOptions, Status> {
        let issuer = self.oidc_issuer.clone();
        Ok(LoginOptions { local: true, oidc: issuer.is_some(), oidc_issuer: issuer.unwrap_or_default() })
    }

    async fn login(&self, caller: &ApiCaller, request: LoginRequest) -> Result<LoginResponse, Status> {
        if request.user.is_empty() || request.password.is_empty() {
            return Err(Status::bad_request("user and password are required"));
        }
        let user = self.accounts.log_in(&request.user, &request.password, caller.address).await?;
        let issued = TokenRequest { user: &user, instance: None, valid_for: LOGIN_VALID };
        let (info, token) = self.operations.tokens.issue(&issued).await?;
        let visible = self.operations.visible_instances(&user);
        Ok(LoginResponse {
            token,
            expire_time: timestamp(&info.expires_at),
            instances: visible.iter().map(|entry| entry.name()).collect(),
        })
    }

    async fn logout(&self, caller: &ApiCaller, request: LogoutRequest) -> Result<(), Status> {
        self.log_out(caller, request.validate_only).await
    }

    async fn list_sessions(
        &self,
        caller: &ApiCaller,
        request: ListSessionsRequest,
    ) -> Result<ListSessionsResponse, Status> {
        self.browser_sessions(caller, &request).await
    }

    async fn revoke_session(&self, caller: &ApiCaller, request: RevokeSessionRequest) -> Result<(), Status> {
        self.end_session(caller, &request).await
    }

    async fn start_oidc(&self, _: &ApiCaller, request: StartOidcRequest) -> Result<OidcAttempt, Status> {
        self.begin_sign_in(&request.redirect_uri).await
    }

    async fn finish_oidc(&self, _: &ApiCaller, request: FinishOidcRequest) -> Result<LoginResponse, Status> {
        self.end_sign_in(&request).await
    }

    async fn who_am_i(&self, caller: &ApiCaller, _: WhoAmIRequest) -> Result<Caller, Status> {
        let roles = self.operations.rights.platform_roles(&caller.user);
        Ok(Caller {
            name: caller.user.name.clone(),
            groups: caller.user.groups.clone(),
            platform_roles: roles.into_iter().map(|role| role.name().to_owned()).collect(),
        })
    }

    async fn change_password(&self, caller: &ApiCaller, request: ChangePasswordRequest) -> Result<(), Status> {
        let user = self.accounts.log_in(&caller.user.name, &request.old_password, caller.address).await?;
        match request.validate_only {
            true => check_password(&request.new_password),
            false => self.accounts.set_password(&user.name, &request.new_password).await,
        }
    }

    async fn create_access_token(
        &self,
        caller: &ApiCaller,
        request: CreateAccessTokenRequest,
    ) -> Result<AccessToken, Status> {
        let valid_for = validity(request.expiration_seconds)?;
        let entry = match request.instance.as_str() {
            "" => None,
            name => Some(self.operations.visible_instance(&caller.user, name)?),
        };
        let name = entry.as_ref().map(|entry| entry.name());
        let instance = entry.as_ref().zip(name.as_deref()).map(|(entry, name)| (name, entry.object.uid()));
        let issued = TokenRequest { user: &caller.user, instance, valid_for };
        issued.check()?;
        if request.validate_only {
            return Ok(AccessToken { instance: request.instance, ..AccessToken::default() });
        }
        let (info, token) = self.operations.tokens.issue(&issued).await?;
        Ok(token_message(&info, token))
    }

    async fn list_access_tokens(
        &self,
        caller: &ApiCaller,
        _: ListAccessTokensRequest,
    ) -> Result<ListAccessTokensResponse, Status> {
        let all = self.operations.tokens.list().await?;
        let own = all.iter().filter(|token| token.user == caller.user.name);
        Ok(ListAccessTokensResponse { tokens: own.map(|token| token_message(token, String::new())).collect() })
    }

    async fn revoke_access_token(&self, caller: &ApiCaller, request: RevokeAccessTokenRequest) -> Result<(), Status> {
        let all = self.operations.tokens.list().await?;
        match all.iter().any(|token| token.id == request.id && token.user == caller.user.name) {
            true if request.validate_only => Ok(()),
            true => self.operations.tokens.revoke(&request.id).await,
            false => Err(Status::new(404, "NotFound", format!("there is no access token {:?}", request.id))),
        }
    }
}
