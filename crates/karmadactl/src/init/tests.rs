//! Flags and files of `init`, and the installation they describe.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: InitArgs,
}

fn parse(line: &str) -> InitArgs {
    let line = std::iter::once("init").chain(line.split_whitespace());
    Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).args
}

#[track_caller]
fn refused(line: &str, expected: &str) {
    let args = parse(line);
    let error = args.refused.check().and_then(|()| args.installation().map(drop)).expect_err("refused");
    assert!(format!("{error:#}").contains(expected), "{line}: {error:#}");
}

#[test]
fn flags_describe_the_installation() {
    let made = parse("").installation().expect("an installation");
    assert_eq!((made.namespace.as_str(), made.node_port, made.image.as_str()), ("karmada-system", Some(32443), IMAGE));
    assert!(matches!(made.storage, PlaneStorage::HostPath(path) if path == "/var/lib/karmada-etcd"));
    let line = "--private-image-registry localhost:32000/ --etcd-storage-mode PVC --storage-classes-name fast \
        --etcd-node-selector-labels a=b --karmada-apiserver-extra-args --controllers=a,b,--event-ttl=60 \
        --cert-external-ip 10.0.0.9 --cert-external-dns x.example.net -p 30000";
    let made = parse(line).installation().expect("an installation");
    assert_eq!(made.image, format!("localhost:32000/{IMAGE}"));
    assert_eq!(made.arguments, ["--controllers=a,b", "--event-ttl=60"]);
    assert_eq!(made.tls_names, ["10.0.0.9", "x.example.net"]);
    assert_eq!(made.node_selector.get("a").map(String::as_str), Some("b"));
    assert!(matches!(made.storage, PlaneStorage::Claim { class: Some(class), .. } if class == "fast"));
    let own = parse("--private-image-registry r --karmada-apiserver-image x/y:1").installation().expect("one");
    assert_eq!(own.image, "x/y:1", "the registry is for the default image");
}

#[test]
fn unsupported_flags_are_refused_with_the_reason() {
    refused("--etcd-image etcd:3.6", "--etcd-image: the control plane stores its data itself");
    refused("--karmada-scheduler-image=x", "--karmada-scheduler-image: it is part of the control plane's process");
    refused("--kube-image-tag v1.35.2", "no image of Kubernetes is used");
    refused("--crds crds.tar.gz", "without CustomResourceDefinitions");
    refused("--karmada-webhook-extra-args --x=1", "--karmada-webhook-extra-args");
    refused("--karmada-apiserver-replicas 3", "--external-etcd-servers");
    refused("--karmada-apiserver-extra-args event-ttl=60", "must be a flag");
    refused("--etcd-node-selector-labels a", "must be KEY=VALUE");
    for bad in ["--etcd-storage-mode tape", "--ca-cert-file x", "--image-pull-policy Sometimes"] {
        assert!(Line::try_parse_from(std::iter::once("init").chain(bad.split_whitespace())).is_err(), "{bad}");
    }
}

#[test]
fn a_file_takes_precedence_over_flags() {
    let file = "
apiVersion: config.karmada.io/v1alpha1
kind: KarmadaInitConfig
spec:
  certificates: {externalDNS: [a.example.net], externalIP: []}
  etcd: {local: {storageMode: PVC, pvcSize: 7Gi, storageClassesName: fast, nodeSelectorLabels: {disk: ssd}}}
  images: {imagePullPolicy: Always, privateRegistry: {registry: r.example.net}}
  components:
    karmadaAPIServer:
      repository: r.example.net:5000/flotilla
      tag: v9
      replicas: 1
      advertiseAddress: 10.0.0.7
      networking: {namespace: fleet, port: 31000}
      extraArgs: [{name: event-ttl, value: '60'}]
  waitComponentReadyTimeout: 30
  karmadaDataPath: /tmp/k
";
    let mut args = parse("--namespace x --etcd-storage-mode emptyDir --cert-external-ip 10.0.0.1");
    config::testing::apply(&mut args, file).expect("a valid file");
    let made = args.installation().expect("an installation");
    assert_eq!((made.namespace.as_str(), made.node_port), ("fleet", Some(31000)));
    assert_eq!(made.image, "r.example.net:5000/flotilla:v9");
    assert_eq!(made.image_pull_policy, "Always");
    assert_eq!(made.tls_names, ["10.0.0.1", "a.example.net", "10.0.0.7"]);
    assert_eq!(made.arguments, ["--event-ttl=60"]);
    assert_eq!(made.node_selector.get("disk").map(String::as_str), Some("ssd"));
    assert!(matches!(made.storage, PlaneStorage::Claim { size, .. } if size == "7Gi"));
    assert_eq!((args.wait_component_ready_timeout, args.karmada_data), (30, PathBuf::from("/tmp/k")));
}

#[test]
fn unsupported_fields_are_refused_with_the_reason() {
    for (field, expected) in [
        ("etcd: {local: {repository: etcd}}", "spec.etcd.local.repository cannot be used: the control plane stores"),
        ("components: {karmadaScheduler: {replicas: 2}}", "spec.components.karmadaScheduler.replicas cannot be used"),
        ("components: {karmadaAPIServer: {tolerations: [{key: a}]}}", "the Helm chart"),
        ("etcd: {local: {storageMode: tape}}", "must be one of hostPath, PVC, emptyDir"),
        ("typo: 1", "spec.typo: unknown field"),
    ] {
        let text = format!("apiVersion: config.karmada.io/v1alpha1\nkind: KarmadaInitConfig\nspec: {{{field}}}\n");
        let error = config::testing::apply(&mut parse(""), &text).expect_err(field);
        assert!(error.to_string().contains(expected), "{field}: {error}");
    }
    assert!(config::testing::apply(&mut parse(""), "kind: Other\n").is_err());
}
