//! Which providers seal which keys of the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::chain::Chain;
use crate::config::{EncryptionConfiguration, KmsConfiguration, ResourcePattern};
use crate::kms::Kms;

/// Storage keys are authenticated as kube-apiserver's, whose default prefix this is. It is the same for every engine and every
/// `--etcd-prefix`, so that backups and migrations keep values as they are.
const CONTEXT_PREFIX: &str = "/registry";
const SECRETS: &str = "core/secrets";
const WORKS: &str = "work.karmada.io/works";
/// The keys of the plane in shared storage, which are sealed as Secrets are.
pub const SHARED_KEYS: &str = "/-flotilla/keys";
/// A Work whose manifests include a Secret contains this.
const SECRET_MANIFEST: &[u8] = b"\"kind\":\"Secret\"";

/// Providers by resource.
pub struct Rules {
    /// By group and resource as they begin a key, such as `core/secrets`.
    exact: HashMap<String, Arc<Chain>>,
    /// By group: `*.apps`, `*.`.
    groups: HashMap<String, Arc<Chain>>,
    everything: Option<Arc<Chain>>,
    /// The patterns in order, for reports.
    pub patterns: Vec<(ResourcePattern, Arc<Chain>)>,
    pub plugins: Vec<Arc<Kms>>,
}

impl Rules {
    pub fn new(config: &EncryptionConfiguration) -> Result<Self, String> {
        let mut plugins: BTreeMap<String, Arc<Kms>> = BTreeMap::new();
        let mut kms = |config: &KmsConfiguration| {
            if let Some(plugin) = plugins.get(&config.name) {
                return Ok(Arc::clone(plugin));
            }
            let plugin = Arc::new(Kms::new(config)?);
            plugins.insert(config.name.clone(), Arc::clone(&plugin));
            Ok(plugin)
        };
        let mut chains: Vec<(ResourcePattern, Chain)> = Vec::new();
        for entry in &config.resources {
            for text in &entry.resources {
                let pattern = ResourcePattern::parse(text);
                let chain = Chain::new(&entry.providers, &mut kms)?;
                match chains.iter_mut().find(|(known, _)| *known == pattern) {
                    Some((_, known)) => known.extend(chain),
                    None => chains.push((pattern, chain)),
                }
            }
        }
        let mut rules = Self {
            exact: HashMap::new(),
            groups: HashMap::new(),
            everything: None,
            patterns: Vec::new(),
            plugins: plugins.into_values().collect(),
        };
        for (pattern, chain) in chains {
            rules.insert(pattern, Arc::new(chain));
        }
        Ok(rules)
    }

    fn insert(&mut self, pattern: ResourcePattern, chain: Arc<Chain>) {
        let group = if pattern.group.is_empty() { "core" } else { &pattern.group };
        match pattern.resource.as_str() {
            "*" if group == "*" => self.everything = Some(Arc::clone(&chain)),
            "*" => drop(self.groups.insert(group.to_owned(), Arc::clone(&chain))),
            resource => drop(self.exact.insert(format!("{group}/{resource}"), Arc::clone(&chain))),
        }
        self.patterns.push((pattern, chain));
    }

    /// The providers for a key, whatever its value: a later rule may seal what an earlier one did not.
    pub fn to_open(&self, key: &str) -> Option<&Arc<Chain>> {
        if store::reserved::is_reserved(key) {
            return None;
        }
        if key == SHARED_KEYS {
            return self.named(SECRETS);
        }
        let resource = resource_of(key)?;
        self.named(resource).or_else(|| if resource == WORKS { self.named(SECRETS) } else { None })
    }

    /// The providers that seal a value of this key; `None` stores it as it is.
    pub fn to_seal(&self, key: &str, value: &[u8]) -> Option<&Arc<Chain>> {
        let chain = self.to_open(key)?;
        let is_carrier = || resource_of(key) == Some(WORKS) && self.named(WORKS).is_none();
        // Only Works with a Secret in them need the providers of Secrets; the others stay plain and compressible.
        if is_carrier() && memchr::memmem::find(value, SECRET_MANIFEST).is_none() {
            return None;
        }
        (!chain.writes_plain()).then_some(chain)
    }

    /// Reports whether plain bytes under this key are read as they are.
    pub fn reads_plain(&self, key: &str) -> bool {
        match self.to_open(key) {
            None => true,
            Some(chain) => chain.reads_plain() || (resource_of(key) == Some(WORKS) && self.named(WORKS).is_none()),
        }
    }

    fn named(&self, resource: &str) -> Option<&Arc<Chain>> {
        let group = resource.split_once('/').map_or(resource, |(group, _)| group);
        self.exact.get(resource).or_else(|| self.groups.get(group)).or(self.everything.as_ref())
    }

    /// Prefixes of all keys that are sealed or may have been.
    pub fn prefixes(&self) -> Vec<String> {
        if self.everything.is_some() {
            return vec!["/".to_owned()];
        }
        let mut prefixes: Vec<String> = self.groups.keys().map(|group| format!("/{group}/")).collect();
        let always = [SECRETS, WORKS].into_iter().map(str::to_owned);
        let exact = self.exact.keys().cloned().chain(always).map(|resource| format!("/{resource}/"));
        for prefix in exact.chain([SHARED_KEYS.to_owned()]) {
            if !prefixes.iter().any(|wider| prefix.starts_with(wider.as_str())) {
                prefixes.push(prefix);
            }
        }
        prefixes.sort();
        prefixes
    }
}

/// The data that is authenticated with the value of a key.
pub fn context(key: &str) -> Vec<u8> {
    [CONTEXT_PREFIX.as_bytes(), key.as_bytes()].concat()
}

/// `core/secrets` of `/core/secrets/NAMESPACE/NAME`.
fn resource_of(key: &str) -> Option<&str> {
    let rest = key.strip_prefix('/')?;
    let group = rest.find('/')?;
    let resource = rest[group + 1..].find('/')?;
    Some(&rest[..group + 1 + resource])
}
