//! Logging in: what a registry asks for, the tokens it gives, and the names and passwords Docker and Podman keep.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use object::percent;
use serde::Deserialize;

use super::{Call, Client, ClientError, address, text_of};

/// Tokens that do not say how long they live.
const TOKEN_LIFE: Duration = Duration::from_secs(60);
/// A token about to expire is not begun with.
const TOKEN_SPARE: Duration = Duration::from_secs(5);
const HELPER_MAX: Duration = Duration::from_secs(20);

/// The challenge in a 401 response.
#[derive(Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut found: HashMap<String, String> = parameters(rest);
        Some(Self::Bearer {
            realm: found.remove("realm")?,
            service: found.remove("service"),
            scope: found.remove("scope"),
        })
    }
}

/// `key="value",key=value`; commas may stand in quotes.
fn parameters(mut text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_matches([' ', ',']).to_ascii_lowercase();
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        found.insert(key, value.to_owned());
        text = after;
    }
    found
}

/// A bearer token of a registry.
#[derive(Clone)]
pub struct Token {
    header: HeaderValue,
    good_until: Option<Instant>,
}

impl Token {
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    pub fn is_good(&self) -> bool {
        self.good_until.is_none_or(|end| Instant::now() + TOKEN_SPARE < end)
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    expires_in: Option<u64>,
}

impl Client {
    /// None when there is nothing to log in with.
    pub(super) async fn log_in(&self, call: &Call<'_>, challenge: &Challenge) -> Result<Option<Token>, ClientError> {
        let login = self.credentials.of(call.host).await;
        match challenge {
            Challenge::Basic => {
                Ok(login.and_then(|login| login.basic()).map(|header| Token { header, good_until: None }))
            }
            Challenge::Bearer { realm, service, scope } => {
                let scope = scope.as_deref().filter(|scope| !scope.is_empty()).unwrap_or(&call.scope);
                self.fetch_token(call, realm, service.as_deref(), scope, login).await
            }
        }
    }

    async fn fetch_token(
        &self,
        call: &Call<'_>,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        login: Option<Login>,
    ) -> Result<Option<Token>, ClientError> {
        let broken = |why: String| ClientError::Protocol { what: call.what.clone(), why };
        let home = address(&call.url)?;
        let realm_uri = address(realm)?;
        // A password never goes where others can read it, unless the registry itself is spoken to like that.
        if realm_uri.scheme_str() == Some("http") && home.scheme_str() == Some("https") {
            return Err(broken(format!("it asks to log in without TLS, at {realm}")));
        }
        let mut form: Vec<(&str, &str)> = vec![("scope", scope)];
        form.extend(service.map(|service| ("service", service)));
        let answer = match &login {
            Some(Login::Identity(token)) => {
                form.extend([("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", "flotilla")]);
                let headers = [(CONTENT_TYPE, "application/x-www-form-urlencoded".to_owned())];
                self.once(Method::POST, &realm_uri, &headers, Bytes::from(encode(&form)), None).await?
            }
            _ => {
                let separator = if realm.contains('?') { '&' } else { '?' };
                let uri = address(&format!("{realm}{separator}{}", encode(&form)))?;
                let header = login.as_ref().and_then(Login::basic);
                self.once(Method::GET, &uri, &[], Bytes::new(), header).await?
            }
        };
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Ok(None),
            status => return Err(broken(format!("{realm} answered {status}"))),
        }
        let answer: TokenAnswer =
            serde_json::from_slice(&text_of(answer).await).map_err(|error| broken(format!("{realm}: {error}")))?;
        let token = if answer.token.is_empty() { answer.access_token } else { answer.token };
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let header = header.map_err(|_| broken(format!("the token of {realm} is no text")))?;
        let life = answer.expires_in.map_or(TOKEN_LIFE, |seconds| Duration::from_secs(seconds).max(TOKEN_LIFE));
        Ok(Some(Token { header, good_until: Some(Instant::now() + life) }))
    }
}

fn encode(form: &[(&str, &str)]) -> String {
    let pair = |(key, value): &(&str, &str)| format!("{key}={}", percent::encode(value));
    form.iter().map(pair).collect::<Vec<_>>().join("&")
}

#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    Password {
        user: String,
        password: String,
    },
    /// Stands for a login made elsewhere; exchanged for tokens.
    Identity(String),
}

impl Login {
    fn basic(&self) -> Option<HeaderValue> {
        match self {
            Self::Password { user, password } => {
                let text = STANDARD.encode(format!("{user}:{password}"));
                HeaderValue::from_str(&format!("Basic {text}")).ok()
            }
            Self::Identity(_) => None,
        }
    }
}

/// Logins from the files Docker and Podman keep; read once.
pub struct Credentials {
    files: Vec<ConfigFile>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    #[serde(default)]
    auths: HashMap<String, AuthEntry>,
    #[serde(default)]
    cred_helpers: HashMap<String, String>,
    #[serde(default)]
    creds_store: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuthEntry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

impl Credentials {
    pub fn find() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("HOME");
        let docker = variable("DOCKER_CONFIG").or_else(|| home.as_ref().map(|home| home.join(".docker")));
        let paths = [
            variable("REGISTRY_AUTH_FILE"),
            docker.map(|dir| dir.join("config.json")),
            variable("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json")),
            home.map(|home| home.join(".config/containers/auth.json")),
        ];
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).ok()?;
            serde_json::from_slice(&bytes)
                .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "logins in this file are not used"))
                .ok()
        };
        Self { files: paths.into_iter().flatten().filter_map(read).collect() }
    }

    #[cfg(test)]
    pub fn from_json(text: &str) -> Self {
        Self { files: vec![serde_json::from_str(text).expect("a test writes JSON")] }
    }

    pub async fn of(&self, host: &str) -> Option<Login> {
        for file in &self.files {
            for name in names_of(host) {
                if let Some(helper) = file.cred_helpers.get(&name)
                    && let Some(login) = ask_helper(helper, &name).await
                {
                    return Some(login);
                }
                if let Some(login) = file.auths.get(&name).and_then(AuthEntry::login) {
                    return Some(login);
                }
                if !file.creds_store.is_empty()
                    && file.auths.contains_key(&name)
                    && let Some(login) = ask_helper(&file.creds_store, &name).await
                {
                    return Some(login);
                }
            }
        }
        None
    }
}

/// The names a registry's login may be kept under.
fn names_of(host: &str) -> Vec<String> {
    if host == "registry-1.docker.io" {
        return ["https://index.docker.io/v1/", "docker.io", "index.docker.io", host].map(str::to_owned).to_vec();
    }
    vec![host.to_owned(), format!("https://{host}"), format!("http://{host}"), format!("https://{host}/v2/")]
}

impl AuthEntry {
    fn login(&self) -> Option<Login> {
        if !self.identitytoken.is_empty() {
            return Some(Login::Identity(self.identitytoken.clone()));
        }
        if !self.username.is_empty() {
            return Some(Login::Password { user: self.username.clone(), password: self.password.clone() });
        }
        let text = STANDARD.decode(self.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
        let (user, password) = text.split_once(':')?;
        Some(Login::Password { user: user.to_owned(), password: password.trim_end_matches('\0').to_owned() })
    }
}

/// Programs called `docker-credential-NAME` keep logins where no file shows them.
async fn ask_helper(helper: &str, registry: &str) -> Option<Login> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Said {
        username: String,
        secret: String,
    }
    if helper.contains('/') {
        return None;
    }
    let asking = async {
        let mut child = tokio::process::Command::new(format!("docker-credential-{helper}"))
            .arg("get")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let mut stdin = child.stdin.take()?;
        tokio::io::AsyncWriteExt::write_all(&mut stdin, registry.as_bytes()).await.ok()?;
        drop(stdin);
        child.wait_with_output().await.ok().filter(|output| output.status.success())
    };
    let output = tokio::time::timeout(HELPER_MAX, asking).await.ok()??;
    let said: Said = serde_json::from_slice(&output.stdout).ok()?;
    match said.username.as_str() {
        "<token>" => Some(Login::Identity(said.secret)),
        _ => Some(Login::Password { user: said.username, password: said.secret }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.docker.io/token".into(),
            service: Some("registry.docker.io".into()),
            scope: Some("repository:a:pull,push".into()),
        };
        assert_eq!(Challenge::parse(hub), Some(expected));
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("bearer service=x"), None);
        assert_eq!(Challenge::parse("Negotiate"), None);
    }

    #[tokio::test]
    async fn logins_are_found_by_their_registry_names() {
        let kept = Credentials::from_json(
            r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpwOnc="}, "q.io": {"identitytoken": "t"}, "127.0.0.1:5000": {"username": "a", "password": "b"}}}"#,
        );
        let password = |user: &str, password: &str| Login::Password { user: user.into(), password: password.into() };
        assert!(kept.of("registry-1.docker.io").await == Some(password("u", "p:w")));
        assert!(kept.of("q.io").await == Some(Login::Identity("t".into())));
        assert!(kept.of("127.0.0.1:5000").await == Some(password("a", "b")));
        assert!(kept.of("127.0.0.1:5001").await.is_none());
    }
}
