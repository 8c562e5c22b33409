//! The same cases against the real Karmada 1.18.2: kube-apiserver with its definitions and its webhook.
//!
//! Needs the programs of `tools/kube/build` and of Karmada in `$FLOTILLA_KUBE_BIN` or `~/.cache/flotilla/bin`; without them
//! the test says so and passes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kinds::Kind;
use serde_json::Value;

use crate::cases::{Case, assert_part, cases, content};

const PROGRAMS: [&str; 5] =
    ["etcd", "kube-apiserver", "karmada-webhook", "karmada-aggregated-apiserver", "karmada-controller-manager"];

#[test]
fn the_real_karmada_answers_as_the_tables_say() {
    let Some(karmada) = Karmada::start() else { return };
    let cases = cases();
    // Leaves out cases that need flags or gates the webhook was started without, and intentional differences.
    let alike = cases
        .iter()
        .filter(|(_, case)| case.differs.is_none() && !case.allow_no_execute_taints && !case.multiple_pod_templates);
    let mut count = 0;
    for (kind, case) in alike {
        check(&karmada, kind, case, count);
        count += 1;
    }
    assert!(count > 100, "only {count} cases were compared");
}

fn check(karmada: &Karmada, kind: &Kind, case: &Case, number: usize) {
    let place = format!("{}: {}", kind.plural, case.name);
    let namespace = if kind.namespaced { "/namespaces/default" } else { "" };
    let path = format!("/apis/{}{namespace}/{}", kind.gvk.api_version(), kind.plural);
    let mut object = content(kind, case, &case.object);
    let answer = match &case.old {
        None => karmada.send("POST", &format!("{path}?dryRun=All"), &object),
        Some(old) => {
            let mut before = content(kind, case, old);
            before["metadata"]["name"] = format!("case-{number}").into();
            if let Some(metadata) = before["metadata"].as_object_mut() {
                metadata.remove("labels");
            }
            let stored = karmada.send("POST", &path, &before);
            let metadata = object["metadata"].as_object_mut().expect("a map");
            metadata.insert("name".to_owned(), stored["metadata"]["name"].clone());
            metadata.insert("resourceVersion".to_owned(), stored["metadata"]["resourceVersion"].clone());
            let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Default::default()));
            for (key, value) in stored["metadata"]["labels"].as_object().into_iter().flatten() {
                if labels.get(key).is_none() {
                    labels[key] = value.clone();
                }
            }
            karmada.send("PUT", &format!("{path}/case-{number}?dryRun=All"), &object)
        }
    };
    compare(case, &answer, &place);
}

fn compare(case: &Case, answer: &Value, place: &str) {
    let message = answer["message"].as_str().unwrap_or_default();
    match (&case.becomes, &case.denied, &case.invalid) {
        (Some(expected), ..) => {
            assert_ne!(answer["kind"], "Status", "{place}: {message}");
            assert_part(&without_ids(answer), expected, place);
        }
        (_, Some(denied), _) => {
            assert_eq!(words(message.split_once("request: ").unwrap_or_default().1), words(denied), "{place}")
        }
        (_, _, Some(invalid)) => {
            assert_eq!(answer["reason"], "Invalid", "{place}: {message}");
            for problem in invalid {
                assert!(message.contains(problem.as_str()), "{place}: {message}");
            }
        }
        _ => panic!("{place}: nothing is expected"),
    }
}

/// Go prints the fields of a struct in its own order: the words are compared, not where they stand.
fn words(message: &str) -> Vec<&str> {
    let mut words: Vec<&str> =
        message.split(|c: char| c.is_whitespace() || "{}[],:\"".contains(c)).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words
}

/// Permanent ids are random; the tables know them by one name.
fn without_ids(object: &Value) -> Value {
    let mut object = object.clone();
    let mut ids = Vec::new();
    for (key, id) in object["metadata"]["labels"].as_object_mut().into_iter().flatten() {
        if key.ends_with("/permanent-id") && id.as_str().is_some_and(|id| id.len() == 36) {
            ids.push(id.as_str().unwrap_or_default().to_owned());
        }
    }
    let mut text = object.take().to_string();
    for id in ids {
        text = text.replace(&id, "the-id");
    }
    serde_json::from_str(&text).expect("still JSON")
}

struct Karmada {
    folder: PathBuf,
    server: String,
}

impl Karmada {
    fn start() -> Option<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from)?;
        let programs = std::env::var_os("FLOTILLA_KUBE_BIN").map_or(home.join(".cache/flotilla/bin"), PathBuf::from);
        if let Some(missing) = PROGRAMS.iter().find(|program| !programs.join(program).is_file()) {
            test_skip::skip(format_args!("{missing} is not in {}; see tools/kube/README.md", programs.display()));
            return None;
        }
        let folder = std::env::temp_dir().join(format!("flotilla-karmada-{}", std::process::id()));
        // Made first, so that what the script started is ended even when it fails half-way.
        let mut karmada = Self { folder: folder.clone(), server: String::new() };
        let up = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kube/karmada/up");
        let started = Command::new(up).arg(&folder).output().expect("the script runs");
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let kubeconfig = std::fs::read_to_string(folder.join("kubeconfig")).expect("a kubeconfig");
        let kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).expect("YAML");
        karmada.server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().expect("an address").to_owned();
        Some(karmada)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let file = |name: &str| self.folder.join(name);
        let mut curl = Command::new("curl")
            .args(["--silent", "--show-error", "--request", method, "--data-binary", "@-"])
            .args(["--header", "Content-Type: application/json"])
            .arg("--cacert")
            .arg(file("ca.crt"))
            .arg("--cert")
            .arg(file("admin.crt"))
            .arg("--key")
            .arg(file("admin.key"))
            .arg(format!("{}{path}", self.server))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("curl runs");
        let mut input = curl.stdin.take().expect("a pipe");
        input.write_all(body.to_string().as_bytes()).expect("curl reads");
        drop(input);
        let output = curl.wait_with_output().expect("curl ends");
        serde_json::from_slice(&output.stdout).expect("the server answers in JSON")
    }
}

impl Drop for Karmada {
    fn drop(&mut self) {
        let pids = std::fs::read_to_string(self.folder.join("pids")).unwrap_or_default();
        for pid in pids.lines().filter_map(|line| line.split(' ').nth(1)) {
            // A server whose etcd has ended does not end when it is asked to. One that has ended already is no fault.
            let _ = Command::new("kill").args(["-KILL", pid]).status();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
