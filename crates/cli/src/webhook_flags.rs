//! Flags of webhooks that identify and authorize callers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api_host::Options;
use apiserver::auth::Authorizer;
use apiserver::auth::webhook::{AccessWebhook, AccessWebhookSettings, WebhookEndpoint};
use clap::Args;

#[derive(Args)]
#[command(next_help_heading = "Identity")]
pub struct WebhookArgs {
    /// Kubeconfig of a webhook that identifies bearer tokens (TokenReview) nothing else here knows.
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// Time for which answers of the token webhook are kept.
    #[arg(long, default_value = "2m", value_parser = read_duration, value_name = "DURATION")]
    authentication_token_webhook_cache_ttl: Duration,
    /// Comma-separated authorizers in the order in which they are asked: RBAC, Webhook.
    #[arg(long, value_delimiter = ',', default_value = "RBAC", value_name = "NAME")]
    authorization_mode: Vec<String>,
    /// Kubeconfig of the webhook that authorizes requests (SubjectAccessReview); requires Webhook in --authorization-mode.
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// Time for which the authorization webhook's consent is kept.
    #[arg(long, default_value = "5m", value_parser = read_duration, value_name = "DURATION")]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// Time for which its refusals are kept.
    #[arg(long, default_value = "30s", value_parser = read_duration, value_name = "DURATION")]
    authorization_webhook_cache_unauthorized_ttl: Duration,
    /// AuthorizationConfiguration (apiserver.config.k8s.io): authorizers in their order, webhooks with match conditions
    /// among them; replaces the other authorization flags. Changes apply without a restart.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "authorization_mode", "authorization_webhook_config_file", "authorization_webhook_cache_authorized_ttl",
        "authorization_webhook_cache_unauthorized_ttl",
    ])]
    authorization_config: Option<PathBuf>,
}

/// An authorizer that `--authorization-mode` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthorizerKind {
    Rbac,
    Webhook,
}

impl WebhookArgs {
    pub fn apply(&self, host: &mut Options) -> anyhow::Result<()> {
        if let Some(path) = &self.authentication_token_webhook_config_file {
            let endpoint = endpoint(path, "--authentication-token-webhook-config-file")?;
            host.token_webhook = Some((endpoint, self.authentication_token_webhook_cache_ttl));
        }
        host.authorization_config = self.authorization_config.clone();
        host.authorizers = self.authorizers()?;
        Ok(())
    }

    fn authorizers(&self) -> anyhow::Result<Vec<Authorizer>> {
        let mut webhook = match &self.authorization_webhook_config_file {
            Some(path) => Some(endpoint(path, "--authorization-webhook-config-file")?),
            None => None,
        };
        let mut authorizers = Vec::new();
        for kind in self.authorizer_kinds()? {
            authorizers.push(match kind {
                AuthorizerKind::Rbac => Authorizer::Rbac,
                AuthorizerKind::Webhook => {
                    let endpoint = webhook
                        .take()
                        .context("--authorization-mode Webhook requires --authorization-webhook-config-file")?;
                    let settings = AccessWebhookSettings::keeping(
                        self.authorization_webhook_cache_authorized_ttl,
                        self.authorization_webhook_cache_unauthorized_ttl,
                    );
                    Authorizer::Webhook(Arc::new(AccessWebhook::new(endpoint, settings)))
                }
            });
        }
        match webhook {
            Some(_) => bail!("--authorization-webhook-config-file requires Webhook in --authorization-mode"),
            None => Ok(authorizers),
        }
    }

    fn authorizer_kinds(&self) -> anyhow::Result<Vec<AuthorizerKind>> {
        let mut order = Vec::new();
        for name in &self.authorization_mode {
            let kind = match name.as_str() {
                "RBAC" => AuthorizerKind::Rbac,
                "Webhook" => AuthorizerKind::Webhook,
                // Manifests of kube-apiserver have it; there are no nodes to authorize here.
                "Node" => {
                    tracing::warn!("--authorization-mode Node has no effect: no kubelets connect to this server");
                    continue;
                }
                other => bail!("--authorization-mode {other:?} must be RBAC or Webhook"),
            };
            if order.contains(&kind) {
                bail!("--authorization-mode has {name} twice");
            }
            order.push(kind);
        }
        // Without it no role of a user counts, and system components have no rights.
        if !order.contains(&AuthorizerKind::Rbac) {
            bail!(
                "--authorization-mode must include RBAC: components of the control plane get their rights from roles"
            );
        }
        Ok(order)
    }
}

/// Reads the kubeconfig of a webhook that a flag names.
pub fn endpoint(path: &Path, flag: &str) -> anyhow::Result<WebhookEndpoint> {
    let named = || format!("{flag} {}", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    WebhookEndpoint::of_kubeconfig(&text, directory).with_context(named)
}

pub fn read_duration(text: &str) -> Result<Duration, String> {
    let read = object::duration::parse(text).ok().and_then(|duration| Duration::try_from(duration).ok());
    read.ok_or_else(|| format!("{text:?} is not a duration such as 30s or 2m"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: WebhookArgs,
    }

    fn apply(arguments: &[&str]) -> Result<Vec<AuthorizerKind>, String> {
        let line = Line::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let mut host = Options::new("test", "/nowhere", "127.0.0.1:0".parse().expect("an address"));
        line.args.apply(&mut host).map_err(|error| format!("{error:#}"))?;
        let kind = |authorizer: &Authorizer| match authorizer {
            Authorizer::Rbac => AuthorizerKind::Rbac,
            Authorizer::Webhook(_) => AuthorizerKind::Webhook,
        };
        Ok(host.authorizers.iter().map(kind).collect())
    }

    #[test]
    fn flags_that_do_not_fit_are_refused() {
        let directory = std::env::temp_dir().join(format!("webhook-flags-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("config");
        std::fs::write(&file, "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1/x'}}]").expect("written");
        let config = format!("--authorization-webhook-config-file={}", file.display());
        assert_eq!(apply(&[]), Ok(vec![AuthorizerKind::Rbac]));
        let both = Ok(vec![AuthorizerKind::Webhook, AuthorizerKind::Rbac]);
        assert_eq!(apply(&["--authorization-mode=Node,Webhook,RBAC", &config]), both);
        for (arguments, problem) in [
            (vec!["--authorization-mode=Webhook,RBAC"], "requires --authorization-webhook-config-file"),
            (vec![config.as_str()], "requires Webhook in --authorization-mode"),
            (vec!["--authorization-mode=Webhook", config.as_str()], "must include RBAC"),
            (vec!["--authorization-config=/f", "--authorization-mode=RBAC"], "cannot be used with"),
            (vec!["--authorization-mode=ABAC"], "must be RBAC or Webhook"),
            (vec!["--authorization-mode=RBAC,RBAC"], "twice"),
            (vec!["--authentication-token-webhook-cache-ttl=x"], "not a duration"),
            (vec!["--authentication-token-webhook-config-file=/nowhere/file"], "/nowhere/file"),
        ] {
            let error = apply(&arguments).expect_err("refused");
            assert!(error.contains(problem), "{arguments:?}: {error}");
        }
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
