//! The objects of members that a caller may reach through search: those that `clusters/NAME/proxy` gives the same caller.
//!
//! The control plane decides about the member (`clusters/proxy`), and the member about the object: it is asked with the
//! caller's identity, over the connection that the proxy would use. So a copy shows no more than the member itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::cluster::CLUSTERS;
use apiserver::auth::Auth;
use apiserver::request::RequestInfo;
use apiserver::server::Server;
use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use futures::{StreamExt, stream};
use object::request::{Subresource, User, Verb};
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use parking_lot::Mutex;
use search::{LimitedScope, MemberScope, ReadScope, Search};
use serde_json::json;

use crate::cluster_proxy;
use crate::cluster_proxy::tunnels::Tunnels;

/// Time a decision of a member is used again. Open watches are decided again after it.
pub const DECISION_TIME: Duration = Duration::from_secs(5);
/// Beyond this many decisions all are forgotten.
const DECISIONS_MAX: usize = 20_000;
/// Time for one member to decide.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
/// Members, and namespaces of one member, that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;
/// Namespaces of one member that are asked about when the caller may not read all of them.
const NAMESPACES_MAX: usize = 500;

/// Selects the objects that search shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchAccess {
    /// Objects that the caller can read in the member.
    #[default]
    Caller,
    /// All cached objects, to every caller that may use search, as in Karmada.
    All,
}

/// Decides what callers may read, and keeps the decisions of members for a short time.
pub struct CallerRights {
    pub access: SearchAccess,
    pub tunnels: Arc<Tunnels>,
    decisions: Mutex<HashMap<String, (Instant, bool)>>,
}

/// A request on objects of members.
pub struct MemberRequest<'a> {
    pub info: &'a RequestInfo,
    /// The verb of `clusters/proxy` that the same request needs there.
    pub proxy_verb: Verb,
    pub namespaced: bool,
}

impl MemberRequest<'_> {
    fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.info.group, &self.info.version, &self.info.resource)
    }
}

impl CallerRights {
    pub fn new(access: SearchAccess, tunnels: Arc<Tunnels>) -> Self {
        Self { access, tunnels, decisions: Mutex::default() }
    }

    /// Returns what the caller may reach; 403 if that is nothing.
    pub async fn scope(
        &self,
        server: &Server,
        search: &Search,
        user: &User,
        request: &MemberRequest<'_>,
    ) -> Result<ReadScope, Status> {
        // Every member allows its masters everything, and the proxy passes the group on.
        if self.access == SearchAccess::All || user.is_master() {
            return Ok(ReadScope::Everything);
        }
        let cached_by = search.clusters(&request.gvr());
        let mut clusters = Vec::new();
        for cluster in &cached_by {
            let proxy = RequestInfo {
                subresource: Some(Subresource::Proxy),
                name: cluster.clone(),
                ..RequestInfo::on(CLUSTERS.gvr(), request.proxy_verb)
            };
            if server.auth().authorize(server.resources(), user, &proxy).await.is_ok() {
                clusters.push(cluster.clone());
            }
        }
        let decided = stream::iter(clusters).map(|cluster| async move {
            let decision =
                tokio::time::timeout(MEMBER_TIMEOUT, self.of_member(server, search, user, &cluster, request));
            let decision = decision.await.unwrap_or_else(|_| Err(Status::timeout("it did not decide in time")));
            (cluster, decision)
        });
        let decided: Vec<_> = decided.buffer_unordered(ASKED_AT_ONCE).collect().await;
        let mut scope = LimitedScope::default();
        for (cluster, decision) in decided {
            match decision {
                Ok(Some(of_member)) => drop(scope.members.insert(cluster, of_member)),
                Ok(None) => {}
                Err(status) => drop(scope.undecided.insert(cluster, status.message)),
            }
        }
        if !cached_by.is_empty() && scope.members.is_empty() && scope.undecided.is_empty() {
            return Err(Auth::refusal(user, request.info, "no cluster with cached objects allows it"));
        }
        Ok(ReadScope::Limited(scope))
    }

    /// The objects that the member lets the caller read; `None` for nothing.
    async fn of_member(
        &self,
        server: &Server,
        search: &Search,
        user: &User,
        cluster: &str,
        request: &MemberRequest<'_>,
    ) -> Result<Option<MemberScope>, Status> {
        let member = MemberAsCaller { rights: self, server, user, cluster, client: tokio::sync::OnceCell::new() };
        if member.allows(request.info, &request.info.namespace).await? {
            return Ok(Some(MemberScope::All));
        }
        let is_over_namespaces = request.namespaced && request.info.namespace.is_empty();
        if !is_over_namespaces {
            return Ok(None);
        }
        let namespaces = search.namespaces(&request.gvr(), cluster, NAMESPACES_MAX + 1);
        if namespaces.len() > NAMESPACES_MAX {
            let problem = format!("it has more than {NAMESPACES_MAX} namespaces: name the one to read");
            return Err(Status::unavailable(problem));
        }
        let member = &member;
        let asked = stream::iter(namespaces).map(|namespace| async move {
            let is_allowed = member.allows(request.info, &namespace).await?;
            Ok::<_, Status>((namespace, is_allowed))
        });
        let mut asked = asked.buffer_unordered(ASKED_AT_ONCE);
        let (mut allowed, mut denied) = (BTreeSet::new(), BTreeSet::new());
        while let Some(answer) = asked.next().await {
            let (namespace, is_allowed) = answer?;
            if is_allowed {
                allowed.insert(namespace)
            } else {
                denied.insert(namespace)
            };
        }
        // A watch stays open for the first namespace that comes later; as a list it is refused where all are denied.
        let waits = request.info.verb == Verb::Watch && denied.is_empty();
        let is_empty = allowed.is_empty() && !waits;
        Ok((!is_empty).then_some(MemberScope::Namespaces { allowed, denied }))
    }

    fn known(&self, question: &str) -> Option<bool> {
        let decisions = self.decisions.lock();
        decisions.get(question).filter(|(until, _)| *until > Instant::now()).map(|(_, allowed)| *allowed)
    }

    fn keep(&self, question: String, allowed: bool) {
        let mut decisions = self.decisions.lock();
        if decisions.len() >= DECISIONS_MAX {
            decisions.clear();
        }
        decisions.insert(question, (Instant::now() + DECISION_TIME, allowed));
    }
}

/// A member that decides about a caller. All questions share one connection, which is opened for the first.
struct MemberAsCaller<'a> {
    rights: &'a CallerRights,
    server: &'a Server,
    user: &'a User,
    cluster: &'a str,
    client: tokio::sync::OnceCell<ClusterClient>,
}

impl MemberAsCaller<'_> {
    async fn allows(&self, info: &RequestInfo, namespace: &str) -> Result<bool, Status> {
        let question = self.question(info, namespace);
        if let Some(allowed) = self.rights.known(&question) {
            return Ok(allowed);
        }
        let client = self
            .client
            .get_or_try_init(|| cluster_proxy::client_as(self.server, &self.rights.tunnels, self.cluster, self.user));
        let gvk = GroupVersionKind::new("authorization.k8s.io", "v1", "SelfSubjectAccessReview");
        let mut review = Object::new(&gvk, None, "");
        let attributes = json!({
            "verb": info.verb.as_str(),
            "group": info.group,
            "version": info.version,
            "resource": info.resource,
            "subresource": Subresource::name_of(info.subresource.as_ref()),
            "namespace": namespace,
            "name": info.name,
        });
        review.set(&["spec"], json!({"resourceAttributes": attributes}));
        let gvr = GroupVersionResource::new(gvk.group, gvk.version, "selfsubjectaccessreviews");
        let answer = client.await?.create(ResourceRef::all(&gvr), review, WriteOptions::default()).await;
        let allowed = match answer {
            Ok(review) => review.bool_at(&["status", "allowed"]) == Some(true),
            // The member refuses the identity itself, and so it would refuse the read.
            Err(status) if status.code == 403 => false,
            Err(status) => return Err(status),
        };
        self.rights.keep(question, allowed);
        Ok(allowed)
    }

    /// Returns the caller, the member and the action as one text that no other combination has.
    fn question(&self, info: &RequestInfo, namespace: &str) -> String {
        let User { name, uid, groups, .. } = self.user;
        let action = [info.verb.as_str(), &info.group, &info.resource, namespace, &info.name];
        let subresource = Subresource::name_of(info.subresource.as_ref());
        json!([self.cluster, name, uid, groups, action, subresource]).to_string()
    }
}
