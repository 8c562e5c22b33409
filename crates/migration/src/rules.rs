//! The objects of a Karmada that only make sense in that Karmada.

use api::names::SYSTEM_NAMESPACE;
use api::policy::{LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID};
use kinds::Catalog;
use object::{GroupResource, Object};
use serde_json::Value;

/// Groups of metrics that Karmada's metrics adapter serves and a Flotilla server serves itself.
const METRICS_GROUPS: [&str; 3] = ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"];
/// Records that kube-apiserver keeps in etcd and does not serve.
const RECORDS: [(&str, &str); 3] =
    [("", "RangeAllocation"), ("", "ComponentStatus"), ("internal.apiserver.k8s.io", "StorageVersion")];
const WEBHOOK_CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
/// Webhooks of karmada-webhook are named after Karmada's groups.
const KARMADA_SUFFIX: &str = ".karmada.io";

/// The reason why an object is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    Event,
    Lease,
    ApiServerRecord,
    OwnDefinition,
    LocalApiService,
    ServedHere,
    KarmadaWebhook,
    KarmadaService,
}

impl LeftOut {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Event => "events of the old control plane",
            Self::Lease => "their holders renew or create them",
            Self::ApiServerRecord => "every API server writes its own",
            Self::OwnDefinition => "Flotilla serves this kind without a definition",
            Self::LocalApiService => "every API server registers its own groups",
            Self::ServedHere => "Flotilla serves this group without an aggregated server",
            Self::KarmadaWebhook => "its rules are part of the API server of Flotilla",
            Self::KarmadaService => "it points to a server of Karmada that Flotilla does not need",
        }
    }

    /// The reason in an export to Karmada.
    pub fn reason_here(self) -> &'static str {
        match self {
            Self::Event => "events of this control plane",
            Self::OwnDefinition => "an installation of Karmada brings it",
            Self::ServedHere | Self::KarmadaWebhook | Self::KarmadaService => {
                "an installation of Karmada brings its own"
            }
            reason => reason.reason(),
        }
    }
}

/// Returns why an object is left out, `None` if it is taken over.
pub fn left_out(catalog: &Catalog, object: &Object) -> Option<LeftOut> {
    // A template of a policy is in members: without it, it would be removed there.
    if [LABEL_PROPAGATION_ID, LABEL_CLUSTER_PROPAGATION_ID].iter().any(|label| object.label(label).is_some()) {
        return None;
    }
    let gvk = object.gvk();
    let (group, kind) = (gvk.group.as_str(), gvk.kind.as_str());
    match (group, kind) {
        ("" | "events.k8s.io", "Event") => Some(LeftOut::Event),
        ("coordination.k8s.io", "Lease" | "LeaseCandidate") => Some(LeftOut::Lease),
        ("", "Service" | "Endpoints") | ("discovery.k8s.io", "EndpointSlice") => own_service(object),
        // The addresses of the Service `default/kubernetes`, and the range of the old API server.
        ("networking.k8s.io", "ServiceCIDR") if object.name() == "kubernetes" => Some(LeftOut::ApiServerRecord),
        ("networking.k8s.io", "IPAddress") => {
            let parent = ["namespace", "name"].map(|field| object.str_at(&["spec", "parentRef", field]));
            (parent == ["default", "kubernetes"]).then_some(LeftOut::ApiServerRecord)
        }
        ("", "ConfigMap") => {
            is_at(object, "kube-system", "extension-apiserver-authentication").then_some(LeftOut::ApiServerRecord)
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let resource = GroupResource {
                group: object.str_at(&["spec", "group"]).to_owned(),
                resource: object.str_at(&["spec", "names", "plural"]).to_owned(),
            };
            catalog.preferred(&resource).map(|_| LeftOut::OwnDefinition)
        }
        ("apiregistration.k8s.io", "APIService") => api_service(catalog, object),
        ("admissionregistration.k8s.io", kind) if WEBHOOK_CONFIGURATIONS.contains(&kind) => {
            let webhooks = object.items(&["webhooks"]);
            (!webhooks.is_empty() && webhooks.iter().all(is_karmadas)).then_some(LeftOut::KarmadaWebhook)
        }
        _ => RECORDS.contains(&(group, kind)).then_some(LeftOut::ApiServerRecord),
    }
}

/// Removes the webhooks of karmada-webhook from a configuration that also has others.
pub fn without_karmadas(object: &mut Object) {
    let gvk = object.gvk();
    if gvk.group != "admissionregistration.k8s.io" || !WEBHOOK_CONFIGURATIONS.contains(&gvk.kind.as_str()) {
        return;
    }
    let others: Vec<Value> =
        object.items(&["webhooks"]).iter().filter(|webhook| !is_karmadas(webhook)).cloned().collect();
    if others.len() < object.items(&["webhooks"]).len() {
        object.set(&["webhooks"], others);
    }
}

/// Reports whether the object makes the plane call a server of the user, which must be reachable from the new plane too.
pub fn calls_out(object: &Object) -> bool {
    let gvk = object.gvk();
    match gvk.group.as_str() {
        "admissionregistration.k8s.io" => WEBHOOK_CONFIGURATIONS.contains(&gvk.kind.as_str()),
        "apiregistration.k8s.io" => gvk.kind == "APIService",
        "config.karmada.io" => gvk.kind == "ResourceInterpreterWebhookConfiguration",
        _ => false,
    }
}

fn is_at(object: &Object, namespace: &str, name: &str) -> bool {
    object.namespace() == namespace && object.name() == name
}

fn is_karmadas(webhook: &Value) -> bool {
    webhook["name"].as_str().is_some_and(|name| name.ends_with(KARMADA_SUFFIX))
        || webhook["clientConfig"]["service"]["name"] == "karmada-webhook"
}

/// The Service of the API server itself with its endpoints, records without a name, and Services of Karmada's servers.
fn own_service(object: &Object) -> Option<LeftOut> {
    if object.name().is_empty() || is_at(object, "default", "kubernetes") {
        return Some(LeftOut::ApiServerRecord);
    }
    let is_external = object.str_at(&["spec", "type"]) == "ExternalName";
    let is_karmadas = object.namespace() == SYSTEM_NAMESPACE && object.name().starts_with("karmada-");
    (is_external && is_karmadas).then_some(LeftOut::KarmadaService)
}

fn api_service(catalog: &Catalog, object: &Object) -> Option<LeftOut> {
    if object.get(&["spec", "service"]).is_none_or(Value::is_null) {
        return Some(LeftOut::LocalApiService);
    }
    let group = object.str_at(&["spec", "group"]);
    let is_served = METRICS_GROUPS.contains(&group) || catalog.kinds().iter().any(|kind| kind.gvk.group == group);
    is_served.then_some(LeftOut::ServedHere)
}
