//! `flotilla login`: a kubeconfig with a context for the manager and for each instance.

use std::io::BufRead;
use std::path::PathBuf;

use ::karmadactl::console::Console;
use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use cluster_client::remote::config::Pem;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use serde_json::{Value, json};

use super::connection::send;

/// Log in to a manager with a local account and write a kubeconfig: one context for the manager, one for each instance.
#[derive(Args)]
pub struct LoginArgs {
    /// URL of the manager
    #[arg(value_name = "URL")]
    server: String,
    /// User name
    #[arg(long, value_name = "NAME")]
    user: String,
    /// File with the password; `-` reads the first line of the standard input.
    #[arg(long, default_value = "-", value_name = "FILE")]
    password_file: PathBuf,
    /// CA certificate of the manager [default: the system's CAs].
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Kubeconfig to write.
    #[arg(short, long, default_value = "flotilla-login.config", value_name = "FILE")]
    output: PathBuf,
}

pub async fn run(console: &Console, args: LoginArgs) -> anyhow::Result<()> {
    ensure!(args.server.starts_with("https://"), "{:?} must begin with https://", args.server);
    let server = args.server.trim_end_matches('/').to_owned();
    let ca = args
        .certificate_authority
        .as_ref()
        .map(|path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display())));
    let ca = ca.transpose()?;
    let mut config = RemoteConfig::new(server.clone());
    config.ca = ca.clone().map(Pem::Text);
    let client = ClusterClient::connect(Endpoint::Remote(config))?;
    let body = json!({"user": args.user, "password": args.password()?});
    let answer = send(&client, http::Method::POST, "/flotilla/manager/login", Some(body)).await?;
    let token = answer["token"].as_str().context("the manager returned no token")?;
    let instances: Vec<&str> = answer["instances"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = object::yaml::to_string(&contexts(&server, ca.as_deref(), &args.user, token, &instances));
    pki::key_dir::write_atomic(&args.output, text.as_bytes(), pki::key_dir::PRIVATE)?;
    let names = if instances.is_empty() { "no instances".to_owned() } else { instances.join(", ") };
    let until = answer["expiresAt"].as_str().unwrap_or_default();
    console.line(format_args!("{}: contexts manager, {names}; valid until {until}", args.output.display()))?;
    Ok(())
}

impl LoginArgs {
    fn password(&self) -> anyhow::Result<String> {
        let text = if self.password_file.as_os_str() == "-" {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).context("cannot read the password")?;
            line
        } else {
            std::fs::read_to_string(&self.password_file)
                .with_context(|| format!("cannot read {}", self.password_file.display()))?
        };
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

fn contexts(server: &str, ca: Option<&[u8]>, user: &str, token: &str, instances: &[&str]) -> Value {
    let cluster = |name: &str, url: String| {
        let mut cluster = json!({"server": url});
        if let Some(ca) = ca {
            cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
        }
        json!({"name": name, "cluster": cluster})
    };
    let context = |name: &str| json!({"name": name, "context": {"cluster": name, "user": user}});
    let mut clusters = vec![cluster("manager", server.to_owned())];
    clusters.extend(instances.iter().map(|name| cluster(name, format!("{server}/instances/{name}"))));
    let mut all = vec![context("manager")];
    all.extend(instances.iter().map(|name| context(name)));
    json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "manager",
        "clusters": clusters, "contexts": all, "users": [{"name": user, "user": {"token": token}}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_is_a_context() {
        let config = contexts("https://m:5443", Some(b"pem"), "ann", "flm_x", &["east"]);
        let text = object::yaml::to_string(&config);
        let parsed = cluster_client::Kubeconfig::parse(&text, std::path::Path::new("/")).expect("a kubeconfig");
        assert_eq!(parsed.contexts().collect::<Vec<_>>(), ["east", "manager"]);
        let remote = parsed.remote(Some("east")).expect("a context");
        assert_eq!(remote.server, "https://m:5443/instances/east");
        assert_eq!(remote.credentials.token.as_deref(), Some("flm_x"));
    }
}
