//! Executes the shell blocks of the documentation that are marked as runnable, command by command.
//!
//! Getting started is followed in a fresh Debian root that has only the tarball of a release and kubectl. The guides share one testbed.
//! Both run in network, mount and process namespaces of their own, so that their default ports are free. This needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::fleet::text;
use e2e::flotilla::{binary, programs};
use serde_json::Value;

/// The pages that need the testbed of getting started, in the order of the table of contents.
const GUIDES: [&str; 9] = [
    "guides/propagation.md",
    "guides/overrides.md",
    "guides/failover.md",
    "guides/pull-mode.md",
    "guides/gitops.md",
    "multi-cluster-services.md",
    "search.md",
    "autoscaling.md",
    "manager.md",
];
/// Requirements of a block: nothing, root with containerd, or LXD.
const PLAIN: &str = "";
const ROOT: &str = "root";
const LXD: &str = "lxd";
/// Packages of the fresh root: what a shell, tar and install need.
const PACKAGES: [&str; 20] = [
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "gzip",
    "libacl1",
    "libattr1",
    "libc-bin",
    "libc6",
    "libgcc-s1",
    "libgmp10",
    "libpcre2-8-0",
    "libselinux1",
    "libtinfo6",
    "sed",
    "tar",
    "debianutils",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

/// Returns the runnable blocks of a page that have this mark.
fn blocks(page: &str, mark: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        if let Some(rest) = line.trim().strip_prefix("```sh runnable") {
            is_open = rest.trim() == mark;
            if is_open {
                found.push(String::new());
            }
        } else if line.trim() == "```" {
            is_open = false;
        } else if let Some(block) = found.last_mut().filter(|_| is_open) {
            block.push_str(line);
            block.push('\n');
        }
    }
    found
}

fn blocks_of(name: &str, mark: &str) -> Vec<String> {
    let page =
        std::fs::read_to_string(root().join("docs").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let found = blocks(&page, mark);
    assert!(!found.is_empty(), "{name} has no block `sh runnable {mark}`");
    found
}

fn can_unshare() -> bool {
    let tried = Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Runs a script with bash in namespaces of its own.
fn in_namespaces(script: &Path, home: &Path, path: &str) -> Output {
    Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"])
        .arg(script)
        .env("HOME", home)
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .env_remove("FLOTILLA_HOME")
        .current_dir(home)
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs")
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn blocks_are_those_with_the_mark() {
    let page = "a\n```sh runnable\none\ntwo\n```\n```sh\nthree\n```\n```sh runnable root\nfive\n```\n```sh runnable\nfour\n```\n";
    assert_eq!(blocks(page, PLAIN), ["one\ntwo\n", "four\n"]);
    assert_eq!(blocks(page, ROOT), ["five\n"]);
}

#[test]
fn every_mark_is_one_that_is_executed() {
    let listed = run(Command::new("grep").args(["-rhE", "^ *```sh runnable"]).arg(root().join("docs")));
    for line in listed.lines() {
        let mark = line.trim().trim_start_matches("```sh runnable").trim();
        assert!([PLAIN, ROOT, LXD].contains(&mark), "`{mark}` is no mark of a runnable block");
    }
}

/// Copies the files of Debian packages of this machine into a directory.
fn fresh_debian(target: &Path) {
    std::fs::create_dir_all(target).expect("made");
    for folder in ["bin", "sbin", "lib", "lib64"] {
        // Debian has had these as links since version 12.
        std::fs::create_dir_all(target.join("usr").join(folder)).expect("made");
        std::os::unix::fs::symlink(format!("usr/{folder}"), target.join(folder)).expect("linked");
    }
    for folder in ["proc", "dev", "tmp", "root", "etc", "usr/local/bin"] {
        std::fs::create_dir_all(target.join(folder)).expect("made");
    }
    let listed = run(Command::new("dpkg").arg("-L").args(PACKAGES));
    let is_needed = |path: &&str| {
        !path.starts_with("/usr/share") && std::fs::symlink_metadata(path).is_ok_and(|file| !file.is_dir())
    };
    let files: String = listed.lines().filter(is_needed).map(|path| format!("{path}\n")).collect();
    let list = target.join("tmp/files");
    std::fs::write(&list, files).expect("written");
    let copy = "tar -C / -cf - -T \"$1/tmp/files\" 2>/dev/null | tar -C \"$1\" -xf - --keep-directory-symlink";
    run(Command::new("bash").args(["-c", copy, "copy"]).arg(target));
    std::fs::remove_file(list).expect("removed");
}

#[test]
fn getting_started_can_be_followed_in_a_fresh_debian() {
    let blocks = blocks_of("getting-started.md", PLAIN);
    assert!(blocks.len() >= 6, "the page has runnable blocks");
    let has_dpkg = Command::new("dpkg").arg("-L").args(PACKAGES).output().is_ok_and(|output| output.status.success());
    if !can_unshare() || !has_dpkg {
        test_skip::skip(format_args!("a fresh Debian root needs root and a Debian with its basic packages"));
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let debian = directory.path().join("debian");
    fresh_debian(&debian);
    let program = directory.path().join("flotilla");
    run(Command::new("strip").arg("-o").arg(&program).arg(binary()));
    let release = directory.path().join("release");
    run(Command::new(root().join("tools/dist")).arg(&program).arg(&release).env("FLOTILLA_GZIP", "-1"));
    let copy = "cp \"$1\"/flotilla-v*.tar.gz \"$2\"/root/";
    run(Command::new("bash").args(["-c", copy, "copy"]).arg(&release).arg(&debian));
    std::fs::copy(programs().join("kubectl"), debian.join("usr/local/bin/kubectl")).expect("copied");

    let trap = "set -euxo pipefail\ncd /root\ntrap 'flotilla down --delete >/dev/null 2>&1 || true' EXIT\n";
    std::fs::write(debian.join("root/script"), format!("{trap}{}", blocks.concat())).expect("written");
    let enter = format!(
        "set -eu\nip link set lo up\ncd {}\nmount -t proc proc proc\nmount --rbind /dev dev\n\
         exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin bash /root/script\n",
        debian.display()
    );
    let script = directory.path().join("enter");
    std::fs::write(&script, enter).expect("written");
    let path = std::env::var("PATH").unwrap_or_default();
    let said = in_namespaces(&script, directory.path(), &path);
    assert!(said.status.success(), "{}", text(&said));
    for expected in ["member3", "deployment.apps/web created", "condition met"] {
        assert!(text(&said).contains(expected), "{expected}: {}", text(&said));
    }
}

#[test]
fn guides_can_be_followed() {
    if !can_unshare() {
        test_skip::skip(format_args!("namespaces need root"));
        return;
    }
    let (home, path) = reader();
    let mut script = "set -euxo pipefail\nip link set lo up\n\
        trap 'flotilla down --delete >/dev/null 2>&1 || true' EXIT\nflotilla up --runtime simulated --no-links\n\
        export KUBECONFIG=$HOME/.flotilla/default/kubeconfig\n"
        .to_owned();
    // Last: it restores a snapshot of the whole testbed.
    for page in GUIDES.into_iter().chain(["guides/testbed.md"]) {
        let blocks = blocks_of(page, PLAIN);
        // A shell of its own: its variables and jobs end with the page.
        script += &format!(": page {page}\n(\n{})\n", blocks.concat());
    }
    let file = home.path().join("script");
    std::fs::write(&file, script).expect("written");
    let said = in_namespaces(&file, home.path(), &path);
    assert!(said.status.success(), "{}", text(&said));
}

/// A home directory of a reader with the examples, and a PATH with the programs of the guides.
fn reader() -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().expect("a directory");
    let bin = home.path().join("bin");
    std::fs::create_dir_all(&bin).expect("made");
    for (name, program) in [("flotilla", binary()), ("kubectl", programs().join("kubectl"))] {
        std::os::unix::fs::symlink(program, bin.join(name)).expect("linked");
    }
    std::os::unix::fs::symlink(root().join("examples"), home.path().join("examples")).expect("linked");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    (home, path)
}

/// Returns a failed check of `flotilla prepare`, among those named, as the reason to skip a test.
fn missing(flags: &[&str], needed: &[&str]) -> Option<String> {
    let output = Command::new(binary()).arg("prepare").args(flags).args(["--dry-run", "--json"]).output();
    let output = output.expect("flotilla runs");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    let checks = report["checks"].as_array().expect("checks");
    let name = |check: &Value| check["name"].as_str().unwrap_or_default().to_owned();
    for check in needed {
        assert!(checks.iter().any(|found| name(found) == *check), "there is no check {check}: {report}");
    }
    let failed = checks.iter().find(|check| check["standing"] == "broken" && needed.contains(&name(check).as_str()));
    failed.map(|check| format!("{}: {}; run `make test` as root to install it", check["name"], check["detail"]))
}

/// Containers and the host cluster, with the ports of the guide in a network of their own.
#[test]
fn guides_with_containers_can_be_followed() {
    let blocks = blocks_of("guides/testbed.md", ROOT);
    if !can_unshare() {
        test_skip::skip(format_args!("namespaces need root"));
        return;
    }
    if let Some(missing) = missing(&["--runtime", "containerd"], &["containerd", "runc", "host-local"]) {
        test_skip::skip(missing);
        return;
    }
    let (home, path) = reader();
    // The image of the host cluster is copied several times, so it is made of a program without symbols.
    let program = home.path().join("bin/flotilla");
    std::fs::remove_file(&program).expect("removed");
    run(Command::new("strip").arg("-o").arg(&program).arg(binary()));
    let mut script = "set -euxo pipefail\nip link set lo up\n\
        trap 'for bed in containers hosted; do flotilla down --delete --name $bed >/dev/null 2>&1 || true; done' EXIT\n"
        .to_owned();
    for block in blocks {
        script += &format!("(\n{block})\n");
    }
    let file = home.path().join("script");
    std::fs::write(&file, script).expect("written");
    let said = in_namespaces(&file, home.path(), &path);
    assert!(said.status.success(), "{}", text(&said));
}

#[test]
fn the_guide_of_system_containers_can_be_followed() {
    let blocks = blocks_of("guides/testbed.md", LXD);
    if let Some(missing) = missing(&["--provisioner", "lxd"], &["daemon", "dnsmasq", "busybox"]) {
        test_skip::skip(missing);
        return;
    }
    let (home, path) = reader();
    // A name of its own: the daemon is shared with other tests.
    let name = format!("docs{}", std::process::id());
    let blocks = blocks.concat().replace("machines", &name);
    let script = format!(
        "set -euxo pipefail\ntrap 'flotilla down --delete --name {name} >/dev/null 2>&1 || true' EXIT\n{blocks}"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("HOME", home.path()).env("PATH", path).current_dir(home.path());
    run(command.env_remove("KUBECONFIG").env_remove("FLOTILLA_HOME"));
}

#[test]
fn the_site_has_every_page_and_no_broken_link() {
    let directory = tempfile::tempdir().expect("a directory");
    run(Command::new(root().join("tools/site")).arg(directory.path()));
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    let page = read("docs/guides/gitops.html");
    assert!(page.contains("<h2 id=\"1-the-control-plane\">"), "{page}");
    assert!(page.contains("href=\"../../docs/getting-started.html\""), "{page}");
    assert!(
        read("docs/getting-started.html")
            .contains("<img alt=\"Overview\" src=\"../docs/images/console-overview.png\">")
    );
    assert!(directory.path().join("docs/images/console-overview.png").exists());
    assert!(read("deploy/README.html").contains("<table>"));
}
