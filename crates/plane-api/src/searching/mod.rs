//! Serves `search.karmada.io`: what members have, read from the search's copies, and the way to the members themselves.

mod leading;
mod reading;

use std::sync::{Arc, OnceLock, Weak};

use crate::cluster_proxy::tunnels::Tunnels;
use crate::cluster_proxy::{self, answer_here, inner_path};
use api::search::{GROUP, PROXYINGS, SEARCHES};
use apiserver::request::RequestInfo;
use apiserver::respond::Body;
use apiserver::served_resources::Resource;
use apiserver::server::Server;
use apiserver::subresource::{ConnectHandler, ConnectRequest};
use apiserver::verbs::Target;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use http::{Method, Response};
use object::{GroupVersionResource, Status};
use reconcile::ObjectKey;
use search::{MemberClients, Search};

/// Answers once the plane is up; the server has to know it before.
#[derive(Clone)]
pub struct Searching {
    search: Arc<OnceLock<Search>>,
    tunnels: Arc<Tunnels>,
}

/// Members with the plane's own rights, over whichever way leads there.
pub struct Reached {
    /// The server holds the search, which holds this.
    pub server: Weak<Server>,
    pub tunnels: Arc<Tunnels>,
}

impl MemberClients for Reached {
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        let server = self.server.upgrade().ok_or_else(|| Status::unavailable("the server is stopping"))?;
        cluster_proxy::plane_client(&server, &self.tunnels, cluster)
    }
}

/// A request on objects of members, read and resolved.
struct Asked {
    info: RequestInfo,
    /// What follows `proxy`, with its query.
    path: String,
    gvr: GroupVersionResource,
    /// The plane's resource of the same name: it knows columns and fields.
    resource: Arc<Resource>,
}

impl Asked {
    /// The object it is about.
    fn key(&self) -> ObjectKey {
        let namespace = if self.resource.kind.namespaced { self.info.namespace.as_str() } else { "" };
        ObjectKey::new(namespace, &self.info.name)
    }

    fn target(&self) -> Target {
        let key = self.key();
        Target {
            resource: Arc::clone(&self.resource),
            namespace: key.namespace,
            name: key.name,
            subresource: self.info.subresource.clone(),
        }
    }
}

impl Searching {
    pub fn new(tunnels: &Arc<Tunnels>) -> Self {
        Self { search: Arc::default(), tunnels: Arc::clone(tunnels) }
    }

    pub fn answer_with(&self, search: Search) {
        // A plane has one search for its life.
        let _ = self.search.set(search);
    }

    async fn ready(&self) -> Result<&Search, Status> {
        let search = self.search.get().ok_or_else(|| Status::unavailable("the control plane is starting"))?;
        search.ready().await?;
        Ok(search)
    }

    /// `proxying/NAME/proxy/PATH`: reads come from the copies, whatever else is about objects of members goes to the one
    /// that has it, and the rest is the plane's own; the caller is the caller everywhere.
    async fn proxying(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let search = self.ready().await?;
        if request.target.subresource != "proxy" {
            return Err(Status::new(404, "NotFound", "the server could not find the requested resource"));
        }
        let path = inner_path(&request.incoming.uri, None);
        let (plain, query) = path.split_once('?').unwrap_or((path.as_str(), ""));
        let info = RequestInfo::parse(&request.incoming.method, plain, query);
        let gvr = GroupVersionResource::new(&info.group, &info.version, &info.resource);
        if !info.is_resource || search.registered(&gvr).is_none() {
            if is_proxying(&info) {
                return Err(Status::bad_request("a path through proxying leads nowhere through proxying"));
            }
            return answer_here(server, &path, request.user, request.incoming).await;
        }
        let found = server.registry.find(&info.group, &info.version, &info.resource);
        let resource =
            found.ok_or_else(|| Status::new(404, "NotFound", "the server could not find the requested resource"))?;
        let asked = Asked { info, path, gvr, resource };
        let is_read = matches!(asked.info.verb, "get" | "list" | "watch") && asked.info.subresource.is_empty();
        if is_read {
            return reading::serve(search, server, &asked, &request.incoming).await;
        }
        // Which member is meant is not said by a create or a deletion of many.
        if asked.info.name.is_empty() || asked.info.verb == "deletecollection" {
            return Err(Status::method_not_allowed(&asked.gvr.group_resource(), asked.info.verb));
        }
        let cluster = search.owner(&asked.gvr, &asked.key()).await?;
        let incoming = leading::restored(request.incoming, asked.info.verb, &cluster).await?;
        cluster_proxy::forward(server, &self.tunnels, &cluster, &asked.path, &request.user, incoming).await
    }
}

#[async_trait]
impl ConnectHandler for Searching {
    fn handles(&self, target: &Target) -> bool {
        let kind = &target.resource.kind;
        kind.gvk.group == GROUP && [SEARCHES.plural, PROXYINGS.plural].contains(&kind.plural.as_str())
    }

    fn is_long_running(&self, method: &Method, info: &RequestInfo, query: &str) -> Option<bool> {
        is_proxying(info).then(|| proxied_is_long_running(method, info, query))
    }

    async fn connect(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        if request.target.name.is_empty() {
            return Err(Status::new(404, "NotFound", "the server could not find the requested resource"));
        }
        if request.target.resource.kind.plural == PROXYINGS.plural {
            return self.proxying(server, request).await;
        }
        if request.incoming.method != Method::GET {
            let text = "the server does not allow this method on the requested resource";
            return Err(Status::new(405, "MethodNotAllowed", text));
        }
        reading::search(self.ready().await?, server, &request).await
    }
}

/// True for `proxying/NAME/proxy`: the path that follows is read from all members.
fn is_proxying(info: &RequestInfo) -> bool {
    info.group == GROUP && info.resource == PROXYINGS.plural && info.subresource == "proxy"
}

/// A proxied request stays open when the request inside its path does.
fn proxied_is_long_running(method: &Method, info: &RequestInfo, query: &str) -> bool {
    RequestInfo::parse(method, &format!("/{}", info.tail), query).is_long_running()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxied_request_is_long_running_when_the_one_inside_is() {
        let base = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy";
        let cases = [
            ("", "", false),
            ("/api", "", false),
            ("/api/v1/pods", "", false),
            ("/api/v1/pods", "watch=true", true),
            ("/api/v1/namespaces/a/pods/b", "", false),
            ("/api/v1/namespaces/a/pods/b/log", "follow=true", true),
            ("/api/v1/namespaces/a/pods/b/exec", "", true),
            ("/apis/apps/v1/namespaces/a/deployments/b/scale", "", false),
            ("/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy/api/v1/pods", "", true),
        ];
        for (path, query, expected) in cases {
            let info = RequestInfo::parse(&Method::GET, &format!("{base}{path}"), query);
            assert!(is_proxying(&info), "{path}");
            assert_eq!(proxied_is_long_running(&Method::GET, &info, query), expected, "{path}?{query}");
            assert_eq!((info.verb, info.name.as_str(), info.subresource.as_str()), ("get", "karmada", "proxy"));
        }
        let service = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/a/services/b/proxy/x", "");
        assert!(service.is_long_running() && !is_proxying(&service));
    }
}
