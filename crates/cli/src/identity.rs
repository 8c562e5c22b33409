//! Flags of `flotilla server` for authentication.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use apiserver::auth::{OidcConfig, SignInConfig, TokenRules};
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
    /// Comma-separated signature algorithms that are accepted, such as RS256 [default: all that can be verified].
    #[arg(long, value_delimiter = ',', value_name = "NAME", requires = "oidc_issuer_url")]
    oidc_signing_algs: Vec<String>,
    /// File with the secret of the OpenID Connect client, for sign-in in the web console; a public client has none.
    #[arg(long, value_name = "FILE", requires = "oidc_client_id")]
    oidc_client_secret_file: Option<PathBuf>,
    /// Scopes that the web console requests when a user signs in at the issuer.
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = "openid,profile,email")]
    oidc_scopes: Vec<String>,
    /// File of static tokens, one per line: TOKEN,USER,UID[,"GROUP1,GROUP2"]. For tests: they never expire.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// AuthenticationConfiguration (apiserver.config.k8s.io): issuers of tokens, CEL claim mappings and validation rules,
    /// and paths open to requests without credentials; replaces --oidc-*. Changes apply without a restart.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "oidc_issuer_url", "oidc_client_id", "oidc_ca_file", "oidc_username_claim", "oidc_username_prefix",
        "oidc_groups_claim", "oidc_groups_prefix", "oidc_required_claim", "oidc_signing_algs",
        "oidc_client_secret_file", "oidc_scopes",
    ])]
    pub authentication_config: Option<PathBuf>,
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
        let client_secret = match &self.oidc_client_secret_file {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                Some(Secret::new(text.trim()))
            }
            None => None,
        };
        if !self.oidc_scopes.iter().any(|scope| scope == "openid") {
            bail!("--oidc-scopes must contain openid, as no token is issued without it");
        }
        let sign_in = SignInConfig { client_secret, scopes: self.oidc_scopes.clone() };
        let rules = TokenRules::Flags(rules);
        Ok(Some(OidcConfig { rules, discovery_url: None, trust, algorithms: self.algorithms()?, sign_in }))
    }

    fn algorithms(&self) -> anyhow::Result<Vec<Algorithm>> {
        if self.oidc_signing_algs.is_empty() {
            return Ok(Algorithm::ALL.to_vec());
        }
        let find = |name: &String| {
            let known = Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name);
            let names = || Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>().join(", ");
            known.ok_or_else(|| anyhow::anyhow!("--oidc-signing-algs {name:?} must be one of {}", names()))
        };
        self.oidc_signing_algs.iter().map(find).collect()
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
