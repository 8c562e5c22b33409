//! Kubeconfigs for users: the caller's own rights on one instance, for a limited time.

use std::time::Duration;

use object::Status;
use object::request::User;
use pki::kubeconfig::{Credential, kubeconfig};

use crate::operations::Operations;
use crate::tokens::{TokenInfo, TokenRequest};

/// Validity of a kubeconfig when none is requested.
pub const VALID_DEFAULT: Duration = Duration::from_secs(8 * 3600);

/// A kubeconfig with the token in it.
pub struct IssuedKubeconfig {
    pub token: TokenInfo,
    pub text: String,
}

impl Operations {
    /// Issues a kubeconfig for an instance the user can see.
    pub async fn issue_kubeconfig(
        &self,
        user: &User,
        instance: &str,
        valid_for: Duration,
    ) -> Result<IssuedKubeconfig, Status> {
        let entry = self.visible_instance(user, instance)?;
        let name = entry.name();
        let request = TokenRequest { user, instance: Some((&name, entry.object.uid())), valid_for };
        let (token, secret) = self.tokens.issue(&request).await?;
        let url = format!("{}/instances/{name}", self.url);
        let text = kubeconfig(&url, &self.ca_pem, &Credential::Token(&secret), &name);
        Ok(IssuedKubeconfig { token, text })
    }

    /// Lists the kubeconfigs of a user for an instance that have not expired.
    pub async fn list_kubeconfigs(&self, user: &User, instance: &str) -> Result<Vec<TokenInfo>, Status> {
        let entry = self.visible_instance(user, instance)?;
        let all = self.tokens.list().await?;
        let is_own = |token: &TokenInfo| token.user == user.name && token.instance.as_deref() == Some(&entry.name());
        Ok(all.into_iter().filter(is_own).collect())
    }

    /// Revokes a kubeconfig of the user; platform administrators revoke any.
    pub async fn revoke_kubeconfig(&self, user: &User, id: &str) -> Result<(), Status> {
        let all = self.tokens.list().await?;
        let is_admin = self.is_platform_admin(user);
        let found = all.iter().any(|token| token.id == id && (token.user == user.name || is_admin));
        if !found {
            return Err(Status::new(404, "NotFound", format!("there is no kubeconfig {id:?}")));
        }
        self.tokens.revoke(id).await
    }
}
