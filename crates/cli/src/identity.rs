//! Flags of `flotilla server` for authentication.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use apiserver::auth::OidcConfig;
use clap::Args;
use object::request::User;
use pki::jwt::Algorithm;
use pki::oidc::OidcRules;
use pki::tls::client::ServerTrust;
use pki::token::Secret;

#[derive(Args)]
#[command(next_help_heading = "Identity")]
pub struct IdentityArgs {
    /// OpenID Connect issuer whose tokens are accepted.
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,
    /// Client ID (audience) of the issuer's tokens.
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,
    /// CA certificate of the issuer [default: the system's CAs].
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,
    /// The claim that holds the user's name.
    #[arg(long, default_value = "sub", value_name = "CLAIM")]
    oidc_username_claim: String,
    /// Prefix of user names; `-` means none [default: the issuer and #, except for e-mail addresses].
    #[arg(long, value_name = "PREFIX")]
    oidc_username_prefix: Option<String>,
    /// The claim that holds the user's groups.
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// Prefix of group names.
    #[arg(long, default_value = "", value_name = "PREFIX")]
    oidc_groups_prefix: String,
    /// Required claim, as KEY=VALUE (can be repeated).
    #[arg(long, value_name = "KEY=VALUE")]
    oidc_required_claim: Vec<String>,
    /// File of static tokens, one per line: TOKEN,USER,UID[,"GROUP1,GROUP2"]. For tests: they never expire.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Allow requests without credentials to health checks, version and kube-public/cluster-info.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub anonymous_auth: bool,
}

impl IdentityArgs {
    pub fn oidc(&self) -> anyhow::Result<Option<OidcConfig>> {
        let (Some(issuer), Some(client)) = (&self.oidc_issuer_url, &self.oidc_client_id) else { return Ok(None) };
        if !issuer.starts_with("https://") {
            bail!("--oidc-issuer-url {issuer:?} must be an https URL");
        }
        let mut required_claims = BTreeMap::new();
        for claim in &self.oidc_required_claim {
            let Some((key, value)) = claim.split_once('=') else {
                bail!("--oidc-required-claim {claim:?} must be KEY=VALUE");
            };
            required_claims.insert(key.to_owned(), value.to_owned());
        }
        let trust = match &self.oidc_ca_file {
            Some(path) => {
                ServerTrust::Bundle(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)
            }
            None => ServerTrust::System,
        };
        let rules = OidcRules {
            issuer: issuer.clone(),
            audiences: vec![client.clone()],
            username_claim: self.oidc_username_claim.clone(),
            username_prefix: self.oidc_username_prefix.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            groups_prefix: self.oidc_groups_prefix.clone(),
            required_claims,
        };
        Ok(Some(OidcConfig { rules, trust, algorithms: Algorithm::ALL.to_vec() }))
    }

    pub fn tokens(&self) -> anyhow::Result<Vec<(Secret, User)>> {
        let Some(path) = &self.token_auth_file else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        lines
            .map(|(index, line)| read_token(line).with_context(|| format!("{}:{}", path.display(), index + 1)))
            .collect()
    }
}

fn read_token(line: &str) -> anyhow::Result<(Secret, User)> {
    let mut parts = line.splitn(4, ',').map(str::trim);
    let (Some(token), Some(name), Some(uid)) = (parts.next(), parts.next(), parts.next()) else {
        bail!("a line must be TOKEN,USER,UID[,\"GROUP1,GROUP2\"]");
    };
    if token.is_empty() || name.is_empty() {
        bail!("the token and the user must not be empty");
    }
    let groups: Vec<&str> = parts.next().unwrap_or_default().trim_matches('"').split(',').map(str::trim).collect();
    let groups: Vec<&str> = groups.into_iter().filter(|group| !group.is_empty()).collect();
    let user = User { uid: uid.to_owned(), ..User::new(name, &groups) };
    Ok((Secret::new(token), user))
}
