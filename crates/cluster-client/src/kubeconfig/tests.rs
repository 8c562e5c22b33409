//! Cases for locating, merging and parsing kubeconfigs.

use super::*;

fn parse(text: &str) -> Result<RemoteConfig, KubeconfigError> {
    Kubeconfig::parse(text, Path::new("/etc/kube"))?.remote(None)
}

/// A kubeconfig with one context whose user and cluster have the given lines.
fn with(cluster: &str, user: &str) -> String {
    format!(
        "current-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u, namespace: n}}\n\
         clusters:\n- name: k\n  cluster: {{server: 'https://h:1', {cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n"
    )
}

#[test]
fn data_takes_precedence_over_files_and_files_are_relative_to_the_kubeconfig() {
    let config = parse(&with(
        "certificate-authority: ca.crt",
        "client-certificate: a.crt, client-certificate-data: Zm9v, client-key: /keys/a.key, tokenFile: t",
    ))
    .expect("valid");
    assert_eq!(config.ca, Some(Pem::File("/etc/kube/ca.crt".into())));
    let certificate = config.credentials.client_certificate.expect("one");
    assert_eq!(certificate.certificate, Pem::Text(b"foo".to_vec()));
    assert_eq!(certificate.key, Pem::File("/keys/a.key".into()));
    assert_eq!(config.credentials.token_file, Some("/etc/kube/t".into()));
}

#[test]
fn the_first_file_that_has_a_name_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let first = file("1", "current-context: c\nusers:\n- name: u\n  user: {token: first}\n".into());
    let second = file("2", with("", "token: second").replace("current-context: c", "current-context: other"));
    let absent = dir.path().join("absent");
    let config = Kubeconfig::load(&[absent.clone(), first, second]).expect("two files");
    assert_eq!(config.current_context(), "c");
    assert_eq!(config.namespace(None), Some("n"));
    let remote = config.remote(None).expect("valid");
    assert_eq!((remote.server.as_str(), remote.credentials.token.as_deref()), ("https://h:1", Some("first")));
    assert!(matches!(Kubeconfig::load(&[absent]), Err(KubeconfigError::NoFile(_))));
}

#[test]
fn impersonation_and_exec_are_read() {
    let config = parse(&with(
        "tls-server-name: api, insecure-skip-tls-verify: true, proxy-url: 'socks5://p:9'",
        "as: jane, as-uid: '7', as-groups: [dev], as-user-extra: {scopes: [a, b]}, exec: {apiVersion: \
         client.authentication.k8s.io/v1, command: ./bin/login, args: [x], env: [{name: A, value: b}], \
         provideClusterInfo: true, interactiveMode: IfAvailable}",
    ))
    .expect("valid");
    let jane = config.impersonate.expect("impersonated");
    assert_eq!((jane.name.as_str(), jane.uid.as_str(), &jane.groups[..]), ("jane", "7", &["dev".to_owned()][..]));
    assert_eq!(jane.extra["scopes"], ["a", "b"]);
    let exec = config.credentials.exec.expect("a plugin");
    assert_eq!(exec.command, Path::new("/etc/kube/./bin/login"));
    assert_eq!(exec.env, [("A".to_owned(), "b".to_owned())]);
    let info = exec.cluster_info.expect("asked for");
    assert_eq!((info["server"].as_str(), info["tls-server-name"].as_str()), (Some("https://h:1"), Some("api")));
    assert_eq!(config.proxy.as_deref(), Some("socks5://p:9"));
    assert!(config.insecure_skip_tls_verify);
}

#[test]
fn invalid_kubeconfigs_are_rejected_with_the_reason() {
    let check = |text: &str, expected: &str| {
        let error = parse(text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say {expected}");
    };
    check(&with("", "auth-provider: {name: gcp}"), "auth provider \"gcp\" is no longer supported");
    check(&with("", "token: a, username: b"), "but not both");
    check(&with("", "client-certificate: a"), "come together");
    check(&with("", "as-groups: [x]"), "without impersonating a user");
    check(&with("certificate-authority-data: '%'", ""), "certificate-authority-data is not valid base64");
    check("current-context: x\n", "no context \"x\"");
    check("{}", "no context is chosen");
    check("a: [b", "is not a kubeconfig");
    check("current-context: c\ncontexts:\n- name: c\n  context: {cluster: k}\n", "no cluster \"k\"");
}
