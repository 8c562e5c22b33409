//! `serviceaccounts/NAME/token`: short-lived tokens bound to an audience and, if asked, to an object.

use std::sync::Arc;

use jiff::Timestamp;
use object::request::user::service_account_user;
use object::{FieldError, FieldPath, GroupKind, GroupResource, GroupVersion, Object, Status, schema};
use serde_json::{Map, Value, json};

use super::find_core;
use crate::context::Context;
use crate::scope::WriteScope;
use crate::subresource::Call;
use crate::verbs::{Answer, Target};

const GROUP: &str = "authentication.k8s.io";
const API_VERSION: &str = "authentication.k8s.io/v1";
const DEFINITION: &str = "io.k8s.api.authentication.v1.TokenRequest";
const EXPIRATION_DEFAULT: i64 = 3600;
const EXPIRATION_MIN: i64 = 600;
const EXPIRATION_MAX: i64 = 1 << 32;
/// Kubelets ask for exactly this long for their pods; such tokens then live a year and only warn, since old client
/// libraries in pods never read the token again.
const EXTENDED_FROM: i64 = 3607;
const EXTENDED_TO: i64 = 365 * 24 * 3600;

/// The parsed and checked request for a token.
struct Asked {
    audiences: Vec<String>,
    seconds: i64,
    bound: Option<BoundReference>,
}

struct BoundReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

/// The object that a token is bound to, and its claims.
#[derive(Default)]
struct Bound {
    claims: Map<String, Value>,
    is_pod: bool,
}

pub async fn create(scope: WriteScope<'_>, ctx: &Context, target: &Target, call: &Call) -> Result<Answer, Status> {
    let request = read_request(call)?;
    check_identity(target, &request)?;
    let account = find_core(scope.resources(), "serviceaccounts", &target.namespace, &target.name).await?;
    let account = account.ok_or_else(|| target.not_found())?;
    if !request.uid().is_empty() && request.uid() != account.uid() {
        let (asked, is) = (request.uid(), account.uid());
        let detail =
            format!("the UID in the token request ({asked}) does not match the UID of the service account ({is})");
        return Err(Status::conflict(&GroupResource::new(GROUP, "TokenRequest"), &target.name, detail));
    }
    let accounts = scope.auth.service_accounts();
    let asked = read_spec(&request, accounts.audiences())?;
    let bound = match &asked.bound {
        Some(reference) => find_bound(scope, target, reference).await?,
        None => Bound::default(),
    };
    let now = Timestamp::now();
    let own_audiences = asked.audiences.iter().all(|audience| accounts.audiences().contains(audience));
    let extended = bound.is_pod && own_audiences && asked.seconds == EXTENDED_FROM;
    let id = uuid::Uuid::new_v4().to_string();
    let mut private = bound.claims;
    private.insert("namespace".into(), target.namespace.as_str().into());
    private.insert("serviceaccount".into(), json!({"name": account.name(), "uid": account.uid()}));
    if extended {
        private.insert("warnafter".into(), (now.as_second() + asked.seconds).into());
    }
    let lifetime = if extended { EXTENDED_TO } else { asked.seconds };
    let claims = json!({
        "iss": accounts.issuer(),
        "sub": service_account_user(&target.namespace, &target.name),
        "aud": asked.audiences,
        "iat": now.as_second(), "nbf": now.as_second(), "exp": now.as_second() + lifetime,
        "jti": id,
        "kubernetes.io": private,
    });
    let Value::Object(claims) = claims else { unreachable!("written as a map above") };
    let signed = accounts.signer().sign(&claims);
    let token = signed.map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;
    ctx.annotate_audit("authentication.kubernetes.io/issued-credential-id", format!("JTI={id}"));
    Ok(Answer::Object { code: 201, object: Arc::new(answer(request, &account, &asked, token, now)) })
}

/// The body as a TokenRequest: of the right kind, every field of the right type, unknown ones gone.
fn read_request(call: &Call) -> Result<Object, Status> {
    let request = call.object()?;
    let typed = (request.api_version(), request.kind());
    if typed != ("", "") && typed != (API_VERSION, "TokenRequest") {
        let (version, kind) = (request.gvk().version, request.kind());
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a TokenRequest: \
             converting ({version}.{kind}) to (authentication.TokenRequest): unknown conversion"
        )));
    }
    let shape = kinds::schemas::named(DEFINITION).ok_or_else(|| Status::internal("TokenRequest has no schema"))?;
    let mut value = request.into_value();
    schema::drop_nulls(&shape, &mut value);
    schema::decode_check(&shape, &value).map_err(|problem| {
        let text = format!("TokenRequest in version \"v1\" cannot be handled as a TokenRequest: {problem}");
        Status::bad_request(text)
    })?;
    schema::prune(&shape, &mut value);
    Object::from_value(value).ok_or_else(|| Status::bad_request("the request body must be a JSON object"))
}

fn check_identity(target: &Target, request: &Object) -> Result<(), Status> {
    for (field, given, is) in
        [("name", request.name(), &target.name), ("namespace", request.namespace(), &target.namespace)]
    {
        if !given.is_empty() && given != is {
            let detail = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(FieldPath::new("metadata").child(field), given, detail);
            return Err(Status::invalid(&GroupKind::new(GROUP, "TokenRequest"), &target.name, &[error]));
        }
    }
    Ok(())
}

fn read_spec(request: &Object, audiences_default: &[String]) -> Result<Asked, Status> {
    let audiences = request.items(&["spec", "audiences"]).iter().filter_map(Value::as_str);
    let audiences: Vec<String> = audiences.map(str::to_owned).collect();
    let seconds = request.i64_at(&["spec", "expirationSeconds"]).unwrap_or(EXPIRATION_DEFAULT);
    let refuse = |detail: &str| {
        let error = FieldError::invalid(FieldPath::new("spec.expirationSeconds"), seconds, detail);
        Err(Status::invalid(&GroupKind::new(GROUP, "TokenRequest"), "", &[error]))
    };
    if seconds < EXPIRATION_MIN {
        return refuse("may not specify a duration less than 10 minutes");
    }
    if seconds > EXPIRATION_MAX {
        return refuse("may not specify a duration larger than 2^32 seconds");
    }
    let bound = request.get(&["spec", "boundObjectRef"]).map(|reference| {
        let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
        BoundReference { api_version: text("apiVersion"), kind: text("kind"), name: text("name"), uid: text("uid") }
    });
    let audiences = if audiences.is_empty() { audiences_default.to_vec() } else { audiences };
    Ok(Asked { audiences, seconds, bound })
}

async fn find_bound(scope: WriteScope<'_>, target: &Target, reference: &BoundReference) -> Result<Bound, Status> {
    let group_version = GroupVersion::parse(&reference.api_version).unwrap_or_else(|| GroupVersion::new("", ""));
    let (plural, namespace) = match (group_version.group.as_str(), reference.kind.as_str()) {
        ("", "Pod") => ("pods", target.namespace.as_str()),
        ("", "Secret") => ("secrets", target.namespace.as_str()),
        ("", "Node") => ("nodes", ""),
        (group, kind) => {
            let version = &group_version.version;
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    if reference.name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let found = find_core(scope.resources(), plural, namespace, &reference.name).await?;
    let found = found.ok_or_else(|| Status::not_found(&GroupResource::new("", plural), &reference.name))?;
    let mut bound = Bound { is_pod: plural == "pods", ..Bound::default() };
    if bound.is_pod && found.str_at(&["spec", "serviceAccountName"]) != target.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            target.name
        )));
    }
    if !reference.uid.is_empty() && reference.uid != found.uid() {
        let detail = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. \
             The object might have been deleted and then recreated",
            reference.uid
        );
        return Err(Status::conflict(&GroupResource::new("", &reference.kind), &reference.name, detail));
    }
    let claim = plural.trim_end_matches('s');
    bound.claims.insert(claim.into(), json!({"name": found.name(), "uid": found.uid()}));
    let node_name = found.str_at(&["spec", "nodeName"]);
    if bound.is_pod && !node_name.is_empty() {
        let node = find_core(scope.resources(), "nodes", "", node_name).await?;
        let known = node.map(|node| json!({"name": node_name, "uid": node.uid()}));
        bound.claims.insert("node".into(), known.unwrap_or_else(|| json!({"name": node_name})));
    }
    Ok(bound)
}

fn answer(request: Object, account: &Object, asked: &Asked, token: String, now: Timestamp) -> Object {
    let mut out = request;
    out.set(&["apiVersion"], API_VERSION);
    out.set(&["kind"], "TokenRequest");
    out.set_name(account.name());
    out.set_namespace(account.namespace());
    out.set(&["metadata", "uid"], account.uid());
    out.set(&["metadata", "creationTimestamp"], object::time::format_seconds(now));
    out.set(&["spec", "audiences"], asked.audiences.clone());
    out.set(&["spec", "expirationSeconds"], asked.seconds);
    if asked.bound.is_none() {
        out.set(&["spec", "boundObjectRef"], Value::Null);
    }
    let expires = object::time::after(now, asked.seconds);
    out.set(&["status"], json!({"token": token, "expirationTimestamp": object::time::format_seconds(expires)}));
    out
}
