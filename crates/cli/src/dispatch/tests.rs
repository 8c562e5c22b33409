//! Command lines that other parts of the program generate, parsed by the real definitions.

use std::ffi::OsString;
use std::path::Path;

use ::testbed::place::Place;
use ::testbed::plan::{Members, Wanted, plan};
use ::testbed::ports::Ports;
use ::testbed::spec::{Kind, Source};
use ::testbed::supervisor::client::supervise_arguments;
use membership::ClusterLocation;
use membership::agent_manifests::{AgentFlags, AgentInstallation, KubeconfigSecret};

use super::*;

/// Parses a command line and checks which command it runs.
#[track_caller]
fn check(line: Vec<OsString>, command: &str) {
    match Cli::command().try_get_matches_from(&line) {
        Ok(matches) => assert_eq!(matches.subcommand_name(), Some(command), "{line:?}"),
        Err(error) => panic!("{line:?}: {error}"),
    }
}

fn words(command: &[String]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

#[test]
fn the_definitions_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_process_of_a_testbed_is_started_with_valid_flags() {
    let place = Place::find(Some("/tmp/testbeds".into()), "one").expect("a name");
    let base = Wanted { plane_port: Some(0), registry_port: Some(0), member_port: Some(0), ..Wanted::default() };
    let source = Source { kubeconfig: "/k".into(), context: Some("east".into()) };
    let cases = [
        base.clone(),
        Wanted { provisioner: Some(Kind::Lxd), ..base.clone() },
        Wanted { sources: vec![("east".into(), source)], pull: Some(vec!["all".into()]), ..base.clone() },
        Wanted {
            members: Members::parse("a,b").ok(),
            pull: Some(vec!["all".into()]),
            nodes: Some(5),
            runtime: Some("simulated".into()),
            kubernetes_version: Some("1.33.2".into()),
            ..base
        },
    ];
    let program = Path::new("/usr/bin/flotilla");
    for wanted in cases {
        let spec = plan(None, &wanted, &mut Ports::new([]), false).expect("a plan");
        check(words(&spec.plane_machine(&place, program).command), "server");
        check(words(&spec.registry_machine(&place, program).expect("a registry").command), "registry");
        for member in &spec.members {
            check(words(&spec.member_machine(&place, program, member).command), "member");
            check(words(&spec.agent_machine(&place, program, member, "https://127.0.0.1:1").command), "agent");
        }
    }
    let supervise = std::iter::once("flotilla".into()).chain(supervise_arguments(&place));
    check(supervise.collect(), "supervise");
}

#[test]
fn an_installed_agent_is_started_with_valid_flags() {
    let location = ClusterLocation { provider: "p".into(), region: "r".into(), zones: vec!["a".into(), "b".into()] };
    let flags = AgentFlags {
        cluster_name: "m1",
        cluster_api_endpoint: "https://m1:6443",
        location: &location,
        proxy_server_address: "http://proxy:3128",
        cluster_namespace: "karmada-cluster",
        namespace: "karmada-system",
    };
    let installation = AgentInstallation {
        namespace: "karmada-system".into(),
        kubeconfig: KubeconfigSecret::Existing("sealed".into()),
        image: "flotilla:1".into(),
        replicas: 2,
        arguments: flags.arguments(),
    };
    let objects = installation.objects();
    let deployment = objects.iter().find(|object| object.kind() == "Deployment").expect("a Deployment");
    let container = &deployment.items(&["spec", "template", "spec", "containers"])[0];
    let line = ["command", "args"].iter().flat_map(|field| container[field].as_array().into_iter().flatten());
    let line: Vec<OsString> = line.filter_map(|word| word.as_str()).map(OsString::from).collect();
    assert!(line.len() > 10, "{line:?}");
    check(line, "agent");
}
