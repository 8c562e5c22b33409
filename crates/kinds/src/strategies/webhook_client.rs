//! The client configuration of a webhook: a URL or a service, for admission and for CRD conversion.

use object::names;

use crate::strategies::fields::Field;

const URL_FORM: &str = "; desired format: https://host[/path]";

/// A webhook has a URL or a service, never both.
pub fn validate(client: Field<'_>) {
    let (url, service) = (client.field("url"), client.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_url(url),
        (false, true) => validate_service(service),
        _ => client.required("exactly one of url or service is required"),
    }
}

fn validate_service(service: Field<'_>) {
    // kube-apiserver passes the two in the wrong order, so a missing name is reported as a missing namespace.
    if service.field("namespace").is_empty() {
        service.field("name").required("");
    }
    if service.field("name").is_empty() {
        service.field("namespace").required("");
    }
    let port = service.field("port");
    if let Some(problem) = port.int().map(names::port_number).filter(|problems| !problems.is_empty()) {
        port.invalid(format!("port is not valid: {}", problem.join(", ")));
    }
    validate_path(service.field("path"));
}

fn validate_path(path: Field<'_>) {
    let text = path.text();
    match text {
        "" | "/" => return,
        "//" => return path.invalid("segment[0] may not be empty"),
        _ => {}
    }
    if !text.starts_with('/') {
        path.invalid("must start with a '/'");
    }
    let mut rest = text.chars();
    rest.next();
    let inner = rest.as_str();
    for (index, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if segment.is_empty() {
            path.invalid(format!("segment[{index}] may not be empty"));
            continue;
        }
        path.problems(names::dns1123_subdomain(segment).iter().map(|p| format!("segment[{index}]: {p}")).collect());
    }
}

/// An `https://host[/path]` address without user info, query or fragment.
fn validate_url(url: Field<'_>) {
    let text = url.text();
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let is_scheme = |scheme: &str| scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let (scheme, rest) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", text));
    let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if !scheme.eq_ignore_ascii_case("https") {
        url.invalid_as(scheme, format!("'https' is the only allowed URL scheme{URL_FORM}"));
    }
    if host.is_empty() {
        url.invalid_as(host, format!("host must be specified{URL_FORM}"));
    }
    if let Some(user) = user {
        url.invalid_as(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        url.invalid_as(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        url.invalid_as(query, "query parameters are not permitted in the URL");
    }
}
