//! The registry over the wire, as the distribution specification words it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::digest::{Algorithm, Digest};
use crate::manifest::{OCI_INDEX, OCI_MANIFEST};

struct Bench {
    address: std::net::SocketAddr,
    cancel: CancellationToken,
    directory: tempfile::TempDir,
    running: Option<RunningRegistry>,
}

struct Said {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Said {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Status and the code of the error in the body.
    fn error(&self) -> (u16, String) {
        (self.status.as_u16(), self.json()["errors"][0]["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl Bench {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut RegistryConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = RegistryConfig::new(directory.path(), "127.0.0.1:0".parse().unwrap());
        change(&mut settings);
        let cancel = CancellationToken::new();
        let running = start(settings, cancel.clone()).await.unwrap();
        Self { address: running.address, cancel, directory, running: Some(running) }
    }

    async fn stop(&mut self) {
        self.cancel.cancel();
        if let Some(running) = self.running.take() {
            running.stopped().await;
        }
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Said {
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
        let path = if path.starts_with("http") { path.to_owned() } else { format!("http://{}{path}", self.address) };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = client.request(request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()).await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        Said { status, headers, body: answer.into_body().collect().await.unwrap().to_bytes() }
    }

    async fn get(&self, path: &str) -> Said {
        self.ask(Method::GET, path, &[], b"").await
    }

    async fn push_blob(&self, repository: &str, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        let said = self.ask(Method::POST, &path, &[], bytes).await;
        assert_eq!(said.status, StatusCode::CREATED);
        digest
    }

    async fn push_manifest(&self, repository: &str, reference: &str, document: &Value) -> Said {
        let media_type = document["mediaType"].as_str().unwrap();
        let path = format!("/v2/{repository}/manifests/{reference}");
        self.ask(Method::PUT, &path, &[("content-type", media_type)], document.to_string().as_bytes()).await
    }

    async fn push_image(&self, repository: &str, tag: &str) -> Digest {
        let config = self.push_blob(repository, format!("{{\"of\":\"{repository}\"}}").as_bytes()).await;
        let said = self.push_manifest(repository, tag, &image(&config)).await;
        assert_eq!(said.status, StatusCode::CREATED);
        said.header("docker-content-digest").parse().unwrap()
    }
}

fn image(config: &Digest) -> Value {
    let config = json!({"mediaType": "application/json", "digest": config, "size": 1});
    json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": []})
}

#[tokio::test]
async fn the_base_endpoint_names_the_api_version() {
    let bench = Bench::start().await;
    let said = bench.get("/v2/").await;
    assert_eq!((said.status, said.header("docker-distribution-api-version")), (StatusCode::OK, "registry/2.0"));
    assert_eq!(bench.get("/").await.error(), (404, "UNSUPPORTED".into()));
    assert_eq!(bench.ask(Method::POST, "/v2/", &[], b"").await.error(), (405, "UNSUPPORTED".into()));
}

#[tokio::test]
async fn a_blob_is_sent_in_pieces_and_read_in_ranges() {
    let bench = Bench::start().await;
    let begun = bench.ask(Method::POST, "/v2/a/b/blobs/uploads/", &[], b"").await;
    assert_eq!((begun.status, begun.header("range")), (StatusCode::ACCEPTED, "0-0"));
    let place = begun.header("location").to_owned();
    assert!(place.ends_with(begun.header("docker-upload-uuid")));
    let piece = |range: &'static str| [("content-range", range)];
    let first = bench.ask(Method::PATCH, &place, &piece("0-4"), b"hello").await;
    assert_eq!((first.status, first.header("range")), (StatusCode::ACCEPTED, "0-4"));
    for range in ["0-4", "6-9", "4-8"] {
        let out_of_order = bench.ask(Method::PATCH, &place, &piece(range), b"xxxxx").await;
        let expected =
            if range == "6-9" { (400, "SIZE_INVALID".to_owned()) } else { (416, "BLOB_UPLOAD_INVALID".to_owned()) };
        assert_eq!(out_of_order.error(), expected, "{range}");
    }
    let status = bench.get(&place).await;
    assert_eq!((status.status, status.header("range")), (StatusCode::NO_CONTENT, "0-4"));
    let streamed = bench.ask(Method::PATCH, &place, &[], b", wor").await;
    assert_eq!(streamed.header("range"), "0-9");
    let digest = Digest::of(b"hello, world");
    let done = bench.ask(Method::PUT, &format!("{place}?digest={digest}"), &piece("10-11"), b"ld").await;
    assert_eq!(done.status, StatusCode::CREATED);
    assert_eq!(done.header("docker-content-digest"), digest.to_string());
    assert_eq!(bench.get(&place).await.error(), (404, "BLOB_UPLOAD_UNKNOWN".into()));
    let blob = done.header("location").to_owned();
    assert_eq!(&bench.get(&blob).await.body[..], b"hello, world");
    let head = bench.ask(Method::HEAD, &blob, &[], b"").await;
    assert_eq!((head.status, head.header("content-length")), (StatusCode::OK, "12"));
    let part = bench.ask(Method::GET, &blob, &[("range", "bytes=7-")], b"").await;
    assert_eq!((part.status, part.header("content-range")), (StatusCode::PARTIAL_CONTENT, "bytes 7-11/12"));
    assert_eq!(&part.body[..], b"world");
    let beyond = bench.ask(Method::GET, &blob, &[("range", "bytes=12-")], b"").await;
    assert_eq!((beyond.status.as_u16(), beyond.header("content-range")), (416, "bytes */12"));
    let etag = format!("\"{digest}\"");
    let known = bench.ask(Method::GET, &blob, &[("if-none-match", &etag)], b"").await;
    assert_eq!(known.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn uploads_can_be_cancelled_and_belong_to_their_repository() {
    let bench = Bench::start().await;
    let place = bench.ask(Method::POST, "/v2/a/blobs/uploads/", &[], b"").await.header("location").to_owned();
    let foreign = place.replace("/v2/a/", "/v2/b/");
    assert_eq!(bench.get(&foreign).await.error(), (404, "BLOB_UPLOAD_UNKNOWN".into()));
    assert_eq!(bench.ask(Method::PUT, &place, &[], b"").await.error(), (400, "DIGEST_INVALID".into()));
    assert_eq!(bench.ask(Method::DELETE, &place, &[], b"").await.status, StatusCode::NO_CONTENT);
    assert_eq!(bench.ask(Method::DELETE, &place, &[], b"").await.error(), (404, "BLOB_UPLOAD_UNKNOWN".into()));
}

#[tokio::test]
async fn content_with_another_digest_is_refused() {
    let bench = Bench::start().await;
    let wrong = Digest::of(b"something else");
    let path = format!("/v2/a/blobs/uploads/?digest={wrong}");
    assert_eq!(bench.ask(Method::POST, &path, &[], b"hello").await.error(), (400, "DIGEST_INVALID".into()));
    assert_eq!(bench.get(&format!("/v2/a/blobs/{wrong}")).await.error(), (404, "BLOB_UNKNOWN".into()));
    let config = bench.push_blob("a", b"{}").await;
    let put = bench.push_manifest("a", &wrong.to_string(), &image(&config)).await;
    assert_eq!(put.error(), (400, "DIGEST_INVALID".into()));
    let long = Digest::of_reader(Algorithm::Sha512, &b"hello"[..]).unwrap();
    let path = format!("/v2/a/blobs/uploads/?digest={long}");
    assert_eq!(bench.ask(Method::POST, &path, &[], b"hello").await.status, StatusCode::CREATED);
    assert_eq!(bench.ask(Method::POST, &path, &[], b"hallo").await.error(), (400, "DIGEST_INVALID".into()));
}

#[tokio::test]
async fn manifests_are_stored_unchanged() {
    let bench = Bench::start().await;
    let missing = bench.push_manifest("a", "v1", &image(&Digest::of(b"nowhere"))).await;
    assert_eq!(missing.error(), (400, "MANIFEST_BLOB_UNKNOWN".into()));
    let digest = bench.push_image("a", "v1").await;
    for reference in ["v1".to_owned(), digest.to_string()] {
        let said = bench.get(&format!("/v2/a/manifests/{reference}")).await;
        assert_eq!((said.status, said.header("content-type")), (StatusCode::OK, OCI_MANIFEST));
        assert_eq!(Digest::of(&said.body), digest);
        let head = bench.ask(Method::HEAD, &format!("/v2/a/manifests/{reference}"), &[], b"").await;
        assert_eq!(head.header("docker-content-digest"), digest.to_string());
        assert_eq!(head.header("content-length"), said.body.len().to_string());
    }
    let part = json!({"mediaType": OCI_MANIFEST, "digest": digest, "size": 1});
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [part]});
    assert_eq!(bench.push_manifest("a", "all", &index).await.status, StatusCode::CREATED);
    assert_eq!(bench.get("/v2/a/manifests/all").await.header("content-type"), OCI_INDEX);
    let config = bench.push_blob("a", b"{}").await;
    let tagged = Digest::of(image(&config).to_string().as_bytes());
    let said = bench.push_manifest("a", &format!("{tagged}?tag=one&tag=two"), &image(&config)).await;
    let tags: Vec<_> = said.headers.get_all("oci-tag").iter().collect();
    assert_eq!(tags, ["one", "two"]);
    assert_eq!(bench.get("/v2/a/manifests/two").await.header("docker-content-digest"), tagged.to_string());
    let wrong = bench.push_manifest("a", &format!("{tagged}?tag=.."), &image(&config)).await;
    assert_eq!(wrong.error(), (400, "TAG_INVALID".into()));
    let garbage = bench.ask(Method::PUT, "/v2/a/manifests/x", &[("content-type", OCI_MANIFEST)], b"{").await;
    assert_eq!(garbage.error(), (400, "MANIFEST_INVALID".into()));
    let huge = vec![b' '; crate::manifest::MANIFEST_LEN_MAX + 1];
    let huge = bench.ask(Method::PUT, "/v2/a/manifests/x", &[("content-type", OCI_MANIFEST)], &huge).await;
    assert_eq!(huge.error(), (413, "MANIFEST_INVALID".into()));
    assert_eq!(bench.get("/v2/a/manifests/nope").await.error(), (404, "MANIFEST_UNKNOWN".into()));
}

#[tokio::test]
async fn blobs_are_mounted_from_another_repository() {
    let bench = Bench::start().await;
    let digest = bench.push_blob("from/here", b"shared").await;
    let mounted =
        bench.ask(Method::POST, &format!("/v2/to/blobs/uploads/?mount={digest}&from=from%2Fhere"), &[], b"").await;
    assert_eq!(mounted.status, StatusCode::CREATED);
    assert_eq!(&bench.get(mounted.header("location")).await.body[..], b"shared");
    let unknown =
        bench.ask(Method::POST, &format!("/v2/to2/blobs/uploads/?mount={digest}&from=nowhere"), &[], b"").await;
    assert_eq!(unknown.status, StatusCode::ACCEPTED, "an upload begins instead");
    assert!(!unknown.header("location").is_empty());
}

#[tokio::test]
async fn lists_come_in_pages() {
    let bench = Bench::start().await;
    for tag in ["v3", "v1", "v2"] {
        bench.push_image("a", tag).await;
    }
    bench.push_image("b/c", "x").await;
    let first = bench.get("/v2/a/tags/list?n=2").await;
    assert_eq!(first.json(), json!({"name": "a", "tags": ["v1", "v2"]}));
    assert_eq!(first.header("link"), "</v2/a/tags/list?last=v2&n=2>; rel=\"next\"");
    let second = bench.get("/v2/a/tags/list?last=v2&n=2").await;
    assert_eq!((second.json()["tags"].clone(), second.header("link")), (json!(["v3"]), ""));
    assert_eq!(bench.get("/v2/a/tags/list?n=0").await.json()["tags"], json!([]));
    assert_eq!(bench.get("/v2/a/tags/list?n=x").await.error(), (400, "PAGINATION_NUMBER_INVALID".into()));
    assert_eq!(bench.get("/v2/nope/tags/list").await.error(), (404, "NAME_UNKNOWN".into()));
    let catalog = bench.get("/v2/_catalog?n=1").await;
    assert_eq!(
        (catalog.json(), catalog.header("link")),
        (json!({"repositories": ["a"]}), "</v2/_catalog?last=a&n=1>; rel=\"next\"")
    );
}

#[tokio::test]
async fn referrers_are_listed_and_filtered() {
    let bench = Bench::start().await;
    let subject = bench.push_image("a", "v1").await;
    let config = bench.push_blob("a", b"{}").await;
    for kind in ["application/x-one", "application/x-two"] {
        let mut document = image(&config);
        document["artifactType"] = json!(kind);
        document["subject"] = json!({"mediaType": OCI_MANIFEST, "digest": subject, "size": 1});
        let said = bench.push_manifest("a", &Digest::of(document.to_string().as_bytes()).to_string(), &document).await;
        assert_eq!(said.header("oci-subject"), subject.to_string());
    }
    let all = bench.get(&format!("/v2/a/referrers/{subject}")).await;
    assert_eq!((all.header("content-type"), all.json()["manifests"].as_array().unwrap().len()), (OCI_INDEX, 2));
    let one = bench.get(&format!("/v2/a/referrers/{subject}?artifactType=application%2Fx-one")).await;
    assert_eq!(one.json()["manifests"][0]["artifactType"], "application/x-one");
    assert_eq!(
        (one.json()["manifests"].as_array().unwrap().len(), one.header("oci-filters-applied")),
        (1, "artifactType")
    );
    let none = bench.get(&format!("/v2/a/referrers/{}", Digest::of(b"x"))).await;
    assert_eq!((none.status, none.json()["manifests"].clone()), (StatusCode::OK, json!([])));
}

#[tokio::test]
async fn deletes_work_unless_disabled() {
    let bench = Bench::start().await;
    let digest = bench.push_image("a", "v1").await;
    let delete = async |path: String| bench.ask(Method::DELETE, &path, &[], b"").await.status.as_u16();
    assert_eq!(delete("/v2/a/manifests/v1".into()).await, 202);
    assert_eq!(bench.get(&format!("/v2/a/manifests/{digest}")).await.status, StatusCode::OK);
    assert_eq!(delete(format!("/v2/a/manifests/{digest}")).await, 202);
    assert_eq!(delete(format!("/v2/a/manifests/{digest}")).await, 404);
    let blob = bench.push_blob("a", b"x").await;
    assert_eq!(delete(format!("/v2/a/blobs/{blob}")).await, 202);
    assert_eq!(bench.get(&format!("/v2/a/blobs/{blob}")).await.status, StatusCode::NOT_FOUND);
    let locked = Bench::start_with(|settings| settings.deletes = false).await;
    locked.push_image("a", "v1").await;
    assert_eq!(locked.ask(Method::DELETE, "/v2/a/manifests/v1", &[], b"").await.error(), (405, "UNSUPPORTED".into()));
}

#[tokio::test]
async fn limits_are_enforced() {
    let bench = Bench::start_with(|settings| {
        settings.limits.blob_len_max = 1_000;
        settings.limits.uploads_max = 1;
    })
    .await;
    let place = bench.ask(Method::POST, "/v2/a/blobs/uploads/", &[], b"").await.header("location").to_owned();
    assert_eq!(bench.ask(Method::PATCH, &place, &[], &[0; 2_000]).await.error(), (413, "SIZE_INVALID".into()));
    let second = bench.ask(Method::POST, "/v2/a/blobs/uploads/", &[], b"").await;
    assert_eq!(second.error(), (429, "TOOMANYREQUESTS".into()));
}

#[tokio::test]
async fn pages_of_browsers_may_not_write() {
    let bench = Bench::start().await;
    let origin = [("origin", "http://evil.example")];
    assert_eq!(bench.ask(Method::POST, "/v2/a/blobs/uploads/", &origin, b"").await.error(), (403, "DENIED".into()));
}

#[tokio::test]
async fn unknown_host_names_are_refused_on_loopback() {
    let bench = Bench::start().await;
    let rebound = [("host", "evil.example")];
    assert_eq!(bench.ask(Method::GET, "/v2/", &rebound, b"").await.error(), (421, "DENIED".into()));
    let bench = Bench::start_with(|settings| settings.allowed_hosts.push("registry.test".to_owned())).await;
    assert_eq!(bench.ask(Method::GET, "/v2/", &[("host", "registry.test")], b"").await.status, StatusCode::OK);
}

#[tokio::test]
async fn one_client_cannot_use_up_all_uploads() {
    let bench = Bench::start_with(|settings| settings.limits.uploads_per_client_max = 2).await;
    for _ in 0..2 {
        let begun = bench.ask(Method::POST, "/v2/a/blobs/uploads/", &[], b"").await;
        assert_eq!(begun.status, StatusCode::ACCEPTED);
    }
    let refused = bench.ask(Method::POST, "/v2/a/blobs/uploads/", &[], b"").await;
    assert_eq!(refused.error(), (429, "TOOMANYREQUESTS".into()));
    assert_eq!(refused.header("retry-after"), "60");
}

#[tokio::test]
async fn an_interrupted_upload_keeps_its_bytes() {
    let bench = Bench::start().await;
    let place = bench.ask(Method::POST, "/v2/a/blobs/uploads/", &[], b"").await.header("location").to_owned();
    let mut stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    let head = format!("PATCH {place} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3000000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![7; 1_500_000]).await.unwrap();
    drop(stream);
    // Waits for the lock, so it sees what the broken request left.
    let status = bench.get(&place).await;
    assert_eq!(status.header("range"), "0-1499999");
}

#[tokio::test]
async fn garbage_is_collected_with_and_without_a_running_registry() {
    let mut bench = Bench::start().await;
    bench.push_image("a", "v1").await;
    bench.push_blob("a", b"unused").await;
    let now = GcOptions { grace: Duration::ZERO, untagged: false, dry_run: false };
    let report = collect(bench.directory.path(), &now).await.unwrap();
    assert_eq!((report.blobs_removed, report.blobs_kept), (1, 2));
    bench.push_blob("a", b"unused").await;
    bench.stop().await;
    let report = collect(bench.directory.path(), &now).await.unwrap();
    assert_eq!((report.blobs_removed, report.blobs_kept), (1, 2));
    assert!(!bench.directory.path().join("control.sock").exists());
}

#[tokio::test]
async fn https_is_used_with_a_certificate() {
    let keys = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (keys.path().join("cert.pem"), keys.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let bench = Bench::start_with(|settings| settings.tls = Some((certificate.clone(), key))).await;
    let host = format!("localhost:{}", bench.address.port());
    let image: crate::name::Reference = format!("{host}/a:v1").parse().unwrap();
    let options = crate::client::ClientOptions { ca_file: Some(certificate), ..Default::default() };
    let remote = crate::client::Client::new(&options).unwrap().remote(&image).await.unwrap();
    assert!(!remote.has_blob(&Digest::of(b"x")).await.unwrap());
    let strangers = crate::client::Client::new(&crate::client::ClientOptions::default()).unwrap();
    assert!(strangers.remote(&image).await.is_err(), "an untrusted certificate is rejected");
}

#[tokio::test]
async fn invalid_http_is_harmless() {
    let bench = Bench::start().await;
    let mut stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    assert_eq!(bench.get("/v2/").await.status, StatusCode::OK);
}
