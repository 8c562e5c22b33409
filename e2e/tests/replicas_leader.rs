//! The leader of three replicas is killed, or suspended and resumed, during its work: nothing is lost, nothing is
//! done twice.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::eventually::eventually;
use e2e::fleet::{run, text};
use e2e::flotilla::{binary, kubectl, programs};
use e2e::light_member::LightMember;
use e2e::member::apply;
use e2e::replicas::Replicas;

/// For waits that depend on the speed of the machine.
const LIMIT: Duration = Duration::from_secs(300);
const PLACEMENTS: usize = 1000;
/// client-go's lease duration of 15 seconds, the longest poll interval, and headroom for a slow machine.
const MOVE_LIMIT: Duration = Duration::from_secs(40);
const MEMBERS: usize = 2;
/// Selects the member of an object.
const LABEL: &str = "placed";

fn policies() -> String {
    let one = |number: usize| {
        format!(
            "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: m{number}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: v1, kind: ConfigMap, labelSelector: {{matchLabels: {{{LABEL}: m{number}}}}}}}]
  placement: {{clusterAffinity: {{clusterNames: [m{number}]}}}}
"
        )
    };
    (0..MEMBERS).map(one).collect::<Vec<_>>().join("---")
}

/// The members, and all events of the placed objects in each.
struct RecordedMembers {
    members: Vec<(LightMember, MemberHistory)>,
}

/// The recorded watch of one member.
struct MemberHistory {
    child: Child,
    file: PathBuf,
}

impl MemberHistory {
    fn start(member: &LightMember) -> Self {
        let file = member.directory().join("history");
        let child = Command::new(programs().join("kubectl"))
            .arg("--kubeconfig")
            .arg(&member.kubeconfig)
            .args(["get", "configmaps", "-l", LABEL, "--watch", "--output-watch-events"])
            .args(["-o=jsonpath={.type} {.object.metadata.name}{\"\\n\"}"])
            .stdin(Stdio::null())
            .stdout(File::create(&file).expect("a file"))
            .stderr(Stdio::null())
            .spawn();
        Self { child: child.expect("kubectl starts"), file }
    }

    /// Counts events of a type for objects with this name prefix.
    fn count(&self, what: &str, prefix: &str) -> usize {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let wanted = format!("{what} {prefix}");
        text.lines().filter(|line| line.starts_with(&wanted)).count()
    }
}

impl Drop for MemberHistory {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RecordedMembers {
    fn join(plane: &Path) -> Self {
        let members: Vec<LightMember> = (0..MEMBERS).map(|_| LightMember::start(&[])).collect();
        for (number, member) in members.iter().enumerate() {
            let name = format!("m{number}");
            let kubeconfig = member.kubeconfig.to_str().expect("a path");
            let joined = run(&binary(), plane, &["join", &name, "--cluster-kubeconfig", kubeconfig]);
            assert!(joined.status.success(), "{}", text(&joined));
        }
        for number in 0..members.len() {
            let ready = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            eventually("a member is ready", LIMIT, || {
                kubectl(plane, &["get", "cluster", &format!("m{number}"), ready]).stdout.starts_with(b"True")
            });
        }
        let with_history = |member: LightMember| {
            let history = MemberHistory::start(&member);
            (member, history)
        };
        Self { members: members.into_iter().map(with_history).collect() }
    }

    /// Counts events over all members.
    fn count(&self, what: &str, prefix: &str) -> usize {
        self.members.iter().map(|(_, history)| history.count(what, prefix)).sum()
    }
}

fn maps(prefix: &str, count: usize) -> String {
    let one = |number: usize| {
        let member = number % MEMBERS;
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{prefix}-{number}","namespace":"default","labels":{{"{LABEL}":"m{member}"}}}},"data":{{"n":"{number}"}}}}"#
        )
    };
    let items: Vec<String> = (0..count).map(one).collect();
    format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(","))
}

fn create(plane: &Path, documents: &str) {
    let made = apply(plane, &["create", "-f", "-"], documents);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_killed_or_suspended_leader_loses_and_repeats_nothing() {
    let Some(mut replicas) = Replicas::start(3, 3, &[]) else { return };
    let first = replicas.wait_for_leader(0, None, LIMIT);
    let standing = (first + 1) % 3;
    let plane = replicas.get(standing).kubeconfig.clone();
    let members = RecordedMembers::join(&plane);
    create(&plane, &policies());
    let second = kill_in_the_middle(&mut replicas, first, &plane, &members);
    replicas.restart(first);
    freeze_and_wake(&replicas, second, &members);
}

/// Kills the leader during 1,000 placements. Returns the new leader.
fn kill_in_the_middle(replicas: &mut Replicas, first: usize, plane: &Path, members: &RecordedMembers) -> usize {
    let standing = (first + 1) % 3;
    let start = Instant::now();
    let (killed, second) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| create(plane, &maps("many", PLACEMENTS)));
        eventually("a quarter is placed", LIMIT, || members.count("ADDED", "many-") > PLACEMENTS / 4);
        replicas.kill(first);
        let (killed, before) = (Instant::now(), members.count("ADDED", "many-"));
        let second = replicas.wait_for_leader(standing, Some(first), MOVE_LIMIT);
        let moved = killed.elapsed();
        assert!(moved < MOVE_LIMIT, "no leader for {moved:?}");
        eventually("work is resumed", LIMIT, || members.count("ADDED", "many-") > before);
        eprintln!(
            "killed with {before} of {PLACEMENTS} placed; the lease moved after {moved:.1?}, work was resumed after {:.1?}",
            killed.elapsed()
        );
        writer.join().expect("all were created");
        (killed, second)
    });
    eventually("all are placed", LIMIT, || members.count("ADDED", "many-") >= PLACEMENTS);
    let (all, after) = (start.elapsed(), killed.elapsed());
    eprintln!("{PLACEMENTS} placements in two members took {all:.1?}, {after:.1?} of it after the kill");
    let names = |kubeconfig: &Path, arguments: &[&str]| {
        let answer = kubectl(kubeconfig, &[&["get", "-o=name"], arguments].concat());
        String::from_utf8_lossy(&answer.stdout).lines().filter(|line| line.contains("/many-")).count()
    };
    for (number, (member, history)) in members.members.iter().enumerate() {
        let share = PLACEMENTS / MEMBERS;
        assert_eq!(names(&member.kubeconfig, &["configmaps"]), share, "member {number}");
        assert_eq!(history.count("ADDED", "many-"), share, "each came once into member {number}");
        assert_eq!(history.count("DELETED", "many-"), 0, "nothing was taken away in member {number}");
        assert_eq!(names(plane, &["works", "-n", &format!("karmada-es-m{number}")]), share, "works of member {number}");
    }
    assert_eq!(names(plane, &["rb", "-n", "default"]), PLACEMENTS, "one binding for each");
    second
}

/// A leader is suspended with full queues and resumes after another has finished its work and reverted it.
fn freeze_and_wake(replicas: &Replicas, frozen: usize, members: &RecordedMembers) {
    const BURST: usize = 120;
    let asked = (0..3).find(|number| *number != frozen).expect("three replicas");
    let plane = replicas.get(asked).kubeconfig.clone();
    create(&plane, &maps("burst", BURST));
    eventually("the burst has begun", LIMIT, || members.count("ADDED", "burst-") > 0);
    replicas.signal(frozen, "STOP");
    let placed = members.count("ADDED", "burst-");
    let start = Instant::now();
    replicas.wait_for_leader(asked, Some(frozen), MOVE_LIMIT);
    eprintln!("frozen with {placed} of {BURST} placed; another leads after {:.1?}", start.elapsed());
    eventually("another has placed all of it", LIMIT, || members.count("ADDED", "burst-") >= BURST);
    let names: Vec<String> = (0..BURST).map(|number| format!("configmap/burst-{number}")).collect();
    let mut arguments = vec!["delete", "--wait=false"];
    arguments.extend(names.iter().map(String::as_str));
    assert!(kubectl(&plane, &arguments).status.success());
    eventually("and taken it away again", LIMIT, || members.count("DELETED", "burst-") >= BURST);
    assert_eq!(members.count("ADDED", "burst-"), BURST, "the new leader repeated nothing");
    replicas.signal(frozen, "CONT");
    eventually("the one that was frozen knows that it does not lead", LIMIT, || {
        replicas.get(frozen).log().contains("leadership lost")
    });
    // Any late write would have happened before this object passes through the leader into every member.
    create(&replicas.get(frozen).kubeconfig, &maps("after", 20));
    eventually("later work is done", LIMIT, || members.count("ADDED", "after-") >= 20);
    assert_eq!(members.count("ADDED", "burst-"), BURST, "nothing came back");
    let bindings = kubectl(&plane, &["get", "rb", "-n", "default", "-o=name"]);
    assert!(!text(&bindings).contains("/burst-"), "nothing is left of it on the plane");
    let leader = replicas.leader(asked).expect("someone leads");
    assert_ne!(leader, frozen);
    eventually("each replica reports whether it leads", LIMIT, || {
        let leader = replicas.leader(asked);
        (0..3).all(|number| reports_leading(replicas, number) == (leader == Some(number)))
    });
}

fn reports_leading(replicas: &Replicas, number: usize) -> bool {
    let metrics = kubectl(&replicas.get(number).kubeconfig, &["get", "--raw", "/metrics"]);
    text(&metrics).lines().any(|line| line == r#"leader_election_master_status{name="karmada-scheduler"} 1"#)
}
