//! Objects of Kubernetes' kinds are described as kubectl describes them.

use std::path::Path;

use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, run, text};
use e2e::flotilla::binary;
use e2e::light_member::LightMember;
use e2e::member::apply;

const OBJECTS: &str = include_str!("../testdata/describe/objects.yaml");
const DESCRIBED: &[&str] = &[
    "storageclass fast",
    "storageclass plain",
    "pvc data",
    "ingress web",
    "ingress empty",
    "hpa web",
    "networkpolicy np",
    "networkpolicy np2",
    "role r",
    "rolebinding rb",
    "clusterrole view",
    "clusterrole cluster-admin",
    "clusterrole system:discovery",
    "clusterrolebinding cluster-admin",
    "node m1-node-1",
];

/// The texts of both programs; `None` if only the time that passed in between may differ.
fn compare(member: &LightMember, line: &str) -> Option<String> {
    let arguments: Vec<&str> = ["describe"].into_iter().chain(line.split(' ')).collect();
    let theirs = member.kubectl(&arguments);
    let ours = run(&binary(), Path::new(&member.kubeconfig), &arguments);
    let (theirs, ours) = (text(&theirs), text(&ours));
    (theirs != ours).then(|| format!("== describe {line}\n-- ours: {ours}\n-- kubectl: {theirs}"))
}

#[test]
fn each_kind_is_described_as_by_kubectl() {
    let member = LightMember::start(&[]);
    let applied = apply(&member.kubeconfig, &["apply", "-f", "-"], OBJECTS);
    assert!(applied.status.success(), "{}", text(&applied));
    eventually("a pod runs on the node", CROSSING, || {
        member.kubectl(&["get", "pod", "running", "-o=jsonpath={.status.phase}"]).stdout == b"Running"
    });
    let differs = |line: &&str| {
        // Ages and the events of controllers may change between the two reads.
        let mut found = compare(&member, line);
        for _ in 0..4 {
            found = found.and_then(|_| compare(&member, line));
        }
        found
    };
    let differences: Vec<String> = DESCRIBED.iter().filter_map(differs).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
