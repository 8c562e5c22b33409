//! Sends a request to a control plane in another process, as the caller, and streams the response back.

use std::sync::Arc;

use apiserver::forwarding;
use apiserver::http::Incoming;
use apiserver::respond::Body;
use cluster_client::remote::config::{Credentials, Pem};
use cluster_client::remote::connect::open_http1_as;
use cluster_client::remote::tls::ClientIdentity;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use instances::plane::RemoteAccess;
use object::Status;
use object::request::User;
use object::request::user::AUTHENTICATED_GROUP;

use crate::revocation::SessionEnd;

/// Forwards a request with the credential of the manager and the identity of the caller. An upgraded connection is closed
/// when `end` completes.
pub async fn forward(
    remote: &RemoteAccess,
    path: &str,
    user: &User,
    incoming: Incoming,
    end: SessionEnd,
) -> Result<Response<Body>, Status> {
    let upgrade = forwarding::wants_upgrade(&incoming);
    let mut headers = forwarding::passed_headers(&incoming.headers, upgrade);
    let impersonated = remote.can_impersonate.then_some(user);
    set_identity(&mut headers, &remote.config.credentials, impersonated)?;
    let base: Uri = remote.config.server.parse().map_err(|_| failed("its server is not a URL"))?;
    let prefix = base.path().trim_end_matches('/');
    let target: Uri = format!("{prefix}{path}").parse().map_err(|_| Status::bad_request("not a path"))?;
    let host = base.authority().map_or("", |authority| authority.as_str());
    headers.insert(header::HOST, HeaderValue::from_str(host).map_err(failed)?);
    let identity = Arc::new(ClientIdentity::default());
    if let Some(pair) = &remote.config.credentials.client_certificate {
        let read = |pem: &Pem| pem.read().map_err(failed);
        identity.set(&read(&pair.certificate)?, &read(&pair.key)?).map_err(failed)?;
    }
    let stream = open_http1_as(&remote.config, identity).await.map_err(failed)?;
    let mut request = Request::new(forwarding::body_of(incoming.body));
    *request.method_mut() = incoming.method;
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    let response = forwarding::exchange(stream, request).await.map_err(failed)?;
    forwarding::answer_until(response, incoming.upgrade, end)
}

fn set_identity(headers: &mut HeaderMap, credentials: &Credentials, user: Option<&User>) -> Result<(), Status> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Status::bad_request("not a header value"));
    if let Some(token) = &credentials.token {
        headers.insert(header::AUTHORIZATION, value(&format!("Bearer {token}"))?);
    }
    let Some(user) = user else { return Ok(()) };
    headers.insert(HeaderName::from_static("impersonate-user"), value(&user.name)?);
    // Every API server adds this group by itself; the credential may lack the right to set it.
    for group in user.groups.iter().filter(|group| *group != AUTHENTICATED_GROUP) {
        headers.append(HeaderName::from_static("impersonate-group"), value(group)?);
    }
    Ok(())
}

fn failed(problem: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("the control plane of the instance cannot be reached: {problem}"))
}
