//! Compares our CLI with karmadactl 1.18.2 on the same control plane with the same real members: output, exit codes
//! and created objects must be equal.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, text};
use e2e::flotilla::{Flotilla, binary, programs};
use e2e::member::Member;
use regex::Regex;
use serde_json::Value;

/// The real command, and ours under its name.
struct Both {
    plane: Flotilla,
    theirs: PathBuf,
    ours: PathBuf,
    home: tempfile::TempDir,
    /// All differences, so that one run shows them all.
    differences: RefCell<Vec<String>>,
}

/// The member each of them works on.
const OURS: &str = "m1";
const THEIRS: &str = "m2";

#[test]
fn our_cli_behaves_like_karmadactl() {
    let theirs = programs().join("karmadactl");
    if !theirs.exists() {
        test_skip::skip(format_args!("karmadactl is not in {}; `make test` builds it", programs().display()));
        return;
    }
    let Some(members) = Member::start_all(&[OURS, THEIRS], 1) else { return };
    let home = tempfile::tempdir().expect("a temporary directory");
    let ours = home.path().join("karmadactl");
    std::os::unix::fs::symlink(binary(), &ours).expect("a link");
    let both = Both {
        plane: Flotilla::start_with(&["--compat", "karmada-1.18"]),
        theirs,
        ours,
        home,
        differences: RefCell::default(),
    };
    let configs: Vec<PathBuf> = members.iter().map(|member| both.absolute_kubeconfig(member)).collect();
    both.joins_make_the_same_objects(&members, &configs);
    both.answers_are_the_same(&members);
    both.changes_are_the_same();
    both.kubectl_commands_are_the_same(&members);
    both.scripts_of_customizations_are_judged_the_same(&members[0]);
    both.objects_are_promoted_the_same(&members);
    both.members_leave_nothing_behind(&members, &configs);
    let differences = both.differences.take();
    assert!(differences.is_empty(), "{} difference(s):\n{}", differences.len(), differences.join("\n"));
}

impl Both {
    /// karmadactl does not resolve file names relative to the kubeconfig.
    fn absolute_kubeconfig(&self, member: &Member) -> PathBuf {
        let text = std::fs::read_to_string(member.kubeconfig()).expect("a kubeconfig");
        let directory = member.api.directory().display();
        let text = text.replace("certificate-authority: certs", &format!("certificate-authority: {directory}/certs"));
        let path = self.home.path().join(format!("{}.config", member.name));
        std::fs::write(&path, text).expect("written");
        path
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        // karmadactl caches discovery by address, and addresses are reused.
        command.env("HOME", self.home.path()).env("KUBECONFIG", &self.plane.kubeconfig).env_remove("FLOTILLA_HOME");
        command.args(arguments).stdin(Stdio::null()).output().expect("the program runs")
    }

    /// Runs the same command with both. Reads are repeated if they differ: the state may have changed in between.
    fn same(&self, line: &str) {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let of = |output: Output| format!("exit {:?}\n{}", output.status.code(), normal(&output.stdout));
        let answers = || (of(self.run(&self.ours, &arguments)), of(self.run(&self.theirs, &arguments)));
        let (mut ours, mut theirs) = answers();
        let mut repeats = if matches!(arguments[0], "get" | "describe" | "top") { 3 } else { 0 };
        while ours != theirs && repeats > 0 {
            repeats -= 1;
            (ours, theirs) = answers();
        }
        self.compare(line, &ours, &theirs);
    }

    /// Runs the same command with each on its own member, and also compares its messages.
    fn twin(&self, line: &str) {
        let about = |cluster: &str| line.replace("CLUSTER", cluster);
        let (their_line, our_line) = (about(THEIRS), about(OURS));
        let theirs = self.run(&self.theirs, &their_line.split_whitespace().collect::<Vec<_>>());
        let ours = self.run(&self.ours, &our_line.split_whitespace().collect::<Vec<_>>());
        let neutral = |output: &Output, cluster: &str| {
            format!("{:?} {}", output.status.code(), text(output).replace(cluster, "CLUSTER"))
        };
        self.compare(line, &neutral(&ours, OURS), &neutral(&theirs, THEIRS));
    }

    fn compare(&self, line: &str, ours: &str, theirs: &str) {
        if ours != theirs {
            self.differences.borrow_mut().push(format!("== {line}\n-- ours: {ours}\n-- theirs: {theirs}\n"));
        }
    }

    /// Waits for a condition; prints the state on a timeout.
    fn eventually(&self, what: &str, holds: impl FnMut() -> bool) {
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, CROSSING, holds)));
        if let Err(panic) = waited {
            for arguments in
                [["get", "rb,works,clusters,pp,deploy", "-A", "-o", "wide"], ["get", "rb,clusters", "-A", "-o", "yaml"]]
            {
                eprintln!("{}", text(&self.plane.kubectl(&arguments)));
            }
            eprintln!("{}", self.plane.log());
            std::panic::resume_unwind(panic);
        }
    }

    fn object(&self, arguments: &[&str]) -> Value {
        let output = self.plane.kubectl(&[arguments, &["-o", "json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{arguments:?}: {e} {}", text(&output)))
    }

    fn joins_make_the_same_objects(&self, members: &[Member], configs: &[PathBuf]) {
        for (program, member, config) in
            [(&self.ours, &members[0], &configs[0]), (&self.theirs, &members[1], &configs[1])]
        {
            let flag = format!("--cluster-kubeconfig={}", config.display());
            let joined =
                self.run(program, &["join", &member.name, &flag, "--cluster-zones=a,b", "--cluster-provider=p"]);
            assert!(joined.status.success(), "{}", text(&joined));
            assert_eq!(
                String::from_utf8_lossy(&joined.stdout),
                format!("cluster({}) is joined successfully\n", member.name)
            );
            let again = self.run(program, &["join", &member.name, &flag]);
            assert!(!again.status.success() && text(&again).contains("has been registered"), "{}", text(&again));
        }
        let described = |name: &str| {
            let mut cluster = self.object(&["get", "cluster", name]);
            for field in ["id", "apiEndpoint"] {
                assert!(cluster["spec"][field].take().is_string(), "{field} of {cluster}");
            }
            let secret = self.object(&["get", "secret", "-n", "karmada-cluster", name]);
            let keys: Vec<&String> = secret["data"].as_object().expect("data").keys().collect();
            let owner = &secret["metadata"]["ownerReferences"][0];
            let text = format!(
                "{} {} {keys:?} {} {}",
                cluster["spec"], secret["metadata"]["labels"], owner["kind"], owner["controller"]
            );
            text.replace(name, "CLUSTER")
        };
        assert_eq!(described(OURS), described(THEIRS));
        let in_member = |member: &Member| {
            let name = format!("karmada-controller-manager:karmada-{}", member.name);
            let role = member.ask(&["get", "clusterrole", &name, "-o=jsonpath={.rules}{.metadata.labels}"]);
            let binding = member.ask(&["get", "clusterrolebinding", &name, "-o=jsonpath={.subjects}{.roleRef}"]);
            let accounts = member.ask(&["get", "sa,secret", "-n", "karmada-cluster", "-o", "name"]);
            format!("{role}\n{binding}\n{accounts}").replace(&member.name, "CLUSTER")
        };
        assert_eq!(in_member(&members[0]), in_member(&members[1]));
    }

    fn answers_are_the_same(&self, members: &[Member]) {
        for member in members {
            let made = member.kubectl(&["create", "configmap", "legacy", "--from-literal=someKey=b"]);
            assert!(made.status.success(), "{}", text(&made));
            member.kubectl(&["create", "deployment", "legacy", "--image=nginx", "--replicas=2"]);
            eventually("a deployment runs in a member", CROSSING, || {
                member.ask(&["get", "deployment", "legacy", "-o=jsonpath={.status.readyReplicas}"]) == "2"
            });
        }
        self.eventually("members answer through the control plane", || {
            self.run(&self.ours, &["get", "namespaces", "-s", "members"]).status.success()
        });
        for line in [
            "get clusters",
            "get cluster m1",
            "get clusters -o wide",
            "get clusters -o name",
            "get clusters -o yaml",
            "get cluster m1 -o json",
            "get clusters -o json",
            "get clusters --no-headers --sort-by=.metadata.name",
            "get clusters -o custom-columns=N:.metadata.name,M:.spec.syncMode",
            "get clusters --show-labels",
            "get clusters -o jsonpath={.items[*].metadata.name}",
            "get pods",
            "get pods -A --ignore-not-found",
            "get deployments -s members -C m1",
            "get deploy -s all -C m2 -A",
            "get deploy/legacy -s members -C m1 -o wide",
            "get pods -s members -C m1",
            "get pods -s members -C m2 -o wide",
            "get nodes -s members -C m1",
            "get cm,deploy -s members -C m1",
            "get cm legacy -s members -C m1 -o yaml",
            "get cm -s members -C m1 -l a=b",
            "get gizmos",
            "get cluster m3",
            "get cluster m3 --ignore-not-found",
            "get pods -s members -C m3",
            "get pods -s some",
            "get",
            "describe cluster m1",
            "describe cm legacy -s members -C m1",
            "describe cluster m3",
            "describe clusters -s members",
            "token list",
            "token delete",
            "token delete x",
            "unjoin m3",
            "unjoin",
            "cordon",
            "cordon m1 m2",
            "join",
            "join Not_A_Name",
            "promote deployment legacy",
            "promote deployment",
            "promote deployment legacy -C m3",
            "promote deployment gone -C m1",
            "promote deployment legacy -C m1 -o yaml",
            "promote clusterrole view -C m1 -o yaml --policy-name=p",
            "promote configmap legacy -C m1 --dry-run",
            "promote cm legacy -C m1 -o xml",
        ] {
            self.same(line);
        }
    }

    fn changes_are_the_same(&self) {
        for line in [
            "cordon CLUSTER",
            "cordon CLUSTER",
            "taint clusters CLUSTER a=b:NoSchedule",
            "taint clusters CLUSTER a=c:NoSchedule",
            "taint clusters CLUSTER a=c:NoSchedule --overwrite",
            "taint clusters CLUSTER x:PreferNoSchedule",
            "taint clusters CLUSTER a:NoSchedule- x=y:NoExecute",
            "taint clusters CLUSTER gone-",
            "taint clusters CLUSTER a:NoSchedule a:NoSchedule-",
            "taint nodes CLUSTER a:NoSchedule",
            "taint clusters CLUSTER a=b=c:NoSchedule",
            "taint clusters CLUSTER",
            "taint clusters a:NoSchedule",
            "taint clusters CLUSTER x- --dry-run",
            "taint clusters CLUSTER x-",
            "uncordon CLUSTER",
            "uncordon CLUSTER",
            "uncordon CLUSTER --dry-run=true",
            "uncordon m3",
        ] {
            self.twin(line);
        }
        let taints = |name: &str| self.object(&["get", "cluster", name])["spec"]["taints"].clone();
        assert_eq!(taints(OURS), taints(THEIRS));
    }

    /// The commands of kubectl, in turn on the control plane: each leaves it as it found it.
    fn kubectl_commands_are_the_same(&self, members: &[Member]) {
        let write = |name: &str, text: &str| {
            let path = self.home.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let web = write("web.yaml", MANIFESTS);
        let changed = write("changed.yaml", &MANIFESTS.replace("image: nginx:1", "image: nginx:2"));
        self.manifests_are_handled_the_same(&web, &changed);
        for line in [
            "api-versions",
            "api-resources --api-group=policy.karmada.io",
            "api-resources --namespaced=false -o name",
            "api-resources --verbs=list,watch -o wide --sort-by=kind",
            "api-resources -s members --cluster m1 --categories=all",
            "api-versions -s members",
            "api-versions -s members --cluster m1",
            "explain pods",
            "explain deployments.spec.strategy --recursive",
            "explain propagationpolicies.spec.placement.clusterAffinity",
            "explain pods.spec.containers.imagePullPolicy",
            "explain gizmos",
            "explain pods -s members --cluster m1 --api-version=v1",
            "create ns shop --dry-run=client -o yaml",
            "create configmap a --from-literal=x=1 --dry-run=server -o name",
            "create deployment web --image=nginx --replicas=2 --port=80 --dry-run=server",
            "create secret generic a --from-literal=x=1 --dry-run=client",
            "create role r --verb=get,list --resource=pods --dry-run=server -o name",
            "create clusterrolebinding b --clusterrole=view --user=u --dry-run=server",
            "create service clusterip web --tcp=80:8080 --dry-run=server",
            "create ns default",
            "delete configmap gone",
            "delete configmap gone --ignore-not-found",
            "delete",
            "patch cluster m1",
            "label cluster m1",
            "logs web",
            "describe ns default",
            "describe deploy legacy -s members -C m1",
            "describe service kubernetes -s members -C m1",
            "describe sa default -s members -C m1 -n default",
        ] {
            self.same(line);
        }
        let pod = members[0].ask(&["get", "pods", "-l", "app=legacy", "-o=jsonpath={.items[0].metadata.name}"]);
        for line in [format!("describe pod {pod} -s members -C m1"), format!("logs {pod} -C m1 --tail=1")] {
            self.same(&line);
        }
    }

    fn manifests_are_handled_the_same(&self, web: &str, changed: &str) {
        let reset = format!("delete -f {web} --ignore-not-found");
        for lines in [
            vec![format!("apply -f {web} --dry-run=server"), format!("apply -f {web}"), format!("apply -f {web}")],
            vec![format!("apply -f {web}"), format!("apply -f {changed}"), format!("apply -f {web} -o name")],
            vec![format!("apply -f {web} --server-side"), format!("apply -f {changed} --server-side")],
            vec![format!("create -f {web}"), format!("create -f {web}"), format!("delete -f {web}")],
            vec![
                format!("create -f {web}"),
                "label cm settings a=b".to_owned(),
                "label cm settings a=b".to_owned(),
                "label cm settings a=c".to_owned(),
                "label cm settings a=c z- --overwrite".to_owned(),
                "label cm settings --list".to_owned(),
                "annotate cm settings a=b".to_owned(),
                "annotate cm settings a=c".to_owned(),
                "annotate cm settings a-".to_owned(),
                r#"patch cm settings -p {"data":{"b":"2"}}"#.to_owned(),
                r#"patch cm settings -p {"data":{"b":"2"}}"#.to_owned(),
                r#"patch cm settings --type=json -p [{"op":"remove","path":"/data/b"}]"#.to_owned(),
                "get cm settings -o jsonpath={.data}{.metadata.labels}".to_owned(),
                "delete cm settings --dry-run=client".to_owned(),
                "delete cm -l a=c".to_owned(),
                "delete deploy,cm --all".to_owned(),
            ],
        ] {
            self.sequence(&lines, &reset);
        }
    }

    /// Runs the same commands with both, one after the other from the same state.
    fn sequence(&self, lines: &[String], reset: &str) {
        let play = |program: &Path| {
            let mut said = String::new();
            for line in lines {
                let output = self.run(program, &line.split_whitespace().collect::<Vec<_>>());
                let code = output.status.code();
                said.push_str(&format!("$ {line}\nexit {code:?}\n{}", normal(&output.stdout)));
            }
            let _ = self.run(&self.ours, &reset.split_whitespace().collect::<Vec<_>>());
            said
        };
        let (theirs, ours) = (play(&self.theirs), play(&self.ours));
        self.compare(&lines.join("; "), &ours, &theirs);
    }

    fn scripts_of_customizations_are_judged_the_same(&self, member: &Member) {
        let write = |name: &str, text: &str| {
            let path = self.home.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let rules = write("rules.yaml", CUSTOMIZATION);
        let observed = write("observed.yaml", &member.ask(&["get", "deployment", "legacy", "-o", "yaml"]));
        self.same(&format!("interpret -f {rules} --check"));
        self.same(&format!("interpret -f {observed} --check"));
        for operation in [
            "InterpretReplica",
            "interpretHealth",
            "interpretStatus",
            "interpretDependency",
            "retain",
            "reviseReplica",
            "fly",
        ] {
            self.same(&format!(
                "interpret -f {rules} --operation {operation} --observed-file {observed} --desired-replica 7"
            ));
        }
        let both =
            format!("interpret -f {rules} --operation retain --observed-file {observed} --desired-file {observed}");
        self.same(&both);
    }

    fn objects_are_promoted_the_same(&self, members: &[Member]) {
        let promoted = |program: &Path, kind: &str, cluster: &str| {
            let output = self.run(program, &["promote", kind, "legacy", "-n", "default", "-C", cluster]);
            assert!(output.status.success(), "{}", text(&output));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let by_theirs = promoted(&self.theirs, "deployment", THEIRS);
        let policy = |name: &str| {
            let mut policies = self.object(&["get", "propagationpolicies", "-n", "default"]);
            let mut spec = policies["items"][0]["spec"].take();
            spec["placement"]["clusterAffinity"]["clusterNames"].take();
            let kept =
                self.plane.kubectl(&["delete", "propagationpolicies,deployments", "--all", "-n", "default", "--wait"]);
            assert!(kept.status.success(), "{name}: {}", text(&kept));
            spec
        };
        let their_policy = policy(THEIRS);
        let by_ours = promoted(&self.ours, "deployment", OURS);
        assert_eq!(by_ours, by_theirs);
        self.same("promote deployment legacy -n default -C m1");
        self.eventually("promoted objects are adopted in place", || {
            let shown = self.run(&self.ours, &["get", "deploy", "legacy", "-s", "members", "-C", OURS, "--no-headers"]);
            String::from_utf8_lossy(&shown.stdout).trim_end().ends_with('Y')
        });
        assert_eq!(policy(OURS), their_policy);
        for member in members {
            assert_eq!(member.ask(&["get", "deployment", "legacy", "-o=jsonpath={.status.readyReplicas}"]), "2");
        }
    }

    fn members_leave_nothing_behind(&self, members: &[Member], configs: &[PathBuf]) {
        for (program, member, config) in
            [(&self.ours, &members[0], &configs[0]), (&self.theirs, &members[1], &configs[1])]
        {
            let flag = format!("--cluster-kubeconfig={}", config.display());
            let left = self.run(program, &["unjoin", &member.name, &flag, "--cluster-context=test"]);
            assert!(left.status.success() && left.stdout.is_empty(), "{}", text(&left));
            let name = format!("karmada-controller-manager:karmada-{}", member.name);
            assert_eq!(member.ask(&["get", "clusterrole,clusterrolebinding", &name, "--ignore-not-found"]), "");
        }
        assert_eq!(self.object(&["get", "clusters"])["items"], serde_json::json!([]));
        self.same("get clusters");
        self.same("get pods -s members");
    }
}

const MANIFESTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {a: '1'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx:1}]}
";

const CUSTOMIZATION: &str = "\
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: rules}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    retention: {luaScript: 'function Retain(desired, observed) desired.spec.paused = true return desired end'}
    replicaResource:
      luaScript: |
        local kube = require('kube')
        function GetReplicas(obj)
          return obj.spec.replicas, kube.accuratePodRequirements(obj.spec.template)
        end
    replicaRevision: {luaScript: 'function ReviseReplica(obj, replicas) obj.spec.replicas = replicas return obj end'}
    healthInterpretation: {luaScript: 'function InterpretHealth(obj) return obj.status.readyReplicas == obj.spec.replicas end'}
    statusReflection: {luaScript: 'function ReflectStatus(obj) return {a = obj.spec.replicas, b = obj.metadata.name} end'}
    dependencyInterpretation:
      luaScript: |
        function GetDependencies(obj)
          return {{apiVersion = 'v1', kind = 'ConfigMap', namespace = 'default', name = 'x'}}
        end
";

/// Ages, and the widths of their columns, may differ between two commands.
fn normal(output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    let ages = Regex::new(r"\b(\d+[smhd])+\b").expect("a pattern");
    let spaces = Regex::new(r" {2,}").expect("a pattern");
    let versions = Regex::new(r#"(?i)("?resource ?version"?: +)"?\d+"?"#).expect("a pattern");
    let text = versions.replace_all(&output, "${1}N");
    spaces.replace_all(&ages.replace_all(&text, "AGE"), "  ").into_owned()
}
