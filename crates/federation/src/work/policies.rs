//! Override policies ready to be matched, found by the kind they select, each read once per version.

use std::collections::HashMap;
use std::sync::Arc;

use object::{Object, Status};
use parking_lot::Mutex;
use propagation::overrides::OverridePolicy;
use reconcile::{Index, ObjectKey};

use crate::bindings::kind_key;
use crate::plane::Plane;

/// Policies as they were last read; there are as many as there are policies.
#[derive(Default)]
pub struct Policies {
    read: Mutex<HashMap<ObjectKey, (String, Arc<OverridePolicy>)>>,
}

/// The policies that may select a template.
pub struct Candidates {
    pub cluster: Vec<Arc<OverridePolicy>>,
    pub namespaced: Vec<Arc<OverridePolicy>>,
}

impl Policies {
    pub fn candidates(&self, plane: &Plane, template: &Object) -> Result<Candidates, Status> {
        let [overrides, cluster_overrides] = &plane.overrides_by_kind;
        let namespaced = match template.namespace() {
            "" => Vec::new(),
            namespace => self.of(overrides, namespace, template)?,
        };
        Ok(Candidates { cluster: self.of(cluster_overrides, "", template)?, namespaced })
    }

    fn of(
        &self,
        by_kind: &Index<String>,
        namespace: &str,
        template: &Object,
    ) -> Result<Vec<Arc<OverridePolicy>>, Status> {
        if by_kind.mirror().is_empty() {
            return Ok(Vec::new());
        }
        let kind = kind_key(template.api_version(), template.kind());
        let found = by_kind.list(&format!("{namespace}|{kind}"));
        let for_all = by_kind.list(&for_all(namespace));
        found.iter().chain(&for_all).map(|policy| self.read(policy)).collect()
    }

    fn read(&self, object: &Object) -> Result<Arc<OverridePolicy>, Status> {
        let key = ObjectKey::of(object);
        if let Some((version, policy)) = self.read.lock().get(&key)
            && version == object.resource_version()
        {
            return Ok(Arc::clone(policy));
        }
        let policy = Arc::new(OverridePolicy::read(object)?);
        let entry = (object.resource_version().to_owned(), Arc::clone(&policy));
        self.read.lock().insert(key, entry);
        Ok(policy)
    }

    pub fn forget(&self, key: &ObjectKey) {
        self.read.lock().remove(key);
    }
}

fn for_all(namespace: &str) -> String {
    format!("{namespace}|*")
}

/// The kinds a policy selects; one without selectors is for all.
pub fn selected_kinds(policy: &Object) -> Vec<String> {
    let namespace = policy.namespace();
    let selectors = policy.items(&["spec", "resourceSelectors"]);
    if selectors.is_empty() {
        return vec![for_all(namespace)];
    }
    let text = |selector: &serde_json::Value, field: &str| selector[field].as_str().unwrap_or_default().to_owned();
    let kinds = selectors.iter().map(|s| kind_key(&text(s, "apiVersion"), &text(s, "kind")));
    let mut kinds: Vec<String> = kinds.map(|kind| format!("{namespace}|{kind}")).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
