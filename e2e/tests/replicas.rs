//! Several servers on one etcd are one server: any of them answers for what any other was told.

use std::time::Duration;

use e2e::etcd::EtcdCluster;
use e2e::eventually::eventually;
use e2e::flotilla::Flotilla;

/// How long anything may take here.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn two_servers_on_one_etcd_see_each_others_writes() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let flags = etcd.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (first, second) = (Flotilla::start_with(&flags), Flotilla::start_with(&flags));
    let made = first.kubectl(&["create", "configmap", "shared", "--from-literal=a=1"]);
    assert!(made.status.success(), "{}{}", String::from_utf8_lossy(&made.stderr), first.log());
    eventually("the second server lists what the first wrote", LIMIT, || {
        let listed = second.kubectl(&["get", "configmap", "-o", "name"]);
        String::from_utf8_lossy(&listed.stdout).contains("configmap/shared")
    });
    assert!(second.kubectl(&["delete", "configmap", "shared"]).status.success());
    assert!(!first.kubectl(&["get", "configmap", "shared"]).status.success(), "a read is never older than a write");
    first.kill();
    assert!(second.kubectl(&["create", "namespace", "after"]).status.success());
    eventually("the controllers move to the server that is left", LIMIT, || {
        second.kubectl(&["get", "serviceaccount", "default", "-n", "after"]).status.success()
    });
}
