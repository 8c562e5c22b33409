//! Files that configure authentication and authorization, applied at the start and whenever they change.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use apiserver::auth::Authorizer;
use apiserver::auth::structured::{self, AuthenticationConfig, CONFIG_BYTES_MAX};
use apiserver::server::Server;
use tokio_util::sync::CancellationToken;

use crate::follow::follow_files;
use crate::host::SERVICE_ACCOUNT_ISSUER;
use crate::options::Options;

pub(crate) fn authentication(path: &Path) -> anyhow::Result<AuthenticationConfig> {
    let named = || format!("--authentication-config {}", path.display());
    structured::read_authentication(&text_of(path).with_context(named)?, SERVICE_ACCOUNT_ISSUER).with_context(named)
}

pub(crate) fn authorization(path: &Path) -> anyhow::Result<Vec<Authorizer>> {
    let named = || format!("--authorization-config {}", path.display());
    structured::read_authorization(&text_of(path).with_context(named)?).with_context(named)
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let size = std::fs::metadata(path)?.len();
    ensure!(size <= CONFIG_BYTES_MAX as u64, "the file has more than {CONFIG_BYTES_MAX} bytes");
    Ok(std::fs::read_to_string(path)?)
}

/// Follows the files that the options name until stopped.
pub(crate) fn follow(options: &Options, server: &Arc<Server>, stop: &CancellationToken) {
    if let Some(path) = options.authentication_config.clone() {
        let (server, files) = (Arc::clone(server), vec![path.clone()]);
        let apply = move || authentication(&path).map(|config| server.auth().configure(config));
        tokio::spawn(follow_files("the authentication configuration", files, apply, stop.clone()));
    }
    if let Some(path) = options.authorization_config.clone() {
        let (server, files) = (Arc::clone(server), vec![path.clone()]);
        let apply = move || authorization(&path).map(|found| server.auth().replace_authorizers(found));
        tokio::spawn(follow_files("the authorization configuration", files, apply, stop.clone()));
    }
}
