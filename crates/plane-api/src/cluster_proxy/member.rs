//! A member as the proxy reaches it: its endpoint, its CA, and the credentials to impersonate callers.

use std::io;
use std::sync::Arc;

use api::cluster::{CLUSTERS, ClusterSpec, SECRET_CA_BUNDLE, SECRET_TOKEN, SecretReference, SyncMode};
use apiserver::forwarding;
use apiserver::http::Incoming;
use apiserver::respond::Body;
use apiserver::server::Server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::remote::config::{Credentials, Pem};
use cluster_client::remote::connect::{Dialer, open_http1, open_http1_over};
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use object::request::User;
use object::request::user::{AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP};
use object::{Object, Status};

use super::tunnels::{Route, Tunnels};

/// A member and the token to impersonate callers in it.
pub struct ProxiedMember {
    name: String,
    config: RemoteConfig,
    impersonator_token: String,
    /// The tunnel of its agent; the member is dialled directly when there is none.
    route: Option<Route>,
}

/// Reads the endpoint and credentials of a member from its Cluster and the secrets it names.
pub async fn find(server: &Server, tunnels: &Tunnels, name: &str) -> Result<ProxiedMember, Status> {
    let (spec, route) = locate(server, tunnels, name).await?;
    let Some(reference) = &spec.impersonator_secret_ref else {
        return Err(unreachable(name, "it has no spec.impersonatorSecretRef, so callers cannot be impersonated in it"));
    };
    let impersonator = secret(server, name, reference).await?;
    let impersonator_token = secret_text(&impersonator, SECRET_TOKEN)
        .ok_or_else(|| unreachable(name, &format!("secret {}/{} has no token", reference.namespace, reference.name)))?;
    let ca = match (&spec.secret_ref, spec.insecure_skip_tls_verification) {
        (Some(reference), false) => certificate_authority(&spec, &secret(server, name, reference).await?),
        _ => None,
    };
    Ok(ProxiedMember { name: name.to_owned(), config: config(&spec, ca, tunnels.addresses), impersonator_token, route })
}

/// Returns the spec of a Cluster and the tunnel of its agent. With a tunnel, the API endpoint is the one the agent reported.
pub(super) async fn locate(
    server: &Server,
    tunnels: &Tunnels,
    name: &str,
) -> Result<(ClusterSpec, Option<Route>), Status> {
    let gvr = CLUSTERS.gvr();
    let cluster = read(server, CLUSTERS.group, CLUSTERS.version, CLUSTERS.plural, "", name).await?;
    let cluster = cluster.ok_or_else(|| Status::not_found(&gvr.group_resource(), name))?;
    let mut spec: ClusterSpec = api::read(&cluster)?;
    let route = route(server, tunnels, name, spec.sync_mode).await?;
    if let Some(route) = &route {
        route.server().clone_into(&mut spec.api_endpoint);
    }
    if route.is_none() && spec.sync_mode == SyncMode::Pull && spec.insecure_skip_tls_verification {
        // The agent chose the address, and any server there would receive the credentials.
        let problem = "its spec.insecureSkipTLSVerification is true, and no credentials are sent to an unverified \
            address of a pull-mode cluster; connect it with `flotilla agent`, which opens a tunnel";
        return Err(unreachable(name, problem));
    }
    if spec.api_endpoint.is_empty() {
        let problem = "its spec.apiEndpoint is empty, and no `flotilla agent` has opened a tunnel to it";
        return Err(unreachable(name, problem));
    }
    Ok((spec, route))
}

/// Only agents of pull-mode members may be connected to another replica.
pub(super) async fn route(
    server: &Server,
    tunnels: &Tunnels,
    name: &str,
    mode: SyncMode,
) -> Result<Option<Route>, Status> {
    match mode {
        SyncMode::Push => Ok(tunnels.to(name).map(Route::Own)),
        SyncMode::Pull => tunnels.route(&**server.objects.store(), name).await,
    }
}

/// Returns the CA of the member; `None` stands for the system's CAs.
pub(super) fn certificate_authority(spec: &ClusterSpec, secret: &Object) -> Option<String> {
    if spec.insecure_skip_tls_verification { None } else { secret_text(secret, SECRET_CA_BUNDLE) }
}

pub(super) fn config(spec: &ClusterSpec, ca: Option<String>, addresses: AddressPolicy) -> RemoteConfig {
    let server = match spec.api_endpoint.contains("://") {
        true => spec.api_endpoint.clone(),
        false => format!("https://{}", spec.api_endpoint),
    };
    let mut config = RemoteConfig::new(server);
    config.ca = ca.map(|ca| Pem::Text(ca.into_bytes()));
    config.insecure_skip_tls_verify = spec.insecure_skip_tls_verification;
    config.proxy = (!spec.proxy_url.is_empty()).then(|| spec.proxy_url.clone());
    let headers = spec.proxy_header.iter();
    let split = headers.flat_map(|(name, values)| values.split(',').map(move |value| (name.clone(), value.to_owned())));
    config.proxy_headers = split.collect();
    config.addresses = addresses;
    config
}

impl ProxiedMember {
    /// Returns a client that acts as the caller, for several requests.
    pub fn client_as(&self, user: &User) -> Result<ClusterClient, Status> {
        let mut config = self.config.clone();
        config.credentials = Credentials { token: Some(self.impersonator_token.clone()), ..Credentials::default() };
        config.impersonate = Some(User {
            groups: user.groups.iter().filter(|group| is_impersonated(group)).cloned().collect(),
            ..User::new(&user.name, &[])
        });
        if let Some(route) = &self.route {
            let route = route.clone();
            config.dialer = Some(Dialer::new(move || {
                let route = route.clone();
                Box::pin(async move { route.dial().await.map_err(io::Error::other) })
            }));
        }
        ClusterClient::connect(Endpoint::Remote(config)).map_err(|error| self.failed(&error.to_string()))
    }

    /// Forwards the request as the caller and streams the response back.
    pub async fn forward(&self, path: &str, user: &User, incoming: Incoming) -> Result<Response<Body>, Status> {
        let upgrade = forwarding::wants_upgrade(&incoming);
        let headers = self.headers(&incoming.headers, user, upgrade)?;
        let response = self.send(incoming.method, path, headers, forwarding::body_of(incoming.body)).await?;
        forwarding::answer(response, incoming.upgrade)
    }

    /// Sends one request with headers that already name the caller.
    pub async fn send(
        &self,
        method: http::Method,
        path: &str,
        mut headers: HeaderMap,
        body: forwarding::OutgoingBody,
    ) -> Result<Response<hyper::body::Incoming>, Status> {
        let base: Uri = self.config.server.parse().map_err(|_| self.failed("its spec.apiEndpoint is not a URL"))?;
        let prefix = base.path().trim_end_matches('/');
        let target: Uri = format!("{prefix}{path}").parse().map_err(|_| Status::bad_request("not a path"))?;
        let host = base.authority().map_or("", |authority| authority.as_str());
        headers.insert(header::HOST, HeaderValue::from_str(host).map_err(|error| self.failed(&error.to_string()))?);
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        let opened = match &self.route {
            Some(route) => {
                let route = route.clone().dial().await.map_err(|problem| self.failed(&problem))?;
                open_http1_over(&self.config, route).await
            }
            None => open_http1(&self.config).await,
        };
        let stream = opened.map_err(|error| self.failed(&error.to_string()))?;
        forwarding::exchange(stream, request).await.map_err(|error| self.failed(&error.to_string()))
    }

    /// Returns the caller's headers with impersonation instead of credentials.
    pub fn headers(&self, headers: &HeaderMap, user: &User, upgrade: bool) -> Result<HeaderMap, Status> {
        let mut out = forwarding::passed_headers(headers, upgrade);
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Status::bad_request("not a header value"));
        out.insert(header::AUTHORIZATION, value(&format!("bearer {}", self.impersonator_token))?);
        out.insert(HeaderName::from_static("impersonate-user"), value(&user.name)?);
        for group in user.groups.iter().filter(|group| is_impersonated(group)) {
            out.append(HeaderName::from_static("impersonate-group"), value(group)?);
        }
        Ok(out)
    }

    fn failed(&self, problem: &str) -> Status {
        unreachable(&self.name, problem)
    }
}

/// Every member adds the two other groups by itself; the impersonator may lack the right to set them.
fn is_impersonated(group: &str) -> bool {
    group != AUTHENTICATED_GROUP && group != UNAUTHENTICATED_GROUP
}

pub(super) fn unreachable(name: &str, problem: &str) -> Status {
    Status::unavailable(format!("cluster {name} cannot be reached: {problem}"))
}

pub(super) async fn secret(server: &Server, cluster: &str, reference: &SecretReference) -> Result<Object, Status> {
    let found = read(server, "", "v1", "secrets", &reference.namespace, &reference.name).await?;
    let missing = || unreachable(cluster, &format!("there is no secret {}/{}", reference.namespace, reference.name));
    found.ok_or_else(missing)
}

pub(super) fn secret_text(secret: &Object, key: &str) -> Option<String> {
    let decoded = STANDARD.decode(secret.str_at(&["data", key])).ok()?;
    String::from_utf8(decoded).ok().filter(|text| !text.is_empty())
}

async fn read(
    server: &Server,
    group: &str,
    version: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Status> {
    let Some(resource) = server.registry.find(group, version, plural) else {
        return Ok(None);
    };
    Ok(server.objects.get(&resource.key(namespace, name)).await?.map(|current| current.object))
}

/// Returns the names of all members, sorted.
pub async fn names(server: &Arc<Server>) -> Result<Vec<String>, Status> {
    let Some(resource) = server.registry.find(CLUSTERS.group, CLUSTERS.version, CLUSTERS.plural) else {
        return Ok(Vec::new());
    };
    resource.cache.fresh().await?;
    let entries = resource.cache.entries(&apiserver::cache::Filter::default());
    let mut names: Vec<String> = entries.iter().map(|entry| entry.decode().name().to_owned()).collect();
    names.sort();
    Ok(names)
}
