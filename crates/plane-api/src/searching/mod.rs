//! Serves `search.karmada.io`: reads from the cached objects of members, and forwards other requests to the members.

mod cluster_column;
mod forwarded_body;
mod reads;
mod rights;

use std::sync::{Arc, Weak};

use api::search::{GROUP, PROXYINGS, SEARCHES};
use apiserver::request::RequestInfo;
use apiserver::respond::Body;
use apiserver::served_resources::Resource;
use apiserver::server::Server;
use apiserver::subresource::{ConnectHandler, ConnectRequest};
use apiserver::verbs::Target;
use async_trait::async_trait;
use cluster_client::{ClusterClient, MemberClients};
use http::{Method, Response};
use object::request::{Subresource, Verb};
use object::{GroupVersionResource, Status};
use reconcile::ObjectKey;
use search::Search;

use crate::cluster_proxy::tunnels::Tunnels;
use crate::cluster_proxy::{self, answer_here, inner_path};
use crate::searching::rights::{CallerRights, MemberRequest};

pub use crate::searching::rights::SearchAccess;

/// Answers for `search.karmada.io`.
pub struct Searching {
    search: Search,
    /// Shared with open watches.
    rights: Arc<CallerRights>,
}

/// Clients of members with the rights of the control plane, directly or through a tunnel.
pub struct PlaneClients {
    /// Weak, because the server owns the search, which owns this.
    pub server: Weak<Server>,
    pub tunnels: Arc<Tunnels>,
}

impl MemberClients for PlaneClients {
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        let server = self.server.upgrade().ok_or_else(|| Status::unavailable("the server is stopping"))?;
        cluster_proxy::plane_client(&server, &self.tunnels, cluster)
    }
}

/// A parsed request on objects of members.
struct ProxiedRequest {
    info: RequestInfo,
    /// Path after `proxy`, with its query.
    path: String,
    gvr: GroupVersionResource,
    /// The control plane's resource of the same name, for columns and field selectors.
    resource: Arc<Resource>,
}

impl ProxiedRequest {
    /// Returns the key of the object.
    fn key(&self) -> ObjectKey {
        let namespace = if self.resource.kind.namespaced { self.info.namespace.as_str() } else { "" };
        ObjectKey::new(namespace, &self.info.name)
    }

    /// The request to decide about, which a request with this method makes.
    fn of_member(&self, method: &Method) -> MemberRequest<'_> {
        MemberRequest {
            info: &self.info,
            proxy_verb: Verb::of_method(method.as_str()),
            namespaced: self.resource.kind.namespaced,
        }
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
    pub fn new(search: Search, tunnels: Arc<Tunnels>, access: SearchAccess) -> Self {
        Self { search, rights: Arc::new(CallerRights::new(access, tunnels)) }
    }

    async fn ready(&self) -> Result<&Search, Status> {
        self.search.ready().await?;
        Ok(&self.search)
    }

    /// `proxying/NAME/proxy/PATH`: reads are served from the cache, other requests on objects of members are forwarded to the
    /// member that has the object, and the control plane handles the rest; always as the caller.
    async fn proxying(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let search = self.ready().await?;
        if request.target.subresource != Some(Subresource::Proxy) {
            return Err(Status::resource_not_served());
        }
        let path = inner_path(&request.incoming.uri, None);
        let (plain, query) = path.split_once('?').unwrap_or((path.as_str(), ""));
        let info = RequestInfo::parse(&request.incoming.method, plain, query);
        let gvr = GroupVersionResource::new(&info.group, &info.version, &info.resource);
        if !info.is_resource || search.registered(&gvr).is_none() {
            if is_proxying(&info) {
                return Err(Status::bad_request("a path through proxying must not contain proxying"));
            }
            return answer_here(server, &path, request.user, request.incoming).await;
        }
        let found = server.registry.find(&info.group, &info.version, &info.resource);
        let resource = found.ok_or_else(Status::resource_not_served)?;
        let proxied = ProxiedRequest { info, path, gvr, resource };
        let is_read =
            matches!(proxied.info.verb, Verb::Get | Verb::List | Verb::Watch) && proxied.info.subresource.is_none();
        if is_read {
            let reader = reads::Reader { search, rights: &self.rights, server, user: &request.user };
            return reader.serve(Arc::new(proxied), &request.incoming).await;
        }
        // A create or deletecollection does not identify a member.
        if proxied.info.name.is_empty() || proxied.info.verb == Verb::DeleteCollection {
            return Err(Status::method_not_allowed(&proxied.gvr.group_resource(), proxied.info.verb));
        }
        let asked = proxied.of_member(&request.incoming.method);
        let scope = self.rights.scope(server, search, &request.user, &asked).await?;
        let cluster = search.owner(&proxied.gvr, &proxied.key(), &scope).await?;
        let incoming = forwarded_body::restored(request.incoming, proxied.info.verb, &cluster).await?;
        cluster_proxy::forward(server, &self.rights.tunnels, &cluster, &proxied.path, &request.user, incoming).await
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
            return Err(Status::resource_not_served());
        }
        if request.target.resource.kind.plural == PROXYINGS.plural {
            return self.proxying(server, request).await;
        }
        if request.incoming.method != Method::GET {
            return Err(Status::method_not_served());
        }
        let search = self.ready().await?;
        reads::Reader { search, rights: &self.rights, server, user: &request.user }.search(&request).await
    }
}

/// True for `proxying/NAME/proxy`: the path that follows is read from all members.
fn is_proxying(info: &RequestInfo) -> bool {
    info.group == GROUP && info.resource == PROXYINGS.plural && info.subresource == Some(Subresource::Proxy)
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
            assert_eq!(
                (info.verb, info.name.as_str(), info.subresource),
                (Verb::Get, "karmada", Some(Subresource::Proxy))
            );
        }
        let service = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/a/services/b/proxy/x", "");
        assert!(service.is_long_running() && !is_proxying(&service));
    }
}
