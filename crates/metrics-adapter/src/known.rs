//! The names of custom and external metrics that members serve, for discovery.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{CUSTOM_GROUP, CustomVersion, EXTERNAL_GROUP, EXTERNAL_VERSION, MetricsAdapter, found};

/// The names are read again for a request that comes later than this.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of names of each group; the remaining ones can still be read.
const NAMES_MAX: usize = 10_000;

/// A metric as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownMetric {
    /// `pods/http_requests` for custom metrics, `queue_depth` for external ones.
    pub name: String,
    pub namespaced: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownMetrics {
    pub custom: Vec<KnownMetric>,
    pub external: Vec<KnownMetric>,
}

#[derive(Default)]
pub struct KnownCache {
    current: Mutex<(Option<Instant>, Arc<KnownMetrics>)>,
}

impl MetricsAdapter {
    /// Returns the metrics known so far, and reads them again in the background when they are old.
    pub fn known(&self) -> Arc<KnownMetrics> {
        let mut current = self.known.current.lock();
        if current.0.is_none_or(|read| read.elapsed() > AGE_MAX) {
            // Set before the answers are there, so that one reader is enough.
            current.0 = Some(Instant::now());
            let adapter = self.clone();
            tokio::spawn(async move { adapter.read_known().await });
        }
        Arc::clone(&current.1)
    }

    /// Returns the metrics that members serve now.
    pub async fn read_known(&self) -> Arc<KnownMetrics> {
        let members = self.ready_members().await;
        let read = Arc::new(KnownMetrics {
            custom: self.names(&members, CUSTOM_GROUP, &CustomVersion::ALL.map(CustomVersion::as_str)).await,
            external: self.names(&members, EXTERNAL_GROUP, &[EXTERNAL_VERSION]).await,
        });
        *self.known.current.lock() = (Some(Instant::now()), Arc::clone(&read));
        read
    }

    async fn names(&self, members: &[String], group: &str, versions: &[&str]) -> Vec<KnownMetric> {
        let gathered = self.ask(members, |client| async move {
            for version in versions {
                if let Some(list) = found(client.get_json(&format!("/apis/{group}/{version}")).await)? {
                    return Ok(Some(read_names(&list)));
                }
            }
            Ok(None)
        });
        let all: BTreeSet<KnownMetric> = gathered.await.found.into_values().flatten().collect();
        all.into_iter().take(NAMES_MAX).collect()
    }
}

fn read_names(list: &Value) -> Vec<KnownMetric> {
    let resources = list["resources"].as_array().into_iter().flatten().take(NAMES_MAX);
    let name = |resource: &Value| {
        let name = resource["name"].as_str().filter(|name| !name.is_empty())?.to_owned();
        Some(KnownMetric { name, namespaced: resource["namespaced"] == true })
    };
    resources.filter_map(name).collect()
}
