//! The web console in a real browser, against a testbed with three members.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::flotilla::binary;
use e2e::manager::ManagerProcess;
use e2e::testbed::Testbed;
use test_skip::skip;

/// Browsers of Debian; the headless shell is smaller and preferred.
const BROWSERS: [&str; 3] = ["chromium-headless-shell", "chromium", "chromium-browser"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../console")
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs Node in the console's folder and returns whether it succeeded. Its output goes to this test's output.
fn node(arguments: &[&str], variables: &[(&str, &str)]) -> bool {
    let mut command = Command::new("node");
    command.args(arguments).envs(variables.iter().copied()).current_dir(sources()).stdin(Stdio::null());
    let output = command.output().expect("node runs");
    eprintln!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

/// The reason why the console cannot be tested here.
fn missing() -> Option<&'static str> {
    if program("node").is_none() {
        return Some("node is missing: install Node 20.19 or later");
    }
    if !sources().join("node_modules/playwright-core").exists() || !sources().join("dist/index.html").exists() {
        return Some("the console is not built: run tools/console");
    }
    if browser().is_none() {
        return Some("no browser: install chromium-headless-shell");
    }
    None
}

fn browser() -> Option<PathBuf> {
    BROWSERS.iter().find_map(|name| program(name))
}

/// Runs a script of the browser tests against the console that a link opens.
fn browse(script: &str, link: &str) -> bool {
    let browser = browser().expect("checked before").display().to_string();
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/console-screenshots").display().to_string();
    node(&[script], &[("CONSOLE_LINK", link), ("CONSOLE_BROWSER", &browser), ("CONSOLE_SCREENSHOTS", &shots)])
}

/// Prints a fresh link with a kubeconfig; the whole output when there is none.
fn fresh_link(kubeconfig: &Path) -> String {
    let output = Command::new(binary()).args(["console", "--kubeconfig"]).arg(kubeconfig).output().expect("it runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_console_of_a_manager_opens_its_instances() {
    if let Some(reason) = missing() {
        return skip(reason);
    }
    let manager = ManagerProcess::start(&[]);
    let link = fresh_link(&manager.server.kubeconfig);
    assert!(browse("tests/browser/manager.mjs", link.trim()), "the console has faults; the link was {link}");
}

#[test]
fn the_sources_of_the_console_are_complete_and_small() {
    if let Some(reason) = missing() {
        return skip(reason);
    }
    assert!(node(&["--test", "tests/unit/"], &[]), "the checks of the console's sources fail");
}

#[test]
fn the_console_works_in_a_browser() {
    if let Some(reason) = missing() {
        return skip(reason);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "default");
    let printed = bed.bring_up(&["--no-registry", "--nodes=2"]);
    let link = printed.lines().find_map(|line| line.trim().strip_prefix("https://"));
    let link = link.map(|rest| format!("https://{rest}")).filter(|link| link.contains("/console/#ticket="));
    let link = link.unwrap_or_else(|| panic!("no link to the console:\n{printed}"));
    let passed = browse("tests/browser/run.mjs", &link);
    bed.run_ok(&["down"]);
    assert!(passed, "the console has faults; screenshots are in target/console-screenshots");
}

#[test]
fn a_fresh_link_is_printed_on_request() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "default");
    bed.bring_up(&["--no-registry", "--members=1", "--nodes=1"]);
    let text = fresh_link(&bed.config("karmada-apiserver"));
    let built = sources().join("dist/index.html").exists();
    let expected = if built { "/console/#ticket=" } else { "built without the console" };
    bed.run_ok(&["down"]);
    assert!(text.contains(expected), "{text}");
}
