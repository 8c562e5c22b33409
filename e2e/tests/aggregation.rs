//! An aggregated API group is served through this server, with the caller's identity and with streams.

use std::time::Duration;

use e2e::eventually::eventually;
use e2e::flotilla::Flotilla;

/// Timeout of every wait.
const LIMIT: Duration = Duration::from_secs(45);

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]
"#;

fn registration(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: boats, namespace: default}}\n\
         spec: {{type: ExternalName, externalName: localhost, ports: [{{port: {port}}}]}}\n---\n\
         apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: v1.sea.example.com}}\n\
         spec:\n  group: sea.example.com\n  version: v1\n  groupPriorityMinimum: 1000\n  versionPriority: 10\n\
         \x20 insecureSkipTLSVerify: true\n  service: {{name: boats, namespace: default, port: {port}}}\n"
    )
}

#[test]
fn a_group_of_another_server_is_served_through_this_one() {
    let (front_dir, back_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let front = Flotilla::start_in(front_dir.path(), &[]);
    // Both servers share the front proxy CA and nothing else.
    std::fs::create_dir_all(back_dir.path().join("pki")).expect("a folder");
    for file in ["front-proxy-ca.crt", "front-proxy-ca.key"] {
        std::fs::copy(front_dir.path().join("pki").join(file), back_dir.path().join("pki").join(file)).expect("copied");
    }
    let back = Flotilla::start_in(back_dir.path(), &[]);
    let write = |name: &str, text: &str| {
        let path = front_dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    assert!(back.kubectl(&["apply", "-f", &write("crd.yaml", DEFINITION)]).status.success());
    let registered = front.kubectl(&["apply", "-f", &write("api.yaml", &registration(back.port()))]);
    assert!(registered.status.success(), "{}", String::from_utf8_lossy(&registered.stderr));
    let available =
        front.kubectl(&["wait", "--for=condition=Available", "apiservice/v1.sea.example.com", "--timeout=45s"]);
    assert!(available.status.success(), "{}{}", String::from_utf8_lossy(&available.stderr), front.log());

    let boat =
        write("boat.yaml", "apiVersion: sea.example.com/v1\nkind: Boat\nmetadata: {name: one}\nspec: {sails: 3}\n");
    let made = front.kubectl(&["create", "-f", &boat]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let shown = back.kubectl(&["get", "boats", "-o", "jsonpath={.items[*].metadata.name}"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "one", "it is the other server that keeps it");
    let listed = front.kubectl(&["get", "bt", "-o", "name"]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), "boat.sea.example.com/one");
    let refused = front.kubectl(&["get", "boats", "--as=stranger"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("stranger"), "the caller is known behind the proxy");
    let waited = front.kubectl(&["delete", "boat", "one", "--timeout=20s"]);
    assert!(
        waited.status.success(),
        "a delete watches until the object is gone: {}",
        String::from_utf8_lossy(&waited.stderr)
    );

    back.kill();
    eventually("the loss of the other server shows", LIMIT, || {
        let state = front.kubectl(&[
            "get",
            "apiservice",
            "v1.sea.example.com",
            "-o",
            "jsonpath={.status.conditions[0].status}",
        ]);
        front.kubectl(&["annotate", "apiservice", "v1.sea.example.com", "--overwrite", "look=again"]);
        state.stdout == b"False"
    });
    assert!(front.kubectl(&["get", "namespaces"]).status.success(), "everything else keeps working");
}
