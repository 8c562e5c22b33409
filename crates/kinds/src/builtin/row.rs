//! One row of the table of built-in resources, and the `Kind` it becomes.

use object::request::{Subresource, Verb};
use object::{GroupResource, GroupVersionKind};

use crate::kind::{Kind, ScaleSelector, ServedSubresource, SubresourceKind};
use crate::{printers, schemas, selectable, strategies};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ResourceScope {
    Namespaced,
    Cluster,
}

pub struct Row {
    pub kind: &'static str,
    pub plural: &'static str,
    pub short: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub scope: ResourceScope,
    pub stored: bool,
    /// Group, version and kind of the stored objects, if they differ from this kind.
    pub stored_as: Option<(&'static str, &'static str, &'static str)>,
    pub verbs: &'static [Verb],
    pub subresources: &'static [Subresource],
}

impl Row {
    /// A stored, namespaced resource with all verbs and no special behavior.
    pub const PLAIN: Self = Self {
        kind: "",
        plural: "",
        short: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
        stored: true,
        stored_as: None,
        verbs: &Verb::OF_RESOURCES,
        subresources: &[],
    };

    pub fn to_kind(&self, group: &str, version: &str) -> Kind {
        let gvk = GroupVersionKind::new(group, version, self.kind);
        let storage = match self.stored_as {
            Some((group, version, kind)) => GroupVersionKind::new(group, version, kind),
            None => gvk.clone(),
        };
        let definition = definition_name(&gvk);
        Kind {
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short),
            categories: owned(self.categories),
            namespaced: self.scope == ResourceScope::Namespaced,
            storage_resource: GroupResource::new(storage.group.clone(), self.plural),
            storage,
            stored: self.stored,
            verbs: self.verbs.to_vec(),
            subresources: self.subresources.iter().map(|name| served(name, &gvk)).collect(),
            schema: schemas::named(&definition).expect("every built-in kind has a schema"),
            definition,
            selectable_fields: selectable::fields_of(&gvk),
            strategy: strategies::for_kind(&gvk),
            printer: printers::for_kind(&gvk),
            deprecation: deprecation(&gvk),
            own_schema: None,
            gvk,
        }
    }
}

/// The definition of a built-in kind or of the body of a subresource: `io.k8s.api.` and the first label of the group,
/// except for groups with their own modules.
pub fn definition_name(gvk: &GroupVersionKind) -> String {
    let package = match gvk.group.as_str() {
        "" => "io.k8s.api.core".to_owned(),
        "meta.k8s.io" => "io.k8s.apimachinery.pkg.apis.meta".to_owned(),
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration".to_owned(),
        group => format!("io.k8s.api.{}", group.split('.').next().unwrap_or(group)),
    };
    format!("{package}.{}.{}", gvk.version, gvk.kind)
}

/// The deprecation warnings of a 1.36 server for these kinds.
fn deprecation(gvk: &GroupVersionKind) -> Option<String> {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
        }
        _ => None,
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn served(name: &Subresource, parent: &GroupVersionKind) -> ServedSubresource {
    use Verb::{Create, Delete, Get, Patch, Update};
    const WRITTEN: &[Verb] = &[Get, Patch, Update];
    const PROXIED: &[Verb] = &[Create, Delete, Get, Patch, Update];
    let (kind, verbs) = match name {
        Subresource::Status => (SubresourceKind::Status, WRITTEN),
        Subresource::Scale => (scale(), WRITTEN),
        Subresource::Finalize => (SubresourceKind::Finalize, &[Update][..]),
        Subresource::Token => (SubresourceKind::Token, &[Create][..]),
        Subresource::Approval => (SubresourceKind::Approval, WRITTEN),
        Subresource::Binding => (SubresourceKind::Binding, &[Create][..]),
        Subresource::Eviction => (SubresourceKind::Eviction, &[Create][..]),
        Subresource::EphemeralContainers => (SubresourceKind::EphemeralContainers, WRITTEN),
        Subresource::Resize => (SubresourceKind::Resize, WRITTEN),
        Subresource::Log => (SubresourceKind::Connect, &[Get][..]),
        Subresource::Proxy => (SubresourceKind::Connect, PROXIED),
        Subresource::Attach | Subresource::Exec | Subresource::PortForward | Subresource::Other(_) => {
            (SubresourceKind::Connect, &[Create, Get][..])
        }
    };
    let gvk = match name {
        Subresource::Scale => GroupVersionKind::new("autoscaling", "v1", "Scale"),
        Subresource::Token => GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest"),
        Subresource::Eviction => GroupVersionKind::new("policy", "v1", "Eviction"),
        Subresource::Binding => GroupVersionKind::new("", "v1", "Binding"),
        Subresource::Attach => GroupVersionKind::new("", "v1", "PodAttachOptions"),
        Subresource::Exec => GroupVersionKind::new("", "v1", "PodExecOptions"),
        Subresource::PortForward => GroupVersionKind::new("", "v1", "PodPortForwardOptions"),
        Subresource::Proxy => GroupVersionKind::new("", "v1", format!("{}ProxyOptions", parent.kind)),
        _ => parent.clone(),
    };
    ServedSubresource { name: name.clone(), kind, gvk, verbs: verbs.to_vec() }
}

fn scale() -> SubresourceKind {
    SubresourceKind::Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: ScaleSelector::Object(".spec.selector".to_owned()),
    }
}
