//! Rows of authorization and authentication: role bindings, signing requests, API services.

use jiff::{SignedDuration, Timestamp};
use object::Object;
use object::conditions::find_in;
use serde_json::Value;

use super::cells::{age_of, labels, str_of, text_or};
use super::{AGE, NAME, PrinterTable, age, cluster, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "RoleBinding" | "ClusterRoleBinding" => ROLE_BINDING,
        "CertificateSigningRequest" => SIGNING_REQUEST,
        "ClusterTrustBundle" => TRUST_BUNDLE,
        "PodCertificateRequest" => POD_CERTIFICATE_REQUEST,
        "APIService" => cluster::API_SERVICE,
        _ => return None,
    })
}

const ROLE_BINDING: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Role", "The role that is given."),
        AGE,
        text("Users", "The users it is given to.").wide(),
        text("Groups", "The groups it is given to.").wide(),
        text("ServiceAccounts", "The service accounts it is given to.").wide(),
    ],
    role_binding_row,
);

fn role_binding_row(binding: &Object, now: Timestamp) -> Vec<Value> {
    let role = |key: &str| binding.str_at(&["roleRef", key]);
    let subjects = |kind: &str, show: fn(&Value) -> String| {
        let matching = binding.items(&["subjects"]).iter().filter(|s| str_of(s, "kind") == kind);
        Value::from(matching.map(show).collect::<Vec<_>>().join(", "))
    };
    let name = |subject: &Value| str_of(subject, "name").to_owned();
    vec![
        binding.name().into(),
        format!("{}/{}", role("kind"), role("name")).into(),
        age_of(binding, now),
        subjects("User", name),
        subjects("Group", name),
        subjects("ServiceAccount", |s| format!("{}/{}", str_of(s, "namespace"), str_of(s, "name"))),
    ]
}

const SIGNING_REQUEST: PrinterTable = PrinterTable::new(
    &[
        NAME,
        AGE,
        text("SignerName", "The signer that is asked."),
        text("Requestor", "Who asks."),
        text("RequestedDuration", "How long the certificate should be valid."),
        text("Condition", "Whether the request is approved, denied, failed or issued."),
    ],
    |request, now| {
        let duration = request.i64_at(&["spec", "expirationSeconds"]);
        let duration =
            duration.map_or_else(|| "<none>".to_owned(), |seconds| age::human(SignedDuration::from_secs(seconds)));
        vec![
            request.name().into(),
            age_of(request, now),
            text_or(request.str_at(&["spec", "signerName"]), "<none>").into(),
            request.str_at(&["spec", "username"]).into(),
            duration.into(),
            signing_state(request).into(),
        ]
    },
);

fn signing_state(request: &Object) -> String {
    let conditions = request.items(&["status", "conditions"]);
    let has = |ty: &str| find_in(conditions, ty).is_some();
    let mut state = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !request.str_at(&["status", "certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

const TRUST_BUNDLE: PrinterTable =
    PrinterTable::new(&[NAME, text("SignerName", "The signer whose trust anchors these are.")], |bundle, _| {
        vec![bundle.name().into(), text_or(bundle.str_at(&["spec", "signerName"]), "<none>").into()]
    });

const POD_CERTIFICATE_REQUEST: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("PodName", "The pod the certificate is for."),
        text("ServiceAccountName", "The account the pod runs as."),
        text("NodeName", "The node the pod runs on."),
        text("SignerName", "The signer that is asked."),
        text("State", "Whether the request is issued, denied or failed."),
        text("UnverifiedUserAnnotations", "What the pod's author added, unchecked."),
    ],
    |request, _| {
        let conditions = request.items(&["status", "conditions"]);
        let states = ["Issued", "Denied", "Failed"];
        let state = states.into_iter().rev().find(|ty| find_in(conditions, ty).is_some()).unwrap_or("Pending");
        let spec = |key: &str| Value::from(request.str_at(&["spec", key]));
        vec![
            request.name().into(),
            spec("podName"),
            spec("serviceAccountName"),
            spec("nodeName"),
            spec("signerName"),
            state.into(),
            labels(request.get(&["spec", "unverifiedUserAnnotations"])).into(),
        ]
    },
);
