//! The web console in a real browser, against a testbed with three members.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::flotilla::{Flotilla, binary};
use e2e::light_member::LightMember;
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
    browse_with(&[script], link, &[])
}

fn browse_with(arguments: &[&str], link: &str, more: &[(&str, &str)]) -> bool {
    let browser = browser().expect("checked before").display().to_string();
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/console-screenshots").display().to_string();
    let own = [("CONSOLE_LINK", link), ("CONSOLE_BROWSER", browser.as_str()), ("CONSOLE_SCREENSHOTS", shots.as_str())];
    node(arguments, &[&own[..], more].concat())
}

/// Prints a fresh link with a kubeconfig; the whole output when there is none.
fn fresh_link(kubeconfig: &Path) -> String {
    let output = Command::new(binary()).args(["console", "--kubeconfig"]).arg(kubeconfig).output().expect("it runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_console_of_a_manager_opens_its_instances_and_deploys_there() {
    if let Some(reason) = missing() {
        return skip(reason);
    }
    let member = LightMember::start(&["--nodes", "1"]);
    let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
    let link = fresh_link(&manager.server.kubeconfig);
    let kubeconfig = member.kubeconfig.display().to_string();
    let passed = browse_with(&["tests/browser/manager.mjs"], link.trim(), &[("CONSOLE_MEMBER", kubeconfig.as_str())]);
    assert!(passed, "the console has faults; the link was {link}");
}

/// An OIDC issuer that ends with this value.
struct Issuer {
    process: Child,
    url: String,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Issuer {
    /// Starts it with a certificate that `DIRECTORY/issuer.crt` verifies.
    fn start(directory: &Path) -> Self {
        let mut authority = rcgen::CertificateParams::default();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_key = rcgen::KeyPair::generate().expect("a key");
        let authority_pem = authority.self_signed(&authority_key).expect("signed").pem();
        let authority = rcgen::Issuer::new(authority, authority_key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let server = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        let server = server.signed_by(&key, &authority).expect("signed");
        let (certificate_file, key_file) = (directory.join("issuer-server.crt"), directory.join("issuer.key"));
        std::fs::write(directory.join("issuer.crt"), authority_pem).expect("written");
        std::fs::write(&certificate_file, server.pem()).expect("written");
        std::fs::write(&key_file, key.serialize_pem()).expect("written");
        let mut command = Command::new("node");
        command.arg("tests/browser/issuer.mjs").args([&certificate_file, &key_file]).current_dir(sources());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs");
        let mut url = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut url).expect("the issuer prints its URL");
        Self { process, url: url.trim().to_owned() }
    }
}

#[test]
fn users_sign_in_at_an_oidc_issuer_and_stay_signed_in_after_a_restart() {
    if let Some(reason) = missing() {
        return skip(reason);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let issuer = Issuer::start(directory.path());
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "client secret+1\n").expect("written");
    let ca = directory.path().join("issuer.crt").display().to_string();
    let secret = secret.display().to_string();
    let flags = [
        ["--oidc-issuer-url", &issuer.url],
        ["--oidc-client-id", "flotilla"],
        ["--oidc-ca-file", &ca],
        ["--oidc-groups-claim", "groups"],
        ["--oidc-client-secret-file", &secret],
    ]
    .concat();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("created");
    let server = Flotilla::start_in(&data, &flags);
    let port = server.port();
    let link = format!("https://127.0.0.1:{port}/console/");
    let state = directory.path().join("state.json").display().to_string();
    let more = [("CONSOLE_STATE", state.as_str()), ("CONSOLE_ISSUER", issuer.url.as_str())];
    assert!(browse_with(&["tests/browser/oidc.mjs"], &link, &more), "the sign-in has faults");
    server.stop();
    let server = Flotilla::start_at(&data, port, &flags);
    assert!(browse_with(&["tests/browser/oidc.mjs", "again"], &link, &more), "the session has faults");
    server.stop();
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
