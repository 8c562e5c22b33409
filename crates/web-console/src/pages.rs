//! Responses with the files of the console: security headers, caching, and the page for every path that is no file.

use apiserver::respond::{self, Body};
use http::{HeaderMap, HeaderValue, Response, header};
use object::Status;

use crate::CONSOLE_PATH;
use crate::assets;

/// Replaced in the page by a value that changes with every response.
const NONCE_PLACEHOLDER: &str = "__CSP_NONCE__";

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Flotilla console</title>\
    <h1>This binary was built without the console</h1>\
    <p>Install Node 20.19 or later and run <code>make up</code> or <code>make dist</code>: it builds <code>console/dist</code>, \
    which the binary then contains. The API and all commands work without it.</p>";

/// Answers a request below the console's path that is not a call of its API.
pub fn serve(path: &str, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let Some(file) = path.strip_prefix(CONSOLE_PATH) else {
        return Ok(redirect());
    };
    if let Some(asset) = assets::find(file) {
        return Ok(asset_response(&asset, headers));
    }
    // Deep links have no extension; a missing file must not be answered with the page.
    if file.starts_with("assets/") {
        return Ok(respond::no_such_page());
    }
    page_response()
}

fn redirect() -> Response<Body> {
    let mut response = respond::text(307, "text/plain; charset=utf-8", "the console is at /console/");
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(CONSOLE_PATH));
    response
}

/// Names of files contain a hash of their content, so that browsers may keep them.
fn asset_response(asset: &assets::Asset, headers: &HeaderMap) -> Response<Body> {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let accepts_brotli = accepted.flat_map(|line| line.split(',')).any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        name.trim() == "br" && quality.trim() != "q=0"
    });
    if !accepts_brotli {
        let text = "the console's files are compressed with brotli: send Accept-Encoding: br";
        return respond::text(406, "text/plain; charset=utf-8", text);
    }
    let mut response = Response::new(Body::whole(asset.brotli));
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    out.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    out.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    out.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    out.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

fn page_response() -> Result<Response<Body>, Status> {
    let nonce = pki::token::random_lowercase(24).map_err(Status::internal)?;
    let page = assets::page().unwrap_or(NOT_BUILT).replace(NONCE_PLACEHOLDER, &nonce);
    let mut response = Response::new(Body::whole(page.into_bytes()));
    let policy = HeaderValue::from_str(&content_security_policy(&nonce)).map_err(Status::internal)?;
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    out.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ] {
        out.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// Everything comes from this server. The nonce is for style elements that the editor and the terminal create.
fn content_security_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, code: u16, content_type: &str) -> Response<Body> {
        let response = serve(path, &HeaderMap::new()).unwrap();
        assert_eq!(response.status().as_u16(), code, "{path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], content_type, "{path}");
        response
    }

    #[test]
    fn deep_links_get_the_page_and_missing_files_do_not() {
        for path in ["/console/", "/console/workloads/apps/v1/deployments/default/a.b", "/console/index.html"] {
            let response = check(path, 200, "text/html; charset=utf-8");
            assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        }
        check("/console/assets/none.js", 404, "text/plain; charset=utf-8");
        let response = check("/console", 307, "text/plain; charset=utf-8");
        assert_eq!(response.headers()[header::LOCATION], "/console/");
    }

    #[test]
    fn every_page_has_its_own_nonce_and_allows_no_inline_script() {
        let policy =
            |response: Response<Body>| response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let first = policy(page_response().unwrap());
        let second = policy(page_response().unwrap());
        assert_ne!(first, second);
        assert!(first.contains("script-src 'self';") && first.contains("frame-ancestors 'none'"), "{first}");
        assert!(!first.contains("unsafe"), "{first}");
    }
}
