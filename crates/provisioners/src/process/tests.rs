//! Machines as processes, with shell scripts as programs.

use std::time::Duration;

use super::*;

struct Scene {
    directory: tempfile::TempDir,
    processes: Processes,
}

fn scene() -> Scene {
    let directory = tempfile::tempdir().unwrap();
    let processes = Processes::new(directory.path().join("data"), directory.path().join("logs"));
    Scene { directory, processes }
}

fn machine(name: &str, script: &str) -> Machine {
    Machine {
        name: name.into(),
        command: ["sh", "-c", script].map(str::to_owned).into(),
        env: BTreeMap::new(),
        files: Vec::new(),
        forwards: Vec::new(),
    }
}

impl Scene {
    async fn started(&self, machine: &Machine) {
        self.processes.create(machine).await.unwrap();
        self.processes.start(&machine.name).await.unwrap();
    }

    async fn report(&self, name: &str) -> ProcessReport {
        self.processes.reports().await.into_iter().find(|report| report.name == name).unwrap()
    }

    async fn eventually(&self, what: &str, name: &str, holds: impl Fn(&ProcessReport) -> bool) -> ProcessReport {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            let report = self.report(name).await;
            if holds(&report) {
                return report;
            }
            assert!(tokio::time::Instant::now() < deadline, "never: {what}: {report:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(format!("logs/{name}.log"))).unwrap_or_default()
    }
}

#[tokio::test]
async fn an_exited_program_is_restarted_and_repeated_exits_are_failing() {
    let scene = scene();
    scene.started(&machine("a", "echo I am here; exit 3")).await;
    let report = scene.eventually("failing", "a", |report| report.condition == Condition::Failing).await;
    assert!(report.restarts >= 2 && report.last_end.as_deref() == Some("exit status: 3"), "{report:?}");
    assert!(scene.log("a").matches("I am here").count() >= 3);
    scene.processes.stop("a").await.unwrap();
    assert_eq!(scene.report("a").await.condition, Condition::Stopped);
}

#[tokio::test]
async fn an_unchanged_machine_keeps_running_and_a_changed_one_restarts() {
    let scene = scene();
    let first = machine("a", "exec sleep 1000");
    scene.started(&first).await;
    let pid = scene.eventually("it runs", "a", |report| report.pid.is_some()).await.pid;
    scene.started(&first).await;
    assert_eq!(scene.report("a").await.pid, pid);
    scene.started(&machine("a", "exec sleep 1001")).await;
    let changed = scene.eventually("it runs", "a", |report| report.pid.is_some()).await.pid;
    assert_ne!(changed, pid);
    scene.processes.stop_all().await;
    assert!(!Path::new(&format!("/proc/{}", changed.unwrap())).exists());
}

#[tokio::test]
async fn a_killed_machine_stays_down_until_it_is_started() {
    let scene = scene();
    scene.started(&machine("a", "trap '' TERM; while :; do sleep 1; done")).await;
    scene.eventually("it runs", "a", |report| report.pid.is_some()).await;
    scene.processes.kill("a").await.unwrap();
    let report = scene.report("a").await;
    assert_eq!((report.condition, report.pid), (Condition::Stopped, None));
    scene.processes.start("a").await.unwrap();
    scene.eventually("it runs again", "a", |report| report.pid.is_some()).await;
    scene.processes.kill("a").await.unwrap();
}

#[tokio::test]
async fn deleting_leaves_nothing() {
    let scene = scene();
    let mut wanted = machine("a", "cat greeting; exec sleep 1000");
    let source = scene.directory.path().join("source");
    std::fs::write(&source, "good morning").unwrap();
    wanted.files = vec![(source.clone(), "/greeting".into())];
    wanted.forwards =
        vec![Forward { name: "api".into(), listen: "127.0.0.1:0".parse().unwrap(), target: "127.0.0.1:1".into() }];
    scene.started(&wanted).await;
    scene.eventually("it runs", "a", |_| scene.log("a") == "good morning").await;
    assert_eq!(scene.processes.read_file("a", "greeting").await.unwrap(), b"good morning");
    scene.processes.delete("a").await.unwrap();
    scene.processes.delete("a").await.unwrap();
    assert_eq!(scene.processes.condition("a").await.unwrap(), Condition::Missing);
    std::fs::remove_file(source).unwrap();
    for folder in ["data", "logs"] {
        let left: Vec<_> = std::fs::read_dir(scene.directory.path().join(folder)).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn a_process_of_a_killed_supervisor_is_stopped_before_another_starts() {
    let scene = scene();
    let wanted = machine("a", "exec sleep 1002");
    let mut left = std::process::Command::new("sleep").arg("1002").spawn().unwrap();
    // A spawned process shows its own command line only after exec.
    let line = format!("/proc/{}/cmdline", left.id());
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while std::fs::read(&line).unwrap() != b"sleep\x001002\x00" {
        assert!(std::time::Instant::now() < deadline, "timed out waiting for exec");
        tokio::task::yield_now().await;
    }
    std::fs::create_dir_all(scene.directory.path().join("data")).unwrap();
    std::fs::write(scene.directory.path().join("data/a.pid"), left.id().to_string()).unwrap();
    // A foreign program with a recorded pid is not touched.
    scene.processes.create(&wanted).await.unwrap();
    assert!(left.try_wait().unwrap().is_none());
    let again = Processes::new(scene.directory.path().join("data"), scene.directory.path().join("logs"));
    std::fs::write(scene.directory.path().join("data/a.pid"), left.id().to_string()).unwrap();
    let same = Machine { command: vec!["sleep".into(), "1002".into()], ..wanted };
    let (_, ended) = tokio::join!(again.create(&same), tokio::task::spawn_blocking(move || left.wait()));
    assert!(!ended.unwrap().unwrap().success());
}

#[tokio::test]
async fn exec_passes_input_and_paths_stay_in_the_directory() {
    let scene = scene();
    scene.processes.create(&machine("a", "exec sleep 1000")).await.unwrap();
    let command = ["sh", "-c", "cat; pwd >&2; exit 4"].map(str::to_owned);
    let output = scene.processes.exec("a", &command, Some(b"hello".to_vec())).await.unwrap();
    assert_eq!((output.code, output.stdout.as_slice()), (4, b"hello".as_slice()));
    assert!(String::from_utf8_lossy(&output.stderr).trim_end().ends_with("data/a"));
    assert!(scene.processes.read_file("a", "../b").await.is_err());
}

#[tokio::test]
async fn a_port_that_becomes_free_a_moment_later_is_opened() {
    let busy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = busy.local_addr().unwrap();
    let forward = Forward { name: "api".into(), listen, target: "127.0.0.1:1".into() };
    let released = tokio::spawn(async move {
        tokio::time::sleep(REOPEN_POLL * 5).await;
        drop(busy);
    });
    assert_eq!(open_port(&forward).await.unwrap().address(), listen);
    released.await.unwrap();
    let held = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let forward = Forward { listen: held.local_addr().unwrap(), ..forward };
    assert!(open_port(&forward).await.is_err(), "a port of another program is reported");
}
