//! `clusters/NAME/proxy`: proxies requests to a member's API as the caller; `*` sends them to all members.

mod all_members;
mod as_plane;
mod member;
pub mod peers;
pub mod tunnels;

use std::sync::Arc;

use apiserver::forwarding;
use apiserver::http::{Incoming, Peer, RequestBody};
use apiserver::respond::Body;
use apiserver::server::Server;
use apiserver::subresource::{ConnectHandler, ConnectRequest};
use apiserver::verbs::Target;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use http::{Response, Uri};
use object::Status;
use object::request::Subresource;
use object::request::User;

use self::tunnels::Tunnels;

pub use as_plane::client as plane_client;

/// Answers for the proxy subresource of clusters.
pub struct ClusterProxy {
    pub tunnels: Arc<Tunnels>,
}

#[async_trait]
impl ConnectHandler for ClusterProxy {
    fn handles(&self, target: &Target) -> bool {
        let kind = &target.resource.kind;
        kind.gvk.group == api::cluster::GROUP
            && kind.plural == "clusters"
            && target.subresource == Some(Subresource::Proxy)
    }

    async fn connect(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let path = inner_path(&request.incoming.uri, request.incoming.query.get("path"));
        if request.target.name == "*" {
            return all_members::serve(server, &self.tunnels, &path, request).await;
        }
        forward(server, &self.tunnels, &request.target.name, &path, &request.user, request.incoming).await
    }
}

/// Sends a request to a member as the caller and streams the response back; `path` includes the query.
pub async fn forward(
    server: &Server,
    tunnels: &Tunnels,
    cluster: &str,
    path: &str,
    user: &User,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    member::find(server, tunnels, cluster).await?.forward(path, user, incoming).await
}

/// Returns a client of a member that acts as the caller, with the credentials of the proxy.
pub async fn client_as(
    server: &Server,
    tunnels: &Tunnels,
    cluster: &str,
    user: &User,
) -> Result<ClusterClient, Status> {
    member::find(server, tunnels, cluster).await?.client_as(user)
}

/// Handles a request in this server, as the caller, with another path.
pub async fn answer_here(
    server: &Arc<Server>,
    path: &str,
    user: Arc<User>,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let upgrades = forwarding::wants_upgrade(&incoming);
    let mut request = http::Request::new(RequestBody::Whole(incoming.body.read().await?));
    *request.method_mut() = incoming.method;
    *request.uri_mut() = path.parse().map_err(|_| Status::bad_request("not a path"))?;
    *request.headers_mut() = forwarding::passed_headers(&incoming.headers, upgrades);
    if let Some(upgrade) = incoming.upgrade {
        request.extensions_mut().insert(upgrade);
    }
    let peer = Arc::new(Peer { address: ([127, 0, 0, 1], 0).into(), certificates: Vec::new(), server_name: None });
    // Boxed, because this is called while another request is handled.
    Ok(Box::pin(apiserver::http::handle_as(Arc::clone(server), peer, user, request)).await)
}

/// Returns the path after `/apis/GROUP/VERSION/RESOURCE/NAME/proxy` with escapes and query unchanged; the `path` parameter of
/// the query when there is none.
pub fn inner_path(uri: &Uri, asked: Option<&str>) -> String {
    let tail = uri.path().splitn(8, '/').nth(7).unwrap_or_default();
    let tail = if tail.is_empty() { asked.unwrap_or_default().trim_start_matches('/') } else { tail };
    match uri.query() {
        Some(query) => format!("/{tail}?{query}"),
        None => format!("/{tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_after_proxy_reaches_the_member_unchanged() {
        let base = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy";
        let cases = [
            ("", "/"),
            ("/", "/"),
            ("/api/v1/pods?watch=true&limit=5", "/api/v1/pods?watch=true&limit=5"),
            ("/api/v1/nodes/a%2Fb/proxy/x", "/api/v1/nodes/a%2Fb/proxy/x"),
        ];
        for (tail, expected) in cases {
            let uri: Uri = format!("{base}{tail}").parse().expect("a path");
            assert_eq!(inner_path(&uri, None), expected);
        }
    }
}
