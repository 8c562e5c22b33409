//! Faults have the intended effects, and short seeded soaks pass; `make soak` runs long ones.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use e2e::etcd::steady_port;
use e2e::eventually::eventually;
use e2e::faults::disk::SmallDisk;
use e2e::faults::process::Process;
use e2e::faults::shim::{DiskError, Shim};
use e2e::faults::{Fault, FaultTarget};
use e2e::flotilla::{binary, kubectl};
use e2e::netns::Namespace;
use e2e::soak::schedule::{Engine, SoakPlan, draw};

const LIMIT: Duration = Duration::from_secs(90);

/// Starts a server with a shim on a directory.
fn server(directory: &Path) -> (FaultTarget, Arc<Shim>, std::path::PathBuf) {
    let shim = Arc::new(Shim::build(directory, "server").unwrap_or_else(|why| panic!("{why}")));
    let (data, port, preload) = (directory.join("data"), steady_port(), Arc::clone(&shim));
    std::fs::create_dir_all(&data).expect("a directory");
    let kubeconfig = data.join("karmada-apiserver.config");
    let process = Process::start(&directory.join("server.log"), move || {
        let mut command = Command::new(binary());
        preload.preload(&mut command);
        command.args(["server", "--bind", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(&data);
        command
    });
    let target = FaultTarget::new("server", process).with_shim(Some(Arc::clone(&shim)));
    eventually("the server is ready", LIMIT, || {
        kubeconfig.exists() && kubectl(&kubeconfig, &["get", "--raw", "/readyz"]).stdout.starts_with(b"ok")
    });
    (target, shim, kubeconfig)
}

fn creates(kubeconfig: &Path, name: &str) -> bool {
    kubectl(kubeconfig, &["create", "configmap", name, "--request-timeout=3s"]).status.success()
}

#[test]
fn every_process_fault_takes_effect_and_heals() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (target, shim, kubeconfig) = server(directory.path());
    let run_ok = || {
        eventually("writes are taken", LIMIT, || {
            kubectl(&kubeconfig, &["get", "cm", "x"]).status.success() || creates(&kubeconfig, "x")
        })
    };
    run_ok();

    let full = target.inject(Fault::FullDisk).expect("a shim");
    assert!(!creates(&kubeconfig, "full"), "the disk is full");
    assert!(kubectl(&kubeconfig, &["get", "cm", "x"]).status.success(), "reads need no disk space");
    full.heal();
    eventually("there is disk space again", LIMIT, || creates(&kubeconfig, "space"));
    assert!(shim.hits().writes > 0);

    let moved = target.inject(Fault::Clock { seconds: 86_400 }).expect("a shim");
    assert!(creates(&kubeconfig, "tomorrow"));
    moved.heal();
    let age = |name: &str| {
        let asked = kubectl(&kubeconfig, &["get", "cm", name, "-o=jsonpath={.metadata.creationTimestamp}"]);
        String::from_utf8_lossy(&asked.stdout).into_owned()
    };
    assert!(age("tomorrow")[..10] > age("space")[..10], "{} is not after {}", age("tomorrow"), age("space"));

    let paused = target.inject(Fault::Pause).expect("it runs");
    assert!(!creates(&kubeconfig, "paused"));
    drop(paused);
    run_ok();

    let killed = target.inject(Fault::Kill).expect("it runs");
    assert!(!creates(&kubeconfig, "killed"));
    drop(killed);
    run_ok();
    eventually("acknowledged writes are present", LIMIT, || !age("tomorrow").is_empty());
}

#[test]
fn a_server_exits_on_a_disk_failure_and_keeps_acknowledged_writes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (target, shim, kubeconfig) = server(directory.path());
    assert!(creates(&kubeconfig, "before"));
    shim.failing_disk(DiskError::Unconfirmed);
    assert!(!creates(&kubeconfig, "during"), "the disk took nothing");
    let mut ended = None;
    eventually("the server ends with an error", LIMIT, || {
        ended = ended.take().or_else(|| target.subject().revive());
        ended.is_some()
    });
    shim.heal_disk();
    eventually("a server is there again", LIMIT, || {
        target.subject().revive();
        creates(&kubeconfig, "after") || kubectl(&kubeconfig, &["get", "cm", "after"]).status.success()
    });
    assert!(kubectl(&kubeconfig, &["get", "cm", "before"]).status.success());
    let said = std::fs::read_to_string(directory.path().join("server.log")).unwrap_or_default();
    assert!(said.contains("restart this process"), "{said}");
}

#[test]
fn unsupported_faults_are_rejected_with_a_reason() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sleep = Process::start(&directory.path().join("log"), || {
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    });
    let target = FaultTarget::new("sleep", sleep);
    let cases = [
        (Fault::Partition, "sleep: is in no network namespace"),
        (Fault::Silence, "sleep: talks through no relay"),
        (Fault::FullDisk, "sleep: runs without the shim"),
        (Fault::Clock { seconds: 5 }, "sleep: runs without the shim"),
        (Fault::Netem { delay_ms: 10, loss_percent: 1 }, "sleep: is in no network namespace"),
    ];
    for (fault, expected) in cases {
        let Err(why) = target.inject(fault) else { panic!("{fault:?} was done") };
        assert!(why.to_string().starts_with(expected), "{why}");
    }
    if let Some(space) = Namespace::make() {
        let target = target.inside(Some(Arc::new(space)));
        match target.inject(Fault::Netem { delay_ms: 10, loss_percent: 1 }) {
            Ok(done) => done.heal(),
            Err(why) => assert!(why.to_string().contains("netem"), "{why}"),
        }
    }
}

#[test]
fn a_small_disk_is_filled_and_emptied() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = match SmallDisk::mount(&directory.path().join("disk"), 8) {
        Ok(disk) => disk,
        Err(why) => return test_skip::skip(why),
    };
    disk.fill();
    assert!(std::fs::write(disk.path().join("more"), vec![1; 4096]).is_err());
    disk.empty();
    std::fs::write(disk.path().join("more"), vec![1; 4096]).expect("there is disk space");
}

async fn soak(plan: SoakPlan) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let result = e2e::soak::run(&plan, &draw(&plan), directory.path()).await.unwrap_or_else(|why| panic!("{why}"));
    eprintln!("{result:#?}");
    assert!(result.counts.acknowledged > 0, "nothing was written: {result:#?}");
    if !result.violations.is_empty() {
        // Keeps everything needed for an analysis.
        panic!("{plan:?}\n{:#?}\nkept in {}", result.violations, directory.keep().display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_soak_of_one_plane_with_members_passes() {
    let (seed, seconds) = (11, 12);
    let plan = SoakPlan {
        seed,
        seconds,
        engine: Engine::Embedded,
        has_members: true,
        has_real_member: false,
        toleration_seconds: 300,
    };
    soak(plan).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_soak_of_three_replicas_on_etcd_passes() {
    if !e2e::flotilla::programs().join("etcd").exists() {
        return test_skip::skip("etcd is missing; `make test` builds it");
    }
    let (seed, seconds) = (12, 12);
    let plan = SoakPlan {
        seed,
        seconds,
        engine: Engine::Etcd,
        has_members: false,
        has_real_member: false,
        toleration_seconds: 300,
    };
    soak(plan).await;
}
