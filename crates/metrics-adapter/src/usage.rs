//! Usage of pods and nodes, with the member it was measured in.

use api::autoscaling::ANNOTATION_QUERY_SOURCE;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::{GroupVersionResource, Object, Status, builtin};

use crate::{Gathered, MetricsAdapter};

/// Selects usages.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    /// `None` for all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// A label selector; empty for all.
    pub labels: String,
}

impl MetricsAdapter {
    /// Returns `PodMetrics` by member.
    pub async fn pods(&self, members: &[String], query: &UsageQuery) -> Gathered<Vec<Object>> {
        self.usage(members, &builtin::pod_metrics(), query).await
    }

    /// Returns `NodeMetrics` by member.
    pub async fn nodes(&self, members: &[String], query: &UsageQuery) -> Gathered<Vec<Object>> {
        let nodes = GroupVersionResource::new("metrics.k8s.io", "v1beta1", "nodes");
        self.usage(members, &nodes, &UsageQuery { namespace: None, ..query.clone() }).await
    }

    async fn usage(&self, members: &[String], gvr: &GroupVersionResource, query: &UsageQuery) -> Gathered<Vec<Object>> {
        let mut gathered = self.ask(members, |client| read(client, gvr, query)).await;
        for (cluster, usages) in &mut gathered.found {
            for usage in usages {
                usage.set_annotation(ANNOTATION_QUERY_SOURCE, cluster);
            }
        }
        gathered
    }
}

async fn read(
    client: ClusterClient,
    gvr: &GroupVersionResource,
    query: &UsageQuery,
) -> Result<Option<Vec<Object>>, Status> {
    let target = ResourceRef {
        gvr: gvr.clone(),
        namespace: query.namespace.clone(),
        name: query.name.clone(),
        subresource: None,
    };
    if query.name.is_some() {
        return Ok(client.find(target).await?.map(|usage| vec![Object::clone(&usage)]));
    }
    let labels = (!query.labels.is_empty()).then(|| query.labels.clone());
    let options = ListOptions { label_selector: labels, ..ListOptions::default() };
    match client.list_all(target, options).await {
        Ok(list) => Ok(Some(list.items.iter().map(|usage| Object::clone(usage)).collect())),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}
