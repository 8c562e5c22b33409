//! Reads the metrics of members: usage of pods and nodes, custom and external metrics.
//!
//! Members are asked in parallel, each with a deadline. One that does not answer is left out of the result and named.

mod custom;
mod external;
mod known;
mod usage;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::{CLUSTERS, CONDITION_READY};
use cluster_client::{ClusterClient, MemberClients, escape};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use object::{Status, conditions};
use parking_lot::Mutex;
use reconcile::{Mirror, Mirrors};
use serde_json::Value;

pub use crate::custom::{CustomValue, CustomVersion, merge as merge_custom};
pub use crate::external::{ExternalValue, merge as merge_external};
pub use crate::known::{KnownMetric, KnownMetrics};
pub use crate::usage::UsageQuery;

/// Maximum time a member has to answer.
const MEMBER_DEADLINE: Duration = Duration::from_secs(5);
/// Concurrent requests to members.
const MEMBERS_AT_ONCE: usize = 32;
/// Maximum number of metrics in one answer; a request for more must be narrowed.
const METRICS_MAX: usize = 100_000;

pub const CUSTOM_GROUP: &str = "custom.metrics.k8s.io";
pub const EXTERNAL_GROUP: &str = "external.metrics.k8s.io";
pub const EXTERNAL_VERSION: &str = "v1beta1";

/// Reads metrics with the rights of the control plane. Clones share the clients.
#[derive(Clone)]
pub struct MetricsAdapter {
    clusters: Mirror,
    members: Arc<dyn MemberClients>,
    /// One for each member asked so far; those of removed members are dropped.
    clients: Arc<Mutex<HashMap<String, ClusterClient>>>,
    known: Arc<known::KnownCache>,
}

/// The answers of members, by member, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered<T> {
    pub found: BTreeMap<String, T>,
    /// One sentence for each member that failed.
    pub unread: Vec<String>,
}

/// The object a custom metric describes, or all (`*`) of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricPath {
    /// Empty for metrics of cluster-scoped objects.
    pub namespace: String,
    /// `pods`, `jobs.batch`; `metrics` for metrics of the namespace itself.
    pub resource: String,
    /// The object; the metric where the resource is `metrics`.
    pub name: String,
    /// Empty where the resource is `metrics`.
    pub metric: String,
}

/// Selectors of a request for custom or external metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricSelectors {
    pub labels: String,
    pub metric_labels: String,
}

/// The name of a member and its answer.
type MemberAnswer<T> = (String, Result<Option<T>, Status>);

impl MetricsAdapter {
    /// The mirrors are those of the control plane.
    pub fn new(mirrors: &Mirrors, members: Arc<dyn MemberClients>) -> Self {
        Self { clusters: mirrors.of(&CLUSTERS.gvr()), members, clients: Arc::default(), known: Arc::default() }
    }

    /// Returns the members that are ready, sorted.
    pub async fn ready_members(&self) -> Vec<String> {
        self.clusters.synced().await;
        let clusters = self.clusters.list();
        let ready = clusters.iter().filter(|c| !c.is_deleting() && conditions::is_true(c, CONDITION_READY));
        let mut names: Vec<String> = ready.map(|cluster| cluster.name().to_owned()).collect();
        names.sort();
        self.clients.lock().retain(|name, _| clusters.iter().any(|cluster| cluster.name() == name));
        names
    }

    /// Returns a client of a member with the rights of the control plane.
    pub fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        if let Some(client) = self.clients.lock().get(cluster) {
            return Ok(client.clone());
        }
        let client = self.members.client(cluster)?;
        self.clients.lock().insert(cluster.to_owned(), client.clone());
        Ok(client)
    }

    /// Asks each member. `None` stands for a member that does not serve what is asked for, which is not an error.
    pub async fn ask<T, F>(&self, members: &[String], ask: impl Fn(ClusterClient) -> F) -> Gathered<T>
    where
        T: Send,
        F: Future<Output = Result<Option<T>, Status>> + Send,
    {
        let asked: Vec<BoxFuture<'_, MemberAnswer<T>>> = members
            .iter()
            .map(|name| {
                let (name, answer) = (name.clone(), self.client(name).map(&ask));
                let answer = async {
                    match answer {
                        Ok(answer) => answer.await,
                        Err(status) => Err(status),
                    }
                };
                let late = || Status::timeout(format!("no answer within {} s", MEMBER_DEADLINE.as_secs()));
                let limited = tokio::time::timeout(MEMBER_DEADLINE, answer);
                async move { (name, limited.await.unwrap_or_else(|_| Err(late()))) }.boxed()
            })
            .collect();
        let mut gathered = Gathered { found: BTreeMap::new(), unread: Vec::new() };
        let mut answers = futures::stream::iter(asked).buffer_unordered(MEMBERS_AT_ONCE);
        while let Some((name, answer)) = answers.next().await {
            match answer {
                Ok(Some(answer)) => drop(gathered.found.insert(name.clone(), answer)),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(cluster = name, %error, "a member did not answer a request for metrics");
                    gathered.unread.push(format!("cluster {name}: {error}"));
                }
            }
        }
        gathered.unread.sort();
        gathered
    }

    /// Returns the values of a custom metric by member.
    pub async fn custom(
        &self,
        members: &[String],
        path: &MetricPath,
        selectors: &MetricSelectors,
    ) -> Gathered<Vec<CustomValue>> {
        let path = &path.to_string();
        let query = &selectors.query();
        self.ask(members, |client| async move {
            for version in CustomVersion::ALL {
                let asked = format!("/apis/{CUSTOM_GROUP}/{version}/{path}{query}");
                if let Some(list) = found(client.get_json(&asked).await)? {
                    return Ok(Some(custom::read_list(&list, version)));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Returns the values of an external metric by member.
    pub async fn external(
        &self,
        members: &[String],
        namespace: &str,
        metric: &str,
        labels: &str,
    ) -> Gathered<Vec<ExternalValue>> {
        let selectors = MetricSelectors { labels: labels.to_owned(), ..MetricSelectors::default() };
        let (namespace, metric) = (escape(namespace), escape(metric));
        let path =
            &format!("/apis/{EXTERNAL_GROUP}/{EXTERNAL_VERSION}/namespaces/{namespace}/{metric}{}", selectors.query());
        self.ask(members, |client| async move {
            let list = found(client.get_json(path).await)?;
            Ok(list.map(|list| external::read_list(&list)))
        })
        .await
    }
}

impl std::fmt::Display for MetricPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "namespaces/{}/", escape(&self.namespace))?;
        }
        write!(f, "{}/{}", escape(&self.resource), escape(&self.name))?;
        match self.metric.as_str() {
            "" => Ok(()),
            metric => write!(f, "/{}", escape(metric)),
        }
    }
}

impl MetricSelectors {
    fn query(&self) -> String {
        let given = [("labelSelector", &self.labels), ("metricLabelSelector", &self.metric_labels)];
        let given = given.into_iter().filter(|(_, text)| !text.is_empty());
        let query: Vec<String> = given.map(|(key, text)| format!("{key}={}", escape(text))).collect();
        if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) }
    }
}

impl<T> Gathered<Vec<T>> {
    /// Fails when there are more metrics than one answer may have.
    pub fn check_size(&self) -> Result<(), Status> {
        let count: usize = self.found.values().map(Vec::len).sum();
        match count > METRICS_MAX {
            true => Err(Status::too_large(format!(
                "{count} metrics are more than the {METRICS_MAX} of one answer: name a namespace or select by labels"
            ))),
            false => Ok(()),
        }
    }
}

/// `None` for what a member does not have.
fn found(answer: Result<Value, Status>) -> Result<Option<Value>, Status> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

#[cfg(test)]
mod tests;
