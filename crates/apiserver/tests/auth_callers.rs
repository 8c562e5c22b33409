//! Authentication: the identity of callers, and the callers that are rejected.

mod auth_world;

use apiserver::http::{PlainPaths, serve_plain};
use auth_world::{BOB_TOKEN, Caller, ISSUER, World, issue};
use jiff::{Timestamp, ToSpan};
use pki::authority::CertificateAuthority;
use serde_json::{Value, json};

#[track_caller]
fn check(reply: &auth_world::Reply, expected: Result<Value, u16>) {
    let got = match reply.code {
        201 => {
            let mut user = reply.body["status"]["userInfo"].clone();
            if let Some(map) = user.as_object_mut() {
                map.remove("extra");
            }
            Ok(user)
        }
        code => Err(code),
    };
    assert_eq!(got, expected, "{}", reply.body);
}

fn user(name: &str, groups: &[&str]) -> Result<Value, u16> {
    Ok(json!({"username": name, "groups": groups}))
}

#[tokio::test]
async fn certificates_name_users_and_groups() {
    let world = World::new().await;
    let now = Timestamp::now();
    let stranger = CertificateAuthority::self_signed("test-ca", now).expect("an authority");
    let year = now.checked_sub((24 * 400).hours()).expect("a time");
    let cases = [
        (world.user("ann", &["dev", "ops"]), user("ann", &["dev", "ops", "system:authenticated"])),
        (world.admin(), user("admin", &["system:masters", "system:authenticated"])),
        (world.user("", &["system:masters"]), Err(401)),
        (Caller::showing(&issue(&stranger, "ann", &["system:masters"], now)), Err(401)),
        (Caller::showing(&issue(&world.ca, "ann", &[], year)), Err(401)),
        (Caller::showing(&issue(&world.front_proxy_ca, "proxy", &[], now)), Err(401)),
        (Caller::showing(world.ca.certificate()), Err(401)),
        (Caller::anonymous(), Err(401)),
        // A certificate that is refused does not spoil a token that is good, nor the other way round.
        (
            Caller::showing(&issue(&stranger, "ann", &[], now)).with("authorization", &format!("Bearer {BOB_TOKEN}")),
            Ok(json!({"username": "bob", "uid": "uid-of-bob", "groups": ["team-a", "system:authenticated"]})),
        ),
        (world.user("ann", &[]).with("authorization", "Bearer wrong"), user("ann", &["system:authenticated"])),
    ];
    for (caller, expected) in cases {
        // Twice: the second answer comes from memory.
        check(&world.whoami(&caller).await, expected.clone());
        check(&world.whoami(&caller).await, expected);
    }
}

#[tokio::test]
async fn a_certificate_shows_its_fingerprint_as_credential() {
    let world = World::new().await;
    let certificate = issue(&world.ca, "ann", &[], Timestamp::now());
    let reply = world.whoami(&Caller::showing(&certificate)).await;
    let expected = format!("X509SHA256={}", certificate.fingerprint_sha256());
    assert_eq!(
        reply.body["status"]["userInfo"]["extra"],
        json!({"authentication.kubernetes.io/credential-id": [expected]})
    );
}

#[tokio::test]
async fn static_tokens_are_compared_whole() {
    let world = World::new().await;
    let bob = Ok(json!({"username": "bob", "uid": "uid-of-bob", "groups": ["team-a", "system:authenticated"]}));
    let cases = [
        (format!("Bearer {BOB_TOKEN}"), bob.clone()),
        (format!("bearer {BOB_TOKEN}"), bob),
        ("Bearer token-of-bo".to_owned(), Err(401)),
        ("Bearer token-of-bobb".to_owned(), Err(401)),
        ("Bearer ".to_owned(), Err(401)),
        (format!("Basic {BOB_TOKEN}"), Err(401)),
    ];
    for (header, expected) in cases {
        check(&world.whoami(&Caller::anonymous().with("authorization", &header)).await, expected);
    }
}

#[tokio::test]
async fn only_a_trusted_proxy_may_set_users() {
    let world = World::new().await;
    let now = Timestamp::now();
    let proxy = Caller::showing(&issue(&world.front_proxy_ca, "proxy", &[], now));
    let other = Caller::showing(&issue(&world.front_proxy_ca, "other", &[], now));
    let named = |caller: Caller| caller.with("x-remote-user", "carl").with("x-remote-group", "g1");
    let cases = [
        (named(proxy.clone()).with("x-remote-group", "g2"), user("carl", &["g1", "g2", "system:authenticated"])),
        (proxy, Err(401)),
        (named(other), Err(401)),
        (named(world.user("ann", &[])), user("ann", &["system:authenticated"])),
        (named(Caller::anonymous()), Err(401)),
    ];
    for (caller, expected) in cases {
        check(&world.whoami(&caller).await, expected);
    }
}

#[tokio::test]
async fn callers_without_credentials_see_health_version_and_cluster_info_only() {
    let world = World::new().await;
    world.make("/api/v1/namespaces/kube-public/configmaps", json!({"metadata": {"name": "cluster-info"}})).await;
    world.make("/api/v1/namespaces/kube-public/configmaps", json!({"metadata": {"name": "other"}})).await;
    let cases = [
        ("/livez", 200),
        ("/version", 200),
        ("/healthz", 200),
        ("/livez/ping", 403),
        ("/api", 401),
        ("/apis", 401),
        ("/metrics", 401),
        ("/openapi/v2", 401),
        ("/healthzz", 401),
        ("/api/v1/namespaces/kube-public/configmaps/cluster-info", 200),
        ("/api/v1/namespaces/kube-public/configmaps/other", 401),
        ("/api/v1/namespaces/kube-public/configmaps", 401),
        ("/api/v1/namespaces/default/configmaps/cluster-info", 401),
        ("/api/v1/namespaces/default/pods", 401),
    ];
    for (path, code) in cases {
        let reply = world.get(&Caller::anonymous(), path).await;
        assert_eq!(reply.code, code, "{path}: {}", reply.body);
    }
    let wrong = Caller::token("wrong");
    for path in ["/livez", "/version", "/api/v1/namespaces/kube-public/configmaps/cluster-info"] {
        let reply = world.get(&wrong, path).await;
        assert_eq!((reply.code, reply.message()), (401, "Unauthorized"), "{path}");
    }
}

#[tokio::test]
async fn bootstrap_tokens_authenticate_new_machines() {
    let world = World::new().await;
    let secret = |id: &str, change: Value| {
        let mut data =
            json!({"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"});
        for (key, value) in change.as_object().expect("a map") {
            data[key] = value.clone();
        }
        json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token", "stringData": data})
    };
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    world.make(secrets, secret("abcdef", json!({"auth-extra-groups": "system:bootstrappers:x"}))).await;
    world.make(secrets, secret("oldold", json!({"expiration": "2001-01-01T00:00:00Z"}))).await;
    let groups = ["system:bootstrappers", "system:bootstrappers:x", "system:authenticated"];
    let cases = [
        ("abcdef.0123456789abcdef", user("system:bootstrap:abcdef", &groups)),
        ("abcdef.0123456789abcdeX", Err(401)),
        ("abcdef.0123456789abcdee", Err(401)),
        ("oldold.0123456789abcdef", Err(401)),
        ("nosuch.0123456789abcdef", Err(401)),
    ];
    for (token, expected) in cases {
        check(&world.whoami(&Caller::token(token)).await, expected);
    }
}

#[tokio::test]
async fn the_keys_for_tokens_are_published() {
    let world = World::new().await;
    let discovery = world.get(&world.admin(), "/.well-known/openid-configuration").await;
    assert_eq!(
        discovery.body,
        json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"]})
    );
    let keys = world.get(&world.admin(), "/openid/v1/jwks").await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    assert_eq!(keys.headers["cache-control"], "public, max-age=3600");
    assert_eq!(keys.body["keys"][0]["kid"], world.signer.key_id());
    // Service accounts may read them; plain users may not.
    world.service_account("default", "reader").await;
    let token = world.token("default", "reader", json!({})).await;
    assert_eq!(world.get(&Caller::token(&token), "/openid/v1/jwks").await.code, 200);
    assert_eq!(world.get(&world.user("ann", &[]), "/openid/v1/jwks").await.code, 403);
}

async fn plain_get(address: std::net::SocketAddr, method: &str, path: &str) -> (String, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.expect("an answer");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a code").to_owned(), body.to_owned())
}

#[tokio::test]
async fn plain_listeners_serve_their_paths_and_nothing_else() {
    let world = World::new().await;
    let listen = async |metrics: bool, health: bool| {
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("bound");
        tokio::spawn(serve_plain(world.server.clone(), tcp, PlainPaths { metrics, health }));
        address
    };
    let (metrics, health) = (listen(true, false).await, listen(false, true).await);
    for (address, method, path, code) in [
        (metrics, "GET", "/metrics", "200"),
        (metrics, "HEAD", "/metrics", "200"),
        (metrics, "POST", "/metrics", "405"),
        (metrics, "GET", "/healthz", "404"),
        (metrics, "GET", "/api/v1/secrets", "404"),
        (metrics, "GET", "/metrics/cadvisor", "404"),
        (health, "GET", "/healthz", "200"),
        (health, "GET", "/livez", "200"),
        (health, "GET", "/readyz?verbose", "200"),
        (health, "GET", "/readyz/etcd", "404"),
        (health, "GET", "/metrics", "404"),
        (health, "GET", "/version", "404"),
    ] {
        assert_eq!(plain_get(address, method, path).await.0, code, "{method} {path}");
    }
    assert!(plain_get(metrics, "GET", "/metrics").await.1.contains("apiserver_request_total"));
    assert!(plain_get(health, "GET", "/readyz?verbose").await.1.contains("[+]etcd ok"));
}
