//! The registry and `flotilla image` with real clients: skopeo, crane, curl and containerd.

#[path = "registry/bench.rs"]
mod bench;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use bench::{Containerd, Registry, crane, digest, flotilla, have, image_archive, skopeo, succeed};
use e2e::eventually::eventually;
use e2e::flood_figures::resident_mib;
use serde_json::{Value, json};

const NO_TLS: [&str; 2] = ["--src-tls-verify=false", "--dest-tls-verify=false"];

#[test]
fn skopeo_pushes_inspects_copies_pulls_and_deletes() {
    if !have("skopeo") {
        return;
    }
    let registry = Registry::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let archive = image_archive(folder.path(), "demo/app:1", "linux/amd64");
    let at = |name: &str| format!("docker://{}/{name}", registry.host());
    let copy = |from: &str, to: &str| skopeo(&["copy", NO_TLS[0], NO_TLS[1], from, to]);
    copy(&format!("oci-archive:{archive}"), &at("demo/app:1"));
    let seen: Value =
        serde_json::from_str(&skopeo(&["inspect", "--tls-verify=false", &at("demo/app:1")])).expect("JSON");
    assert_eq!(seen["Architecture"], "amd64");
    assert_eq!(seen["Labels"]["made-by"], "flotilla");
    copy(&at("demo/app:1"), &at("other/place:2"));
    let tags: Value =
        serde_json::from_str(&skopeo(&["list-tags", "--tls-verify=false", &at("other/place")])).expect("JSON");
    assert_eq!(tags["Tags"], json!(["2"]));
    let back = folder.path().join("back").display().to_string();
    copy(&at("other/place:2"), &format!("dir:{back}"));
    let manifest = std::fs::read(format!("{back}/manifest.json")).expect("a manifest");
    assert_eq!(digest(&manifest), seen["Digest"].as_str().expect("a digest"));
    let saved = folder.path().join("saved.tar").display().to_string();
    copy(&at("demo/app:1"), &format!("docker-archive:{saved}:saved/by-skopeo:3"));
    let said = succeed(flotilla(&["image", "preload", &saved, "--to", &registry.host()]));
    assert!(said.contains(&format!("{}/saved/by-skopeo:3@sha256:", registry.host())), "{said}");
    skopeo(&["inspect", "--tls-verify=false", &at("saved/by-skopeo:3")]);
    skopeo(&["delete", "--tls-verify=false", &at("other/place:2")]);
    let (status, _) = registry.curl(&["-I"], "/v2/other/place/manifests/2");
    assert_eq!(status, 404);
    let before = registry.blob_count();
    let collected = registry.gc(&["--grace", "0s"]);
    assert!(collected.contains("removed 0 blobs"), "the other repository still has them all: {collected}");
    skopeo(&["delete", "--tls-verify=false", &at("demo/app:1")]);
    registry.gc(&["--grace", "0s"]);
    assert!(registry.blob_count() < before, "nothing was collected");
    skopeo(&["inspect", "--tls-verify=false", &at("saved/by-skopeo:3")]);
}

#[test]
fn multi_platform_images_are_copied_completely_or_by_platform() {
    if !have("skopeo") {
        return;
    }
    let registry = Registry::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut parts = Vec::new();
    for architecture in ["amd64", "arm64"] {
        let archive = image_archive(folder.path(), &format!("multi:{architecture}"), &format!("linux/{architecture}"));
        let at = format!("docker://{}/multi:{architecture}", registry.host());
        skopeo(&["copy", "--dest-tls-verify=false", &format!("oci-archive:{archive}"), &at]);
        let raw = skopeo(&["inspect", "--raw", "--tls-verify=false", &at]);
        let platform = json!({"architecture": architecture, "os": "linux"});
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        parts.push(
            json!({"mediaType": media_type, "digest": digest(raw.as_bytes()), "size": raw.len(), "platform": platform}),
        );
    }
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": parts});
    let header = "content-type: application/vnd.oci.image.index.v1+json";
    let put = ["-X", "PUT", "-H", header, "-d", &index.to_string()];
    assert_eq!(registry.curl(&put, "/v2/multi/manifests/all").0, 201);
    let at = |name: &str| format!("docker://{}/{name}", registry.host());
    skopeo(&["copy", "--all", NO_TLS[0], NO_TLS[1], &at("multi:all"), &at("copied/by-skopeo:all")]);
    let raw = skopeo(&["inspect", "--raw", "--tls-verify=false", &at("copied/by-skopeo:all")]);
    assert_eq!(digest(raw.as_bytes()), digest(index.to_string().as_bytes()));
    let ours = |name: &str| format!("{}/{name}", registry.host());
    let whole = succeed(flotilla(&["image", "copy", "--all-platforms", &ours("multi:all"), &ours("copied/by-us:all")]));
    assert_eq!(whole.trim(), digest(index.to_string().as_bytes()));
    let arm = ["image", "copy", "--platform", "linux/arm64", &ours("multi:all"), &ours("copied/by-us:arm")];
    assert_eq!(succeed(flotilla(&arm)).trim(), parts[1]["digest"].as_str().expect("a digest"));
    let none = flotilla(&["image", "copy", "--platform", "linux/s390x", &ours("multi:all"), &ours("copied/x:1")]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(!none.status.success() && said.contains("linux/amd64, linux/arm64"), "{said}");
}

#[test]
fn crane_pushes_validates_lists_and_deletes() {
    if crane(&["version"]).is_none() {
        return;
    }
    let registry = Registry::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let archive = image_archive(folder.path(), "demo/app:1", "linux/amd64");
    let image = format!("{}/crane/app:1", registry.host());
    let run = |arguments: &[&str]| crane(arguments).expect("crane is there").expect("crane succeeds");
    run(&["push", &archive, &image]);
    run(&["validate", "--remote", &image]);
    run(&["copy", &image, &format!("{}/crane/copy:2", registry.host())]);
    run(&["tag", &image, "also"]);
    assert_eq!(run(&["ls", &format!("{}/crane/app", registry.host())]), "1\nalso\n");
    assert_eq!(run(&["catalog", &registry.host()]), "crane/app\ncrane/copy\n");
    let sum = run(&["digest", &image]);
    let pulled = folder.path().join("pulled.tar").display().to_string();
    run(&["pull", "--format=oci", &image, &pulled]);
    let config: Value = serde_json::from_str(&run(&["config", &image])).expect("JSON");
    assert_eq!(config["config"]["Cmd"], json!(["/bin/busybox", "httpd", "-f", "-h", "/www"]));
    run(&["delete", &format!("{}/crane/app@{}", registry.host(), sum.trim())]);
    assert!(crane(&["digest", &image]).expect("crane is there").is_err(), "it was deleted");
    run(&["validate", "--remote", &format!("{}/crane/copy:2", registry.host())]);
}

#[test]
fn an_upload_resumes_after_the_registry_was_killed() {
    let mut registry = Registry::start();
    let content: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sum = digest(&content);
    let (status, headers) = registry.curl(&["-X", "POST"], "/v2/big/blobs/uploads/");
    assert_eq!(status, 202);
    let place = bench::header(&headers, "location");
    let mut stream = TcpStream::connect(registry.host()).expect("a connection");
    let head = format!("PATCH {place} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", content.len());
    stream.write_all(head.as_bytes()).expect("the request begins");
    stream.write_all(&content[..4_000_000]).expect("a part of the body");
    let data = registry.data_dir().join("uploads").join(place.rsplit('/').next().expect("an id")).join("data");
    let arrived = || std::fs::metadata(&data).map_or(0, |found| found.len());
    eventually("some of it is on disk", Duration::from_secs(20), || arrived() > 1_000_000);
    registry.kill_and_restart();
    drop(stream);
    assert_eq!(registry.curl(&["-I"], &format!("/v2/big/blobs/{sum}")).0, 404, "half a blob is no blob");
    let (status, headers) = registry.curl(&[], &place);
    assert_eq!(status, 204);
    let range = bench::header(&headers, "range");
    let offset: usize =
        range.rsplit('-').next().and_then(|last| last.parse().ok()).map(|last: usize| last + 1).expect(&range);
    assert!(offset > 1_000_000 && offset <= 4_000_000, "{offset}");
    let rest = registry.data_dir().join("rest");
    std::fs::write(&rest, &content[offset..]).expect("a file");
    let range = format!("content-range: {offset}-{}", content.len() - 1);
    let from = format!("@{}", rest.display());
    let sent = ["-X", "PATCH", "-H", "content-type: application/octet-stream", "-H", &range, "--data-binary", &from];
    assert_eq!(registry.curl(&sent, &place).0, 202);
    assert_eq!(registry.curl(&["-X", "PUT"], &format!("{place}?digest={sum}")).0, 201);
    let fetched = registry.fetch(&format!("/v2/big/blobs/{sum}"));
    assert!(fetched == content, "both parts are joined");
}

#[test]
fn our_client_resumes_after_the_registry_was_killed() {
    let mut registry = Registry::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let context = folder.path().join("context");
    std::fs::create_dir(&context).expect("a directory");
    let mut noise = vec![0_u8; 20_000_000];
    let mut state = 1_u64;
    for word in noise.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    std::fs::write(context.join("noise"), noise).expect("a file");
    std::fs::write(context.join("Dockerfile"), "FROM scratch\nCOPY noise /\n").expect("a file");
    let archive = folder.path().join("big.tar").display().to_string();
    let context = context.display().to_string();
    succeed(flotilla(&["image", "build", &context, "-t", "big:1", "-o", &archive]));
    let child = Command::new(e2e::flotilla::binary())
        .args(["image", "preload", &archive, "--to", &bench::slow_way_to(&registry.host())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the client starts");
    let begun = || registry.uploaded_bytes() > 6_000_000;
    eventually("a part of the blob has arrived", Duration::from_secs(60), begun);
    registry.kill_and_restart();
    let said = succeed(child.wait_with_output().expect("the client ends"));
    assert!(said.contains("/big:1@sha256:"), "{said}");
}

/// Uploads that are begun and never finished, and bodies that never come: their number is limited, they take no memory, and everybody can
/// still pull.
#[test]
fn floods_of_uploads_are_bounded() {
    let registry = Registry::start();
    let content = vec![b'x'; 100_000];
    let sum = digest(&content);
    let file = registry.data_dir().join("blob");
    std::fs::write(&file, &content).expect("a file");
    let push = ["-X", "POST", "--data-binary", &format!("@{}", file.display())];
    assert_eq!(registry.curl(&push, &format!("/v2/app/blobs/uploads/?digest={sum}")).0, 201);
    let ask = |request: String| {
        let mut stream = TcpStream::connect(registry.host()).expect("a connection");
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    let before = resident_mib(registry.pid());
    let begin =
        "POST /v2/flood/blobs/uploads/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (mut places, mut refused) = (Vec::new(), 0);
    for _ in 0..300 {
        let mut answer = String::new();
        ask(begin.to_owned()).read_to_string(&mut answer).expect("an answer");
        match answer.split(' ').nth(1) {
            Some("202") => places.push(bench::header(&answer, "location")),
            Some("429") => refused += 1,
            _ => panic!("{answer}"),
        }
    }
    assert!(refused >= 200 && !places.is_empty(), "{refused} uploads were refused, {} begun", places.len());
    let slow = |place: &String| {
        let length = 1_000_000_000;
        ask(format!("PATCH {place} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\nx"))
    };
    let held: Vec<TcpStream> = places.iter().map(slow).collect();
    assert!(registry.fetch(&format!("/v2/app/blobs/{sum}")) == content, "a pull during the flood");
    assert_eq!(registry.curl(&["-I"], "/v2/").0, 200);
    let grown = resident_mib(registry.pid()).saturating_sub(before);
    assert!(grown < 100, "{} uploads took {grown} MiB", held.len());
    // Uploads that their client gives up make way for others.
    drop(held);
    for place in &places {
        eventually("an upload is cancelled", Duration::from_secs(60), || {
            registry.curl(&["-X", "DELETE"], place).0 == 204
        });
    }
    assert_eq!(registry.curl(&["-X", "POST"], "/v2/after/blobs/uploads/").0, 202);
}

#[test]
fn wrong_digests_and_hostile_paths_are_rejected() {
    let registry = Registry::start();
    let wrong = digest(b"another content");
    let post = ["-X", "POST", "--data-binary", "content"];
    let (status, body) = registry.curl(&post, &format!("/v2/a/blobs/uploads/?digest={wrong}"));
    assert!(status == 400 && body.contains("DIGEST_INVALID"), "{body}");
    for path in [
        "/v2/../../../etc/passwd",
        "/v2/a/../../blobs/x",
        "/v2/a/manifests/../../../../etc/passwd",
        "/v2/a/manifests/..%2f..%2f..%2fetc%2fpasswd",
        "/v2/a/blobs/sha256:..%2f..%2flock",
        "/v2/a/blobs/uploads/..%2f..%2flock",
        "/v2/_manifests/manifests/x",
        "/v2/a%00b/manifests/x",
        "/v2/A/manifests/x",
    ] {
        for method in ["GET", "PUT", "DELETE", "POST"] {
            let (status, body) = registry.curl(&["--path-as-is", "-X", method, "--data-binary", "{}"], path);
            assert!((400..500).contains(&status), "{method} {path} {status} {body}");
        }
    }
    let long = format!("/v2/{}/manifests/x", "a/".repeat(3_000).trim_end_matches('/'));
    assert!((400..500).contains(&registry.curl(&[], &long).0));
    assert_eq!((registry.blob_count(), registry.upload_count()), (0, 0));
    assert_eq!(registry.curl(&[], "/v2/").0, 200);
}

#[test]
fn a_hundred_pushes_at_once_while_garbage_is_collected() {
    let registry = Registry::start();
    let host = registry.host();
    let shared = bench::push_blob(&host, "shared", b"a layer everybody has");
    std::thread::scope(|scope| {
        let pushers: Vec<_> = (0..100)
            .map(|n| {
                let (host, shared) = (&host, &shared);
                scope.spawn(move || bench::push_image(host, &format!("team{}/app", n % 7), &format!("t{n}"), shared))
            })
            .collect();
        while !pushers.iter().all(|pusher| pusher.is_finished()) {
            registry.gc(&["--grace", "1m"]);
        }
        pushers.into_iter().for_each(|pusher| pusher.join().expect("a push succeeds"));
    });
    registry.gc(&["--grace", "0s"]);
    for n in 0..100 {
        let (repository, tag) = (format!("team{}/app", n % 7), format!("t{n}"));
        let manifest = registry.fetch(&format!("/v2/{repository}/manifests/{tag}"));
        let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest");
        for blob in [&manifest["config"], &manifest["layers"][0]] {
            let sum = blob["digest"].as_str().expect("a digest");
            assert_eq!(digest(&registry.fetch(&format!("/v2/{repository}/blobs/{sum}"))), sum);
        }
    }
}

#[test]
fn containerd_runs_what_was_pulled_from_the_registry_and_what_was_distributed() {
    let Some(containerd) = Containerd::start() else { return };
    let registry = Registry::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let archive = image_archive(folder.path(), "demo/app:1", "");
    succeed(flotilla(&["image", "preload", &archive, "--to", &registry.host()]));
    let pulled = format!("{}/demo/app:1", registry.host());
    containerd.ctr(&["images", "pull", "--plain-http", &pulled]);
    let hello = ["run", "--rm", "--net-host", &pulled, "pulled", "/bin/busybox", "cat", "/www/index.html"];
    assert_eq!(containerd.ctr(&hello), "hello from demo/app:1\n");
    let context = folder.path().join("context").display().to_string();
    let sink = format!("member1={}", containerd.socket());
    let distribute =
        ["image", "distribute", &context, "-t", "demo/app:2", "--to", &registry.host(), "--containerd", &sink];
    let said = succeed(flotilla(&distribute));
    assert!(said.contains("docker.io/demo/app:2 is in the image store of member1"), "{said}");
    let hello = ["run", "--rm", "--net-host", "docker.io/demo/app:2", "sent", "/bin/busybox", "cat", "/www/index.html"];
    assert_eq!(containerd.ctr(&hello), "hello from demo/app:1\n");
    assert_eq!(registry.curl(&["-I"], "/v2/demo/app/manifests/2").0, 200);
}

#[test]
fn a_dockerfile_that_runs_commands_names_what_to_install() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("Dockerfile"), "FROM scratch\nRUN true\n").expect("a file");
    let context = folder.path().display().to_string();
    let output = Command::new(e2e::flotilla::binary())
        .args(["image", "distribute", &context, "-t", "x:1", "--no-push", "--no-import"])
        .env("PATH", "/nonexistent")
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("Dockerfile:2: RUN") && said.contains("install buildah"),
        "{said}"
    );
}
