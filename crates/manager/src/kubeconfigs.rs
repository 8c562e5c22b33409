//! Kubeconfigs for users: the caller's own rights on one instance, for a limited time.

use std::time::Duration;

use object::Status;
use object::request::User;
use pki::kubeconfig::{Credential, kubeconfig_for_name};

use crate::operations::Operations;
use crate::tokens::{TokenInfo, TokenRequest};

/// Validity of a kubeconfig when none is requested.
pub const VALID_DEFAULT: Duration = Duration::from_secs(8 * 3600);

/// The address of an instance in a kubeconfig.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubeconfigAddress {
    /// By the path below the manager's URL.
    #[default]
    Path,
    /// By the name of the instance as the host; a wildcard DNS record must lead to the manager.
    Host,
    /// By the manager's URL and the name of the instance in the TLS handshake.
    ServerName,
}

impl KubeconfigAddress {
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "path" => Ok(Self::Path),
            "host" => Ok(Self::Host),
            "server-name" => Ok(Self::ServerName),
            _ => Err(Status::bad_request("address: must be path, host or server-name")),
        }
    }
}

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
        (valid_for, address): (Duration, KubeconfigAddress),
    ) -> Result<IssuedKubeconfig, Status> {
        let entry = self.visible_instance(user, instance)?;
        let name = entry.name();
        let (url, server_name) = self.address_of(&name, address)?;
        let request = TokenRequest { user, instance: Some((&name, entry.object.uid())), valid_for };
        let (token, secret) = self.tokens.issue(&request).await?;
        let credential = Credential::Token(&secret);
        let text = kubeconfig_for_name(&url, server_name.as_deref(), &self.ca_pem, &credential, &name);
        Ok(IssuedKubeconfig { token, text })
    }

    /// Reports whether a kubeconfig could be issued.
    pub fn check_kubeconfig(
        &self,
        user: &User,
        instance: &str,
        (valid_for, address): (Duration, KubeconfigAddress),
    ) -> Result<(), Status> {
        let name = self.visible_instance(user, instance)?.name();
        self.address_of(&name, address)?;
        TokenRequest { user, instance: None, valid_for }.check()
    }

    /// Returns the URL of an instance and the name to request there, if it is not the one in the URL.
    fn address_of(&self, name: &str, address: KubeconfigAddress) -> Result<(String, Option<String>), Status> {
        if address == KubeconfigAddress::Path {
            return Ok((format!("{}/instances/{name}", self.url), None));
        }
        let missing = || Status::bad_request("address: the manager was started without --instances-domain");
        let host = self.names.as_ref().ok_or_else(missing)?.name_of(name).map_err(Status::bad_request)?;
        if address == KubeconfigAddress::ServerName {
            return Ok((self.url.clone(), Some(host)));
        }
        let url: http::Uri = self.url.parse().map_err(|_| Status::internal("the URL of the manager is not valid"))?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Ok((format!("https://{host}{port}"), None))
    }

    /// Lists the kubeconfigs for an instance that have not expired: the user's own; platform administrators, who can revoke
    /// any, see all.
    pub async fn list_kubeconfigs(&self, user: &User, instance: &str) -> Result<Vec<TokenInfo>, Status> {
        let name = self.visible_instance(user, instance)?.name();
        let sees_all = self.is_platform_admin(user);
        let mut found = self.tokens.list().await?;
        found.retain(|token| token.instance.as_deref() == Some(&*name) && (sees_all || token.user == user.name));
        Ok(found)
    }

    /// Revokes a kubeconfig of the user; platform administrators revoke any.
    pub async fn revoke_kubeconfig(&self, user: &User, id: &str) -> Result<(), Status> {
        self.own_kubeconfig(user, id).await?;
        self.tokens.revoke(id).await
    }

    /// Reports whether the user may revoke a kubeconfig.
    pub async fn own_kubeconfig(&self, user: &User, id: &str) -> Result<(), Status> {
        let all = self.tokens.list().await?;
        let is_admin = self.is_platform_admin(user);
        let found = all.iter().any(|token| token.id == id && (token.user == user.name || is_admin));
        match found {
            true => Ok(()),
            false => Err(Status::new(404, "NotFound", format!("there is no kubeconfig {id:?}"))),
        }
    }
}
