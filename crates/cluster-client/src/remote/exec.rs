//! Credential plugins: programs that print a token or a client certificate (`client.authentication.k8s.io`).

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

/// Timeout of a plugin.
pub const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest part of a plugin's error text that is reported.
const ERROR_BYTES_MAX: usize = 2048;

const SUPPORTED: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecPlugin {
    pub api_version: String,
    /// Absolute, relative with a slash (to the kubeconfig's directory, already resolved), or looked up in `PATH`.
    pub command: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub install_hint: String,
    /// Passed to the plugin on request: server, certificate authority and the like.
    pub cluster_info: Option<Value>,
    pub interactive_mode: Option<String>,
}

/// The output of a plugin.
#[derive(Clone, Default)]
pub struct ExecCredential {
    pub token: Option<String>,
    pub certificate_and_key: Option<(String, String)>,
    /// Expiry of the credential.
    pub expires: Option<SystemTime>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("unsupported exec plugin API version {0:?}; client.authentication.k8s.io/v1 and v1beta1 are supported")]
    ApiVersion(String),
    #[error("the exec plugin {0} needs a terminal (interactiveMode: Always)")]
    NeedsTerminal(String),
    #[error("cannot start the exec plugin {command}{hint}")]
    Start { command: String, hint: String, source: std::io::Error },
    #[error("the exec plugin {0} did not end within {PLUGIN_TIMEOUT:?}")]
    Timeout(String),
    #[error("the exec plugin {command} failed with {status}: {text}")]
    Failed { command: String, status: std::process::ExitStatus, text: String },
    #[error("the exec plugin {command} printed no valid credential: {why}")]
    Output { command: String, why: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    api_version: String,
    kind: String,
    status: Option<PrintedStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedStatus {
    #[serde(default)]
    token: String,
    #[serde(default)]
    client_certificate_data: String,
    #[serde(default)]
    client_key_data: String,
    expiration_timestamp: Option<String>,
}

impl ExecPlugin {
    pub fn check(&self) -> Result<(), ExecError> {
        if !SUPPORTED.contains(&self.api_version.as_str()) {
            return Err(ExecError::ApiVersion(self.api_version.clone()));
        }
        if self.interactive_mode.as_deref() == Some("Always") {
            return Err(ExecError::NeedsTerminal(self.name()));
        }
        Ok(())
    }

    pub async fn run(&self) -> Result<ExecCredential, ExecError> {
        self.check()?;
        let mut spec = json!({"interactive": false});
        if let Some(cluster) = &self.cluster_info {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec});
        let mut command = Command::new(&self.command);
        command.args(&self.args).envs(self.env.iter().map(|(k, v)| (k, v)));
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn().map_err(|source| {
            let hint = if self.install_hint.is_empty() { String::new() } else { format!(": {}", self.install_hint) };
            ExecError::Start { command: self.name(), hint, source }
        })?;
        let output = tokio::time::timeout(PLUGIN_TIMEOUT, child.wait_with_output())
            .await
            .map_err(|_| ExecError::Timeout(self.name()))?
            .map_err(|e| self.bad_output(e))?;
        if !output.status.success() {
            let text = &output.stderr[..output.stderr.len().min(ERROR_BYTES_MAX)];
            let text = String::from_utf8_lossy(text).trim().to_owned();
            return Err(ExecError::Failed { command: self.name(), status: output.status, text });
        }
        self.read(&output.stdout)
    }

    fn read(&self, stdout: &[u8]) -> Result<ExecCredential, ExecError> {
        let printed: Printed = serde_json::from_slice(stdout).map_err(|e| self.bad_output(e))?;
        if printed.kind != "ExecCredential" || printed.api_version != self.api_version {
            return Err(self.bad_output(format!(
                "it is a {} of {}, expected an ExecCredential of {}",
                printed.kind, printed.api_version, self.api_version
            )));
        }
        let status = printed.status.ok_or_else(|| self.bad_output("it has no status"))?;
        let certificate_and_key = match (status.client_certificate_data, status.client_key_data) {
            (certificate, key) if certificate.is_empty() && key.is_empty() => None,
            (certificate, key) if !certificate.is_empty() && !key.is_empty() => Some((certificate, key)),
            _ => return Err(self.bad_output("a client certificate and its key come together or not at all")),
        };
        let token = (!status.token.is_empty()).then_some(status.token);
        if token.is_none() && certificate_and_key.is_none() {
            return Err(self.bad_output("it has neither a token nor a client certificate"));
        }
        let expires = match status.expiration_timestamp {
            None => None,
            Some(text) => Some(
                object::time::parse(&text)
                    .and_then(|time| UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(time.as_second()).ok()?)))
                    .ok_or_else(|| self.bad_output(format!("{text:?} is not a time")))?,
            ),
        };
        Ok(ExecCredential { token, certificate_and_key, expires })
    }

    fn bad_output(&self, why: impl ToString) -> ExecError {
        ExecError::Output { command: self.name(), why: why.to_string() }
    }

    fn name(&self) -> String {
        self.command.display().to_string()
    }
}

impl ExecCredential {
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}
