//! State of containers that were accessed by exec or attach: their files, and additional log lines.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cluster_client::ResourceRef;
use jiff::Timestamp;
use object::Object;
use parking_lot::Mutex;
use serde_json::Value;

use crate::shell::{Files, ShellEnvironment, environment_of};
use crate::simulation::{Simulation, resource};

/// Maximum number of containers whose files are kept; the oldest are dropped.
const SANDBOXES_MAX: usize = 64;
/// Maximum number of additional log lines of a container.
const LINES_MAX: usize = 1000;

pub struct Sandbox {
    pub place: Arc<ShellEnvironment>,
    pub files: Arc<Mutex<Files>>,
    pub lines: Mutex<VecDeque<(Timestamp, String)>>,
}

#[derive(Default)]
pub struct Sandboxes {
    kept: VecDeque<(Key, Arc<Sandbox>)>,
}

/// One run of a container: the next one starts with fresh files.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    uid: String,
    container: String,
    restarts: i64,
}

impl Sandboxes {
    pub fn forget(&mut self, uid: &str) {
        self.kept.retain(|(key, _)| key.uid != uid);
    }

    fn get(&self, key: &Key) -> Option<Arc<Sandbox>> {
        self.kept.iter().find(|(known, _)| known == key).map(|(_, sandbox)| Arc::clone(sandbox))
    }
}

impl Sandbox {
    /// Adds a line to the container's log.
    pub fn note(&self, at: Timestamp, line: String) {
        let mut lines = self.lines.lock();
        if lines.len() >= LINES_MAX {
            lines.pop_front();
        }
        lines.push_back((at, line));
    }
}

impl Simulation {
    fn sandbox_key(pod: &Object, container: &str) -> Key {
        let statuses = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
        let mut all = statuses.iter().flat_map(|list| pod.items(&["status", list]));
        let restarts =
            all.find(|status| status["name"] == container).and_then(|status| status["restartCount"].as_i64());
        Key { uid: pod.uid().to_owned(), container: container.to_owned(), restarts: restarts.unwrap_or(0) }
    }

    /// Returns the sandbox of a container that was accessed before.
    pub(crate) fn known_sandbox(&self, pod: &Object, container: &str) -> Option<Arc<Sandbox>> {
        self.inner.sandboxes.lock().get(&Self::sandbox_key(pod, container))
    }

    /// Returns the sandbox of a container, created on first access with its volumes and variables.
    pub(crate) async fn sandbox(&self, pod: &Object, spec: &Value) -> Arc<Sandbox> {
        let name = spec["name"].as_str().unwrap_or_default();
        let key = Self::sandbox_key(pod, name);
        if let Some(known) = self.inner.sandboxes.lock().get(&key) {
            return known;
        }
        let mut place = environment_of(pod, spec);
        self.add_env(pod, spec, &mut place).await;
        place.env.entry("POD_IP".to_owned()).or_insert_with(|| pod.str_at(&["status", "podIP"]).to_owned());
        let place = Arc::new(place);
        let mut files = Files::new(&place);
        self.add_volumes(pod, spec, &mut files).await;
        let made = Arc::new(Sandbox { place, files: Arc::new(Mutex::new(files)), lines: Mutex::default() });
        let mut all = self.inner.sandboxes.lock();
        // Another task may have created it meanwhile.
        if let Some(known) = all.get(&key) {
            return known;
        }
        if all.kept.len() >= SANDBOXES_MAX {
            all.kept.pop_front();
        }
        all.kept.push_back((key, Arc::clone(&made)));
        made
    }

    async fn add_env(&self, pod: &Object, spec: &Value, place: &mut ShellEnvironment) {
        let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
        for source in list("envFrom") {
            let prefix = source["prefix"].as_str().unwrap_or_default();
            for (kind, field) in [("configmaps", "configMapRef"), ("secrets", "secretRef")] {
                let Some(name) = source[field]["name"].as_str() else { continue };
                for (key, value) in self.entries(pod.namespace(), kind, name).await {
                    let value = String::from_utf8_lossy(&value).into_owned();
                    place.env.insert(format!("{prefix}{key}"), value);
                }
            }
        }
        for variable in list("env") {
            let from = &variable["valueFrom"];
            for (kind, field) in [("configmaps", "configMapKeyRef"), ("secrets", "secretKeyRef")] {
                let (Some(name), Some(object), Some(wanted)) =
                    (variable["name"].as_str(), from[field]["name"].as_str(), from[field]["key"].as_str())
                else {
                    continue;
                };
                let entries = self.entries(pod.namespace(), kind, object).await;
                if let Some((_, value)) = entries.into_iter().find(|(key, _)| key == wanted) {
                    place.env.insert(name.to_owned(), String::from_utf8_lossy(&value).into_owned());
                }
            }
        }
    }

    async fn add_volumes(&self, pod: &Object, spec: &Value, files: &mut Files) {
        for mount in spec["volumeMounts"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some(path) = mount["mountPath"].as_str() else { continue };
            let volumes = pod.items(&["spec", "volumes"]);
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else { continue };
            let content = self.volume(pod, volume).await;
            match mount["subPath"].as_str() {
                Some(wanted) => {
                    if let Some((_, bytes)) = content.into_iter().find(|(key, _)| key == wanted) {
                        files.seed(path, bytes);
                    }
                }
                None => {
                    files.seed_dir(path.trim_end_matches('/'));
                    for (key, bytes) in content {
                        files.seed(&format!("{}/{key}", path.trim_end_matches('/')), bytes);
                    }
                }
            }
        }
    }

    /// Returns the files of a volume whose content is in the API; others start empty.
    async fn volume(&self, pod: &Object, volume: &Value) -> Vec<(String, Bytes)> {
        let mut content = Vec::new();
        let projected = volume["projected"]["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
        for source in std::iter::once(volume).chain(projected) {
            let named = |field: &str, key: &str| source[field][key].as_str().map(str::to_owned);
            let config_map = named("configMap", "name").map(|name| ("configmaps", name, &source["configMap"]));
            let secret = named("secret", "secretName").or_else(|| named("secret", "name"));
            let secret = secret.map(|name| ("secrets", name, &source["secret"]));
            for (kind, name, options) in config_map.into_iter().chain(secret) {
                let entries = self.entries(pod.namespace(), kind, &name).await;
                content.extend(chosen(entries, options));
            }
            for item in source["downwardAPI"]["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
                let (Some(path), Some(field)) = (item["path"].as_str(), item["fieldRef"]["fieldPath"].as_str()) else {
                    continue;
                };
                let text = pod.str_at(&field.split('.').collect::<Vec<_>>()).to_owned();
                content.push((path.to_owned(), Bytes::from(text)));
            }
        }
        content
    }

    async fn entries(&self, namespace: &str, kind: &str, name: &str) -> Vec<(String, Bytes)> {
        let target = ResourceRef::namespaced(&resource("", kind), namespace, name);
        let Ok(Some(object)) = self.inner.client.find(target).await else { return Vec::new() };
        let map = |field: &str| object.get(&[field]).and_then(Value::as_object).cloned().unwrap_or_default();
        let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
        let mut entries: Vec<(String, Bytes)> = Vec::new();
        for (key, value) in map("data") {
            let bytes = match kind {
                "secrets" => decode(&value),
                _ => value.as_str().unwrap_or_default().as_bytes().to_vec(),
            };
            entries.push((key, bytes.into()));
        }
        entries.extend(map("binaryData").iter().map(|(key, value)| (key.clone(), decode(value).into())));
        entries
    }
}

/// Returns all entries, or those in `items` under their paths.
fn chosen(entries: Vec<(String, Bytes)>, options: &Value) -> Vec<(String, Bytes)> {
    let Some(items) = options["items"].as_array() else { return entries };
    let pick = |item: &Value| {
        let (_, bytes) = entries.iter().find(|(key, _)| item["key"] == key.as_str())?;
        Some((item["path"].as_str()?.to_owned(), bytes.clone()))
    };
    items.iter().filter_map(pick).collect()
}
