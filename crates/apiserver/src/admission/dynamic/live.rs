//! Configurations compiled for use, and compiled again when one of them changes.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use object::{GroupResource, Object, Status};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::CONFIGURATION_GROUP;
use crate::cache::{Cache, Filter};
use crate::served_resources::ServedResources;

/// A value compiled from all objects of some resources.
///
/// Nothing waits for the store here: a configuration takes effect when the cache has it, which is soon after its write
/// is acknowledged. With no change since the last look this costs a few reads of memory.
pub struct Live<T> {
    group: &'static str,
    sources: &'static [&'static str],
    compile: fn(&[Vec<Arc<Object>>]) -> T,
    caches: OnceCell<Vec<Arc<Cache>>>,
    compiled: ArcSwapOption<Compiled<T>>,
    compiling: Mutex<()>,
}

struct Compiled<T> {
    value: Arc<T>,
    /// The revision of each cache at the time of compiling.
    seen: Vec<u64>,
}

impl<T> Live<T> {
    pub fn new(sources: &'static [&'static str], compile: fn(&[Vec<Arc<Object>>]) -> T) -> Self {
        Self::of_group(CONFIGURATION_GROUP, sources, compile)
    }

    /// The same for resources of another group.
    pub fn of_group(
        group: &'static str,
        sources: &'static [&'static str],
        compile: fn(&[Vec<Arc<Object>>]) -> T,
    ) -> Self {
        Self {
            group,
            sources,
            compile,
            caches: OnceCell::new(),
            compiled: ArcSwapOption::empty(),
            compiling: Mutex::default(),
        }
    }

    pub async fn current(&self, registry: &ServedResources) -> Result<Arc<T>, Status> {
        let caches = self.caches.get_or_try_init(|| start(registry, self.group, self.sources)).await?;
        if let Some(value) = self.unchanged(caches) {
            return Ok(value);
        }
        let _one_at_a_time = self.compiling.lock();
        if let Some(value) = self.unchanged(caches) {
            return Ok(value);
        }
        let pages: Vec<_> = caches.iter().map(|cache| cache.page(&Filter::default(), None, 0)).collect();
        let seen = pages.iter().map(|page| page.revision).collect();
        let decode = |page: &crate::cache::Page| page.entries.iter().map(|entry| entry.decode()).collect();
        let objects: Vec<Vec<Arc<Object>>> = pages.iter().map(decode).collect();
        let value = Arc::new((self.compile)(&objects));
        self.compiled.store(Some(Arc::new(Compiled { value: value.clone(), seen })));
        Ok(value)
    }

    fn unchanged(&self, caches: &[Arc<Cache>]) -> Option<Arc<T>> {
        let compiled = self.compiled.load();
        let compiled = compiled.as_ref()?;
        let same = caches.iter().zip(&compiled.seen).all(|(cache, seen)| cache.unchanged_since(*seen, 0));
        same.then(|| compiled.value.clone())
    }
}

async fn start(registry: &ServedResources, group: &str, sources: &[&str]) -> Result<Vec<Arc<Cache>>, Status> {
    let snapshot = registry.snapshot();
    let mut caches = Vec::new();
    for plural in sources {
        // A server without these kinds has none of these objects.
        let Some(resource) = snapshot.find_any_version(&GroupResource::new(group, *plural)) else {
            return Ok(Vec::new());
        };
        resource.cache.ready().await?;
        caches.push(resource.cache.clone());
    }
    Ok(caches)
}
