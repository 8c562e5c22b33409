//! `create configmap` and `create secret`.

use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use object::Object;
use serde_json::{Map, Value, json};

use crate::create::CreateOptions;
use crate::create::generators::{make, pair};

/// Sources of keys and values.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Key and value
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// File, directory or KEY=FILE; the default key is the name of the file
    #[arg(long, value_delimiter = ',', value_name = "[KEY=]FILE")]
    from_file: Vec<String>,
    /// File with lines of KEY=VALUE
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    from_env_file: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ConfigMapArgs {
    /// Name of the config map
    name: String,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    pub common: CreateOptions,
}

#[derive(Args, Debug)]
pub struct GenericSecretArgs {
    /// Name of the secret
    name: String,
    #[command(flatten)]
    sources: SourceArgs,
    /// Type of the secret [default: Opaque]
    #[arg(long = "type", value_name = "TYPE")]
    secret_type: Option<String>,
    #[command(flatten)]
    pub common: CreateOptions,
}

#[derive(Args, Debug)]
pub struct TlsSecretArgs {
    /// Name of the secret
    name: String,
    /// File with the certificate
    #[arg(long, value_name = "FILE")]
    cert: String,
    /// File with the private key
    #[arg(long, value_name = "FILE")]
    key: String,
    #[command(flatten)]
    pub common: CreateOptions,
}

#[derive(Args, Debug)]
pub struct DockerRegistryArgs {
    /// Name of the secret
    name: String,
    /// Address of the registry
    #[arg(long, default_value = "https://index.docker.io/v1/", value_name = "URL")]
    docker_server: String,
    /// User name
    #[arg(long, value_name = "USER", required_unless_present = "from_file")]
    docker_username: Option<String>,
    /// Password
    #[arg(long, value_name = "PASSWORD", required_unless_present = "from_file")]
    docker_password: Option<String>,
    /// E-mail address
    #[arg(long, value_name = "EMAIL")]
    docker_email: Option<String>,
    /// File of credentials, such as ~/.docker/config.json
    #[arg(long, value_name = "FILE")]
    from_file: Option<String>,
    #[command(flatten)]
    pub common: CreateOptions,
}

impl SourceArgs {
    /// Reads all values; a key may be set once.
    fn read(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        if !self.from_env_file.is_empty() && (!self.from_file.is_empty() || !self.from_literal.is_empty()) {
            bail!("from-env-file cannot be combined with from-file or from-literal");
        }
        let mut entries: Vec<(String, Vec<u8>)> = Vec::new();
        for text in &self.from_literal {
            let (key, value) = pair(text, "from-literal")?;
            entries.push((key.to_owned(), value.as_bytes().to_vec()));
        }
        for text in &self.from_file {
            read_files(text, &mut entries)?;
        }
        for path in &self.from_env_file {
            read_environment(path, &mut entries)?;
        }
        for (index, (key, _)) in entries.iter().enumerate() {
            check_key(key)?;
            if entries[..index].iter().any(|(other, _)| other == key) {
                bail!("cannot add key {key:?}, another key by that name already exists");
            }
        }
        Ok(entries)
    }
}

fn check_key(key: &str) -> anyhow::Result<()> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if key.is_empty() || key.len() > 253 || !key.chars().all(is_valid) || key == "." || key == ".." {
        bail!("{key:?} is not a valid key: use letters, digits, '-', '_' and '.'");
    }
    Ok(())
}

fn read_files(text: &str, entries: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let (key, path) = match text.split_once('=') {
        Some((key, path)) => (Some(key), path),
        None => (None, text),
    };
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("error reading {}", path.display()));
    let name_of = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = Path::new(path);
    if !path.is_dir() {
        entries.push((key.map_or_else(|| name_of(path), str::to_owned), read(path)?));
        return Ok(());
    }
    if key.is_some() {
        bail!("cannot give a key name for a directory path: {text}");
    }
    let mut files: Vec<_> = std::fs::read_dir(path)
        .with_context(|| format!("error listing files in {}", path.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in files.iter().filter(|file| check_key(&name_of(file)).is_ok()) {
        entries.push((name_of(file), read(file)?));
    }
    Ok(())
}

/// Reads lines of `KEY=VALUE`; a key alone takes its value from the environment.
fn read_environment(path: &str, entries: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("error reading {path}"))?;
    for line in text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once('=') {
            Some((key, value)) => entries.push((key.to_owned(), value.as_bytes().to_vec())),
            None => {
                let value = std::env::var(line).ok();
                entries.extend(value.map(|value| (line.to_owned(), value.into_bytes())));
            }
        }
    }
    Ok(())
}

fn encoded(entries: Vec<(String, Vec<u8>)>) -> Map<String, Value> {
    entries.into_iter().map(|(key, value)| (key, STANDARD.encode(value).into())).collect()
}

impl ConfigMapArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let mut config_map = make("v1", "ConfigMap", &self.name);
        for (key, value) in self.sources.read()? {
            match String::from_utf8(value) {
                Ok(text) => config_map.set(&["data", &key], text),
                Err(bytes) => config_map.set(&["binaryData", &key], STANDARD.encode(bytes.as_bytes())),
            }
        }
        Ok(config_map)
    }
}

impl GenericSecretArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let mut secret = make("v1", "Secret", &self.name);
        let data = encoded(self.sources.read()?);
        if !data.is_empty() {
            secret.set(&["data"], data);
        }
        if let Some(kind) = &self.secret_type {
            secret.set(&["type"], kind.as_str());
        }
        Ok(secret)
    }
}

impl TlsSecretArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let read = |path: &str| std::fs::read(path).with_context(|| format!("error reading {path}"));
        let (certificate, key) = (read(&self.cert)?, read(&self.key)?);
        if !String::from_utf8_lossy(&certificate).contains("-----BEGIN CERTIFICATE-----") {
            bail!("--cert {}: not a certificate in PEM", self.cert);
        }
        if !String::from_utf8_lossy(&key).contains("PRIVATE KEY-----") {
            bail!("--key {}: not a private key in PEM", self.key);
        }
        let mut secret = make("v1", "Secret", &self.name);
        secret.set(&["data"], encoded(vec![("tls.crt".to_owned(), certificate), ("tls.key".to_owned(), key)]));
        secret.set(&["type"], "kubernetes.io/tls");
        Ok(secret)
    }
}

impl DockerRegistryArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        let config = match &self.from_file {
            Some(path) => {
                let path = path.strip_prefix(".dockerconfigjson=").unwrap_or(path);
                std::fs::read(path).with_context(|| format!("error reading {path}"))?
            }
            None => {
                let (user, password) = (self.docker_username.as_deref(), self.docker_password.as_deref());
                let (user, password) = (user.unwrap_or_default(), password.unwrap_or_default());
                let mut entry = json!({
                    "username": user, "password": password, "auth": STANDARD.encode(format!("{user}:{password}")),
                });
                if let Some(email) = &self.docker_email {
                    entry["email"] = email.as_str().into();
                }
                json!({"auths": {&self.docker_server: entry}}).to_string().into_bytes()
            }
        };
        let mut secret = make("v1", "Secret", &self.name);
        secret.set(&["data"], encoded(vec![(".dockerconfigjson".to_owned(), config)]));
        secret.set(&["type"], "kubernetes.io/dockerconfigjson");
        Ok(secret)
    }
}
