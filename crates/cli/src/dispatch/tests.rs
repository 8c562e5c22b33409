//! Command lines that other parts of the program generate, parsed by the real definitions.

use std::ffi::OsString;
use std::path::Path;

use ::testbed::hint::Hint;
use ::testbed::place::TestbedDir;
use ::testbed::plan::{Members, UpOptions, plan};
use ::testbed::ports::Ports;
use ::testbed::runtime::{HostContainers, RuntimeChoice};
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
fn every_visible_command_is_in_one_help_group() {
    let command = Cli::command();
    let grouped: Vec<&str> = HELP_GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let count = grouped.iter().filter(|name| **name == sub.get_name()).count();
        assert_eq!(count, 1, "{}", sub.get_name());
    }
    for name in &grouped {
        assert!(command.find_subcommand(name).is_some(), "{name}");
    }
    let help = group_help(command, "flotilla").render_help().to_string();
    for (title, names) in HELP_GROUPS {
        assert!(help.contains(&format!("\n{title}:\n  {}", names[0])), "{title}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn every_option_has_a_help_text() {
    fn check(command: &clap::Command, path: &str, missing: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if arg.get_help().is_none() {
                missing.push(format!("{path} {}", arg.get_id()));
            }
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            if sub.get_about().is_none() {
                missing.push(format!("{path} {}", sub.get_name()));
            }
            check(sub, &format!("{path} {}", sub.get_name()), missing);
        }
    }
    let mut missing = Vec::new();
    check(&Cli::command(), "flotilla", &mut missing);
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Calls the function with every visible command and its path.
fn each_command(command: &clap::Command, path: &str, look: &mut impl FnMut(&clap::Command, &str)) {
    look(command, path);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        each_command(sub, &format!("{path} {}", sub.get_name()), look);
    }
}

#[test]
fn clusters_and_namespaces_have_the_same_short_flags_everywhere() {
    let mut wrong = Vec::new();
    each_command(&Cli::command(), "flotilla", &mut |command, path| {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let wanted = match arg.get_long() {
                // `up --cluster` and `agent` name clusters in another sense.
                Some("cluster" | "clusters") if !path.ends_with(" up") => Some('C'),
                Some("namespace") if !path.contains(" agent") => Some('n'),
                _ => None,
            };
            if wanted.is_some() && arg.get_short() != wanted {
                wrong.push(format!("{path} --{}", arg.get_long().unwrap_or_default()));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn help_has_one_layout_and_is_wrapped() {
    let root = one_layout(program::adapt(Cli::command(), "flotilla"));
    let help = |path: &str, flag: &str| {
        let printed = root.clone().try_get_matches_from(path.split(' ').chain([flag])).expect_err("help");
        assert_eq!(printed.kind(), clap::error::ErrorKind::DisplayHelp, "{path} {flag}: {printed}");
        printed.to_string()
    };
    each_command(&root, "flotilla", &mut |command, path| {
        let (short, long) = (help(path, "-h"), help(path, "--help"));
        assert_eq!(short, long, "{path}");
        assert!(!short.contains("see more with"), "{path}: {short}");
        // A list of commands shows one paragraph for each.
        let nested = command.get_subcommands().filter(|sub| path != "flotilla" && !sub.is_hide_set());
        for sub in nested {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.contains("\n\n"), "{path} {}: {about}", sub.get_name());
        }
    });
}

#[test]
fn every_hint_is_a_valid_command_line() {
    let place = TestbedDir::find(Some("/tmp/testbeds".into()), "one").expect("a name");
    for hint in Hint::all() {
        let line = place.hint(&hint);
        // Placeholders for values with a fixed form.
        let line = line.replace("FAULT", "heal").replace(" IMAGE", " image:1");
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let command = words[1].to_string_lossy().into_owned();
        check(words, &command);
    }
}

#[test]
fn verbosity_logs_requests_and_not_the_transport() {
    assert_eq!(log_filter("info", None), "info");
    assert_eq!(log_filter("info", Some(3)), "info");
    let requests = log_filter("info", Some(6));
    assert!(requests.contains("cluster_client=debug") && !requests.contains("h2"), "{requests}");
}

#[test]
fn every_process_of_a_testbed_is_started_with_valid_flags() {
    let place = TestbedDir::find(Some("/tmp/testbeds".into()), "one").expect("a name");
    let base = UpOptions { plane_port: Some(0), registry_port: Some(0), member_port: Some(0), ..UpOptions::default() };
    let source = Source { kubeconfig: "/k".into(), context: Some("east".into()) };
    let cases = [
        base.clone(),
        UpOptions { provisioner: Some(Kind::Lxd), ..base.clone() },
        UpOptions { sources: vec![("east".into(), source)], pull: Some(vec!["all".into()]), ..base.clone() },
        UpOptions {
            members: Members::parse("a,b").ok(),
            pull: Some(vec!["all".into()]),
            nodes: Some(1),
            runtime: Some(RuntimeChoice::Containerd),
            containers: HostContainers::Available,
            kubernetes_version: Some("1.33.2".into()),
            ..base
        },
    ];
    let program = Path::new("/usr/bin/flotilla");
    for wanted in cases {
        let spec = plan(None, &wanted, &mut Ports::new([]), false, &place).expect("a plan");
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

#[test]
fn examples_are_valid_and_the_readme_uses_existing_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    let used: Vec<&str> = readme.split_whitespace().filter(|word| word.starts_with("examples/")).collect();
    assert!(!used.is_empty());
    for path in used {
        assert!(root.join(path.trim_end_matches(['`', ',', '.'])).exists(), "{path}");
    }
    for folder in std::fs::read_dir(root.join("examples")).expect("examples") {
        for file in std::fs::read_dir(folder.expect("an entry").path()).expect("a directory") {
            let path = file.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a file");
            for document in text.split("\n---\n") {
                let value: serde_json::Value =
                    serde_saphyr::from_str(document).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                let object = object::Object::from_value(value).unwrap_or_else(|| panic!("{path:?}"));
                assert!(!object.kind().is_empty() && !object.name().is_empty(), "{path:?}");
            }
        }
    }
}

/// The arguments of karmada-agent 1.18.2: its manifest, its chart and the Deployment that `karmadactl register` creates.
#[test]
fn manifests_of_karmada_agent_start_the_agent_unchanged() {
    for line in [
        "/bin/karmada-agent --karmada-kubeconfig=/etc/karmada/config/karmada.config --karmada-context=c --cluster-name=m \
         --cluster-api-endpoint=https://m:6443 --cluster-status-update-frequency=10s --metrics-bind-address=10.0.0.1:8080 \
         --health-probe-bind-address=10.0.0.1:10357 --logging-format=json --v=4 \
         --feature-gates=CustomizedClusterResourceModeling=true,MultiClusterService=true",
        "/bin/karmada-agent --karmada-kubeconfig=/etc/kubeconfig/kubeconfig --cluster-name=m --v=4 \
         --cluster-status-update-frequency=10s --leader-elect-resource-namespace=karmada-system \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10357",
        "/bin/karmada-agent --karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig --cluster-name=m \
         --cluster-api-endpoint=https://m:6443 --cluster-provider= --cluster-region= --cluster-zones= \
         --controllers=*,certRotation --proxy-server-address= --leader-elect-resource-namespace=karmada-system \
         --cluster-namespace=karmada-cluster --cluster-status-update-frequency=10s --metrics-bind-address=:8080 \
         --health-probe-bind-address=0.0.0.0:10357 --v=2",
    ] {
        let line = command_line(line.split_whitespace().map(OsString::from));
        check(line.clone(), "agent");
        let cli = Cli::try_parse_from(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        assert!(matches!(cli.command, Command::Agent(_)));
    }
}
