//! `clusters/NAME/proxy`: a member's API through this one, as the caller; `*` asks all members.

mod everywhere;
mod member;
pub mod peers;
pub mod tunnels;

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, Uri};
use object::Status;

use self::tunnels::Tunnels;
use crate::respond::Body;
use crate::server::Server;
use crate::subresource::{ConnectHandler, ConnectRequest};
use crate::verbs::Target;

/// Answers for the proxy subresource of clusters.
pub struct ClusterProxy {
    pub tunnels: Arc<Tunnels>,
}

#[async_trait]
impl ConnectHandler for ClusterProxy {
    fn handles(&self, target: &Target) -> bool {
        let kind = &target.resource.kind;
        kind.gvk.group == api::cluster::GROUP && kind.plural == "clusters" && target.subresource == "proxy"
    }

    async fn connect(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let path = inner_path(&request.incoming.uri, request.incoming.query.get("path"));
        if request.target.name == "*" {
            return everywhere::serve(server, &self.tunnels, &path, request).await;
        }
        let member = member::find(server, &self.tunnels, &request.target.name).await?;
        member.forward(&path, &request.user, request.incoming).await
    }
}

/// What follows `/apis/GROUP/VERSION/clusters/NAME/proxy`, escapes and query as they came; without anything there, the
/// `path` of the query counts.
fn inner_path(uri: &Uri, asked: Option<&str>) -> String {
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
    fn the_path_behind_proxy_goes_to_the_member_as_it_came() {
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
