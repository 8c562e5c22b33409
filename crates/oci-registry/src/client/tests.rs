//! The client against registries that want a login, send elsewhere, are busy, or break off.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;

use super::*;
use crate::digest::Digest;
use crate::manifest::OCI_MANIFEST;

/// A registry of a few lines; ends with the test.
async fn registry<A>(answer: A) -> String
where
    A: Fn(&Request<Incoming>, &str) -> Response<Full<Bytes>> + Send + Sync + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (answer, own) = (Arc::new(answer), host.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answer, own) = (answer.clone(), own.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let said = answer(&request, &own);
                // Bodies are read, so that connections can be used again.
                async move {
                    let _ = request.into_body().collect().await;
                    Ok::<_, Infallible>(said)
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    host
}

fn said(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

fn client(logins: &str) -> Arc<Client> {
    let mut client = Client::new(&ClientOptions::default()).unwrap();
    Arc::get_mut(&mut client).unwrap().credentials = Credentials::from_json(logins);
    client
}

async fn remote(client: &Arc<Client>, host: &str) -> Remote {
    client.repository(host, &"a/b".parse().unwrap()).await.unwrap()
}

fn sent<'a>(request: &'a Request<Incoming>, header: &str) -> &'a str {
    request.headers().get(header).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_token_is_fetched_with_the_login_and_used() {
    let tokens = Arc::new(AtomicUsize::new(0));
    let counted = tokens.clone();
    let host = registry(move |request, host| match request.uri().path() {
        "/token" => {
            counted.fetch_add(1, Ordering::SeqCst);
            let query = request.uri().query().unwrap_or_default();
            let asked = query.contains("scope=repository%3Aa%2Fb%3Apull") && query.contains("service=here");
            let is_known = sent(request, "authorization") == "Basic dTpw";
            if asked && is_known { said(200, &[], r#"{"token":"T","expires_in":300}"#) } else { said(401, &[], "") }
        }
        "/v2/" => said(401, &[], ""),
        _ if sent(request, "authorization") == "Bearer T" => said(200, &[], ""),
        _ => {
            let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"here\"");
            said(401, &[("www-authenticate", &challenge)], "")
        }
    })
    .await;
    let logins = format!(r#"{{"auths":{{"{host}":{{"auth":"dTpw"}}}}}}"#);
    let client = client(&logins);
    let remote_here = remote(&client, &host).await;
    assert!(remote_here.has_blob(&Digest::of(b"x")).await.unwrap());
    assert!(remote_here.has_blob(&Digest::of(b"y")).await.unwrap());
    assert_eq!(tokens.load(Ordering::SeqCst), 1, "one token for both");
    let stranger = super::tests::client("{}");
    let refused = remote(&stranger, &host).await.has_blob(&Digest::of(b"x")).await;
    assert!(matches!(refused, Err(ClientError::Denied { .. })), "{refused:?}");
}

#[tokio::test]
async fn basic_logins_are_used() {
    let host = registry(|request, _| match sent(request, "authorization") {
        "Basic dTpw" => said(200, &[], ""),
        _ => said(401, &[("www-authenticate", "Basic realm=\"x\"")], ""),
    })
    .await;
    let client = client(&format!(r#"{{"auths":{{"{host}":{{"username":"u","password":"p"}}}}}}"#));
    assert!(remote(&client, &host).await.has_blob(&Digest::of(b"x")).await.unwrap());
}

#[tokio::test]
async fn a_login_is_not_sent_to_another_host() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let other = registry(move |request, _| {
        kept.lock().push(sent(request, "authorization").to_owned());
        said(200, &[], "content")
    })
    .await;
    let host = registry(move |request, _| match sent(request, "authorization") {
        "" => said(401, &[("www-authenticate", "Basic realm=\"x\"")], ""),
        _ => said(307, &[("location", &format!("http://{other}/elsewhere"))], ""),
    })
    .await;
    let client = client(&format!(r#"{{"auths":{{"{host}":{{"auth":"dTpw"}}}}}}"#));
    let mut blob = remote(&client, &host).await.blob(&Digest::of(b"content"), 0).await.unwrap();
    let first = futures::StreamExt::next(&mut blob).await.unwrap().unwrap();
    assert_eq!(&first[..], b"content");
    assert_eq!(*seen.lock(), [""]);
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_busy_registry_are_retried() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let host = registry(move |request, _| match request.uri().path() {
        "/v2/" => said(200, &[], ""),
        _ => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => said(429, &[("retry-after", "2")], ""),
            1 => said(503, &[], ""),
            _ => said(200, &[], ""),
        },
    })
    .await;
    let client = client("{}");
    let remote = remote(&client, &host).await;
    let started = tokio::time::Instant::now();
    assert!(remote.has_blob(&Digest::of(b"x")).await.unwrap());
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn redirect_loops_are_refused() {
    let host = registry(|request, _| match request.uri().path() {
        "/v2/" => said(200, &[], ""),
        path => said(302, &[("location", path)], ""),
    })
    .await;
    let client = client("{}");
    let lost = remote(&client, &host).await.has_blob(&Digest::of(b"x")).await;
    assert!(matches!(lost, Err(ClientError::Protocol { .. })), "{lost:?}");
}

#[tokio::test]
async fn a_manifest_with_another_digest_is_refused() {
    let manifest = json!({"schemaVersion": 2}).to_string();
    let host = registry(move |_, _| said(200, &[("content-type", OCI_MANIFEST)], &manifest)).await;
    let client = client("{}");
    let wanted = crate::name::Selector::Digest(Digest::of(b"another"));
    let refused = remote(&client, &host).await.manifest(&wanted).await;
    assert!(matches!(refused, Err(ClientError::Protocol { .. })), "{refused:?}");
}

#[test]
fn addresses_are_resolved_as_browsers_do() {
    let base: Uri = "https://r.io/v2/a/blobs/uploads/1".parse().unwrap();
    for (target, expected) in [
        ("https://x.io/y", "https://x.io/y"),
        ("/v2/z?a=b", "https://r.io/v2/z?a=b"),
        ("//x.io/y", "https://x.io/y"),
        ("2?s=t", "https://r.io/v2/a/blobs/uploads/2?s=t"),
    ] {
        assert_eq!(resolve(&base, target), expected);
    }
}

#[test]
fn only_this_machine_is_trusted_without_tls() {
    for (host, expected) in [
        ("localhost:5000", true),
        ("127.0.0.1:32000", true),
        ("127.8.8.8", true),
        ("[::1]:5000", true),
        ("localhost.evil.example", false),
        ("10.0.0.1:5000", false),
        ("quay.io", false),
    ] {
        assert_eq!(is_loopback(host), expected, "{host}");
    }
}
