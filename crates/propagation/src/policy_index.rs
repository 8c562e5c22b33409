//! All policies, found by what they select: matching a template looks at those that may select it and at no others.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use object::Object;

use crate::policy::{Policy, PolicyKey, Scope};
use crate::policy_selector::{Selector, Specificity};

/// The policies there are. Event-fed: `put` and `remove` keep it current.
#[derive(Debug, Default)]
pub struct PolicyIndex {
    policies: HashMap<PolicyKey, Arc<Policy>>,
    /// By the namespace of the policy, then by apiVersion and kind of each of its selectors.
    by_namespace: HashMap<String, HashMap<String, HashMap<String, Buckets>>>,
    /// Policies that wait for an override policy of a name to exist.
    by_override: HashMap<String, Vec<PolicyKey>>,
}

/// By the namespace selectors name, which may be empty.
type Buckets = HashMap<String, Bucket>;

/// The selectors of one namespace of policies on one apiVersion, kind and namespace.
#[derive(Debug, Default)]
struct Bucket {
    by_name: HashMap<String, Vec<Arc<Policy>>>,
    /// Selectors that require a label to have a value, by one such label.
    by_label: HashMap<String, HashMap<String, Vec<Arc<Policy>>>>,
    others: Vec<Arc<Policy>>,
}

/// A policy and how it selects a template. The greater is applied: by priority, then specificity, then by name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    pub priority: i32,
    pub specificity: Specificity,
    name: Reverse<&'a str>,
}

impl<'a> Rank<'a> {
    /// `None` when the policy does not select the template, or no longer selects anything.
    pub fn of(policy: &'a Policy, template: &Object) -> Option<Self> {
        let specificity = policy.selects(template).filter(|_| !policy.is_deleting())?;
        Some(Self { priority: policy.priority(), specificity, name: Reverse(&policy.key.name) })
    }
}

impl PolicyIndex {
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut index = Self::default();
        for policy in policies {
            index.put(policy);
        }
        index
    }

    /// Takes in the newest state of a policy.
    pub fn put(&mut self, policy: Policy) -> Arc<Policy> {
        self.remove(&policy.key);
        let policy = Arc::new(policy);
        for selector in &policy.selectors {
            let list = self.bucket_mut(&policy.key, selector).list_mut(selector);
            if !list.iter().any(|known| known.key == policy.key) {
                list.push(Arc::clone(&policy));
            }
        }
        for name in &policy.dependent_overrides {
            self.by_override.entry(name.clone()).or_default().push(policy.key.clone());
        }
        self.policies.insert(policy.key.clone(), Arc::clone(&policy));
        policy
    }

    pub fn remove(&mut self, key: &PolicyKey) -> Option<Arc<Policy>> {
        let policy = self.policies.remove(key)?;
        for selector in &policy.selectors {
            self.bucket_mut(key, selector).forget(selector, key);
            self.drop_empty_bucket(key, selector);
        }
        for name in &policy.dependent_overrides {
            if let Some(keys) = self.by_override.get_mut(name) {
                keys.retain(|waiting| waiting != key);
                if keys.is_empty() {
                    self.by_override.remove(name);
                }
            }
        }
        Some(policy)
    }

    pub fn get(&self, key: &PolicyKey) -> Option<&Arc<Policy>> {
        self.policies.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.values()
    }

    pub fn len(&self) -> usize {
        self.policies.len()
    }

    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// The policies that need an override policy of this scope and name to exist.
    pub fn needing_override(&self, namespace: &str, name: &str) -> Vec<PolicyKey> {
        let keys = self.by_override.get(name).into_iter().flatten();
        keys.filter(|key| key.namespace == namespace).cloned().collect()
    }

    /// The policy to apply: the best of the template's namespace or else, however high their priorities, the best of
    /// the cluster-wide ones.
    pub fn best<'a>(&'a self, template: &Object) -> Option<&'a Arc<Policy>> {
        match template.namespace() {
            "" => self.best_of(Scope::Cluster, template),
            _ => self.best_of(Scope::Namespaced, template).or_else(|| self.best_of(Scope::Cluster, template)),
        }
    }

    fn best_of<'a>(&'a self, scope: Scope, template: &Object) -> Option<&'a Arc<Policy>> {
        let ranked = self.candidates(scope, template);
        let ranked = ranked.filter_map(|policy| Some((Rank::of(policy, template)?, policy)));
        ranked.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, policy)| policy)
    }

    /// Everything that may select the template, some twice; nothing that may is left out.
    fn candidates<'a>(&'a self, scope: Scope, template: &Object) -> impl Iterator<Item = &'a Arc<Policy>> {
        let policy_namespace = if scope == Scope::Cluster { "" } else { template.namespace() };
        let buckets = self.by_namespace.get(policy_namespace);
        let buckets = buckets.and_then(|of| of.get(template.api_version())).and_then(|of| of.get(template.kind()));
        // A selector without a namespace selects in all of them.
        let own = Some(template.namespace()).filter(|namespace| !namespace.is_empty());
        let namespaces = own.into_iter().chain([""]);
        let buckets = namespaces.filter_map(move |namespace| buckets?.get(namespace));
        buckets.flat_map(|bucket| bucket.candidates(template))
    }

    fn bucket_mut(&mut self, key: &PolicyKey, selector: &Selector) -> &mut Bucket {
        let written = &selector.written;
        let kinds = entry(entry(&mut self.by_namespace, &key.namespace), &written.api_version);
        entry(entry(kinds, &written.kind), &written.namespace)
    }

    fn drop_empty_bucket(&mut self, key: &PolicyKey, selector: &Selector) {
        let written = &selector.written;
        let Some(versions) = self.by_namespace.get_mut(&key.namespace) else { return };
        let Some(kinds) = versions.get_mut(&written.api_version) else { return };
        let Some(buckets) = kinds.get_mut(&written.kind) else { return };
        if buckets.get(&written.namespace).is_some_and(Bucket::is_empty) {
            buckets.remove(&written.namespace);
        }
        if buckets.is_empty() {
            kinds.remove(&written.kind);
        }
        if kinds.is_empty() {
            versions.remove(&written.api_version);
        }
        if versions.is_empty() {
            self.by_namespace.remove(&key.namespace);
        }
    }
}

impl Bucket {
    fn candidates<'a>(&'a self, template: &Object) -> impl Iterator<Item = &'a Arc<Policy>> {
        let named = self.by_name.get(template.name());
        // Most buckets know no labels, and then the template's are not walked.
        let labels = (!self.by_label.is_empty()).then(|| template.labels()).into_iter().flatten();
        let labeled = labels.filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        named.into_iter().chain(labeled).flatten().chain(&self.others)
    }

    fn list_mut(&mut self, selector: &Selector) -> &mut Vec<Arc<Policy>> {
        match (selector.written.name.as_str(), selector.required_label()) {
            ("", None) => &mut self.others,
            ("", Some((key, value))) => entry(entry(&mut self.by_label, key), value),
            (name, _) => entry(&mut self.by_name, name),
        }
    }

    fn forget(&mut self, selector: &Selector, policy: &PolicyKey) {
        let list = self.list_mut(selector);
        list.retain(|known| known.key != *policy);
        if !list.is_empty() {
            return;
        }
        if !selector.written.name.is_empty() {
            self.by_name.remove(&selector.written.name);
        } else if let Some((key, value)) = selector.required_label()
            && let Some(values) = self.by_label.get_mut(key)
        {
            values.remove(value);
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.by_label.is_empty() && self.others.is_empty()
    }
}

/// The value of a key, made when it is not there; the key is copied only then.
fn entry<'a, V: Default>(map: &'a mut HashMap<String, V>, key: &str) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key).expect("put there just above")
}

#[cfg(test)]
pub(crate) mod tests;
