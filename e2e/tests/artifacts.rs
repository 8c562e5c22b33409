//! The files of a release: image, tarball, chart repository, krew manifest and workflows.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::fleet::text;
use e2e::flotilla::{binary, programs};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    output
}

/// Runs a tool of a tree with an own umask.
fn tool(tree: &Path, name: &str, umask: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(tree.join("tools").join(name));
    command
}

/// Builds an image that contains `content`, with an own umask.
fn build_image(content: &Path, archive: &Path, umask: &str) -> String {
    let mut command = tool(&root(), "image", umask);
    command.arg(content).arg(archive);
    digest_in(&run(command.env("FLOTILLA_BUILDER", binary()).env("FLOTILLA_COMMIT", "0123456789ab")))
}

fn digest_in(output: &Output) -> String {
    let line = text(output);
    let digest = line.split('@').nth(1).and_then(|rest| rest.split_whitespace().next());
    digest.unwrap_or_else(|| panic!("no digest in {line}")).to_owned()
}

/// Returns a file of an archive.
fn member_of(archive: &Path, name: &str) -> Vec<u8> {
    run(Command::new("tar").arg("-xOf").arg(archive).arg(name)).stdout
}

fn blob(archive: &Path, digest: &Value) -> Value {
    let digest = digest.as_str().expect("a digest").replace(':', "/");
    serde_json::from_slice(&member_of(archive, &format!("blobs/{digest}"))).expect("JSON")
}

#[test]
fn the_same_program_gives_the_same_image_which_runs_without_root() {
    let directory = tempfile::tempdir().expect("a directory");
    // Packing does not depend on what the program does; a small one is packed sooner.
    let content = directory.path().join("program");
    std::fs::copy("/bin/ls", &content).expect("copied");
    let archives = ["one.tar", "two.tar"].map(|name| directory.path().join(name));
    let first = build_image(&content, &archives[0], "022");
    std::fs::set_permissions(&content, std::fs::Permissions::from_mode(0o700)).expect("changed");
    let second = build_image(&content, &archives[1], "077");
    assert_eq!(first, second);
    assert_eq!(std::fs::read(&archives[0]).expect("an archive"), std::fs::read(&archives[1]).expect("an archive"));

    let index: Value = serde_json::from_slice(&member_of(&archives[0], "index.json")).expect("JSON");
    assert_eq!(index["manifests"][0]["digest"], first.as_str());
    let manifest = blob(&archives[0], &index["manifests"][0]["digest"]);
    let config = blob(&archives[0], &manifest["config"]["digest"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/bin/flotilla"]));
    assert_eq!(config["config"]["Labels"]["org.opencontainers.image.revision"], "0123456789ab");

    let layer = directory.path().join("layer.tar.gz");
    let mut owners = String::new();
    for part in manifest["layers"].as_array().expect("layers") {
        let digest = part["digest"].as_str().expect("a digest").replace(':', "/");
        std::fs::write(&layer, member_of(&archives[0], &format!("blobs/{digest}"))).expect("written");
        owners += &text(&run(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(&layer)));
    }
    let has = |name: &str, start: &str| owners.lines().any(|line| line.ends_with(name) && line.starts_with(start));
    assert!(has(" usr/bin/flotilla", "-rwxr-xr-x 0/0"), "{owners}");
    assert!(has(" data/", "drwxr-xr-x 65532/65532"), "{owners}");
    assert!(!owners.contains("bin/sh"), "no shell: {owners}");
}

/// Changes what must not be in an image: time, and owner where this is allowed.
fn make_different(path: &Path) {
    run(Command::new("find").arg(path).args(["-exec", "touch", "-h", "-d", "2001-02-03", "{}", "+"]));
    let _ = Command::new("chown").args(["-Rh", "1234:5678"]).arg(path).output().expect("chown runs");
}

/// The program as released, without symbols: a tarball of an unstripped debug build takes a minute.
fn stripped(directory: &Path) -> PathBuf {
    std::fs::create_dir_all(directory).expect("made");
    let program = directory.join("flotilla");
    run(Command::new("strip").arg("-o").arg(&program).arg(binary()));
    program
}

#[test]
fn another_checkout_of_the_same_files_gives_the_same_image() {
    let directory = tempfile::tempdir().expect("a directory");
    let programs = ["a", "longer/path/b"].map(|name| stripped(&directory.path().join(name)));
    make_different(programs[1].parent().expect("a folder"));
    let mut built = Vec::new();
    for (program, umask, zone) in [(&programs[0], "022", "UTC"), (&programs[1], "077", "Asia/Kathmandu")] {
        let tree = program.with_file_name("tree");
        std::fs::create_dir_all(tree.join("tools")).expect("made");
        for file in ["tools/image", "Cargo.toml"] {
            std::fs::copy(root().join(file), tree.join(file)).expect("copied");
        }
        let archive = program.with_file_name("image.tar");
        let mut command = tool(&tree, "image", umask);
        command.arg(program).arg(&archive).env("FLOTILLA_BUILDER", binary()).env("FLOTILLA_COMMIT", "0123456789ab");
        command.env("TZ", zone).env("TMPDIR", program.parent().expect("a folder"));
        // Compression is deterministic (the other test has it), and takes long for a program this large.
        let digest = digest_in(&run(command.env("FLOTILLA_IMAGE_FLAGS", "--uncompressed")));
        built.push((digest, text(&run(Command::new("sha256sum").stdin(Stdio::null()).arg(&archive)))));
    }
    assert_eq!(built[0].0, built[1].0);
    assert_eq!(built[0].1.split(' ').next(), built[1].1.split(' ').next(), "the archives differ");
}

#[test]
fn an_image_does_not_depend_on_order_time_and_owner_of_its_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let names: Vec<String> = (0..200).map(|number| format!("f{:03}", (number * 73) % 200)).collect();
    let backwards: Vec<String> = names.iter().rev().cloned().collect();
    let mut archives = Vec::new();
    for (context, names) in [("one", names), ("two", backwards)] {
        let context = directory.path().join(context);
        std::fs::create_dir_all(context.join("root")).expect("made");
        for name in &names {
            std::fs::write(context.join("root").join(name), name).expect("written");
        }
        let link = context.join("root/link");
        std::os::unix::fs::symlink("f000", link).expect("linked");
        std::fs::write(context.join("Dockerfile"), "FROM scratch\nCOPY root /\nCOPY --chown=1:2 root /own\n")
            .expect("written");
        if archives.len() == 1 {
            make_different(&context.join("root"));
        }
        let archive = directory.path().join(format!("{}.tar", archives.len()));
        run(Command::new(binary()).args(["image", "build"]).arg(&context).args(["-t", "app:v1", "-o"]).arg(&archive));
        archives.push(std::fs::read(&archive).expect("an archive"));
    }
    assert!(archives[0] == archives[1], "the archives differ");
}

const IMAGE: &str = "registry.example.net/team/flotilla";
const DOWNLOADS: &str = "https://downloads.example.net/flotilla/releases/download";

#[test]
fn a_release_has_everything_and_its_checksums() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = stripped(directory.path());
    let image = directory.path().join("image.tar");
    let digest = build_image(Path::new("/bin/ls"), &image, "022");
    let [out, again] = ["release", "again"].map(|name| directory.path().join(name));
    for (out, umask) in [(&out, "022"), (&again, "077")] {
        let mut pack = tool(&root(), "dist", umask);
        pack.arg(&program).arg(out).args(["--image", IMAGE, "--base-url", DOWNLOADS, "--image-archive"]).arg(&image);
        run(pack.env("FLOTILLA_GZIP", "-1"));
    }
    let sums = |out: &Path| std::fs::read_to_string(out.join("SHA256SUMS")).expect("checksums");
    assert_eq!(sums(&out), sums(&again), "the same input gives the same files");

    let names: Vec<String> =
        std::fs::read_dir(&out).expect("files").flatten().map(|e| e.file_name().display().to_string()).collect();
    let tarball = names.iter().find(|name| name.ends_with(".tar.gz")).expect("a tarball");
    let tarball = out.join(tarball);
    let listed = text(&run(Command::new("tar").arg("-tzf").arg(&tarball)));
    for file in [
        "/flotilla\n",
        "/karmadactl\n",
        "/completions/flotilla.bash\n",
        "/completions/flotilla.zsh\n",
        "/completions/flotilla.fish\n",
        "/man/man1/flotilla-up.1\n",
        "/THIRD-PARTY-LICENSES.txt\n",
        "/sbom.cdx.json\n",
        "/docs/README.md\n",
        "/deploy/systemd/flotilla.service\n",
        "/deploy/charts/flotilla/Chart.yaml\n",
        "/LICENSE\n",
    ] {
        assert!(listed.contains(file), "{file} is missing: {listed}");
    }
    let name = tarball.file_name().expect("a name").display().to_string();
    let name = name.trim_end_matches(".tar.gz");
    let read = |file: &str| {
        let output = run(Command::new("tar").arg("-xzOf").arg(&tarball).arg(format!("{name}/{file}")));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(read("THIRD-PARTY-LICENSES.txt").contains("\ntokio "));
    let bill: Value = serde_json::from_str(&read("sbom.cdx.json")).expect("JSON");
    assert!(bill["components"].as_array().is_some_and(|list| list.len() > 100));
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out));

    let compose = read("deploy/compose/compose.yaml");
    let image = format!("{IMAGE}:v{}@{digest}", env!("CARGO_PKG_VERSION"));
    assert!(compose.contains(&format!("image: ${{FLOTILLA_IMAGE:-{image}}}\n")), "{compose}");
    check_charts(&out.join("charts"), &digest);
    let krew = std::fs::read_to_string(out.join("flotilla.krew.yaml")).expect("a manifest");
    let krew: Value = serde_saphyr::from_str(&krew).expect("YAML");
    let sum = text(&run(Command::new("sha256sum").arg(&tarball)));
    let platform = &krew["spec"]["platforms"][0];
    assert_eq!(platform["sha256"].as_str(), sum.split_whitespace().next());
    assert_eq!(platform["uri"], format!("{DOWNLOADS}/v{}/{name}.tar.gz", env!("CARGO_PKG_VERSION")));
    assert_eq!(krew["spec"]["homepage"], "https://downloads.example.net/flotilla");
    assert_eq!(krew["spec"]["version"], format!("v{}", env!("CARGO_PKG_VERSION")));
}

/// Checks that the index of the chart repository describes its packages, and that these name the image of the release.
fn check_charts(folder: &Path, digest: &str) {
    let index = std::fs::read_to_string(folder.join("index.yaml")).expect("an index");
    let index: Value = serde_saphyr::from_str(&index).expect("YAML");
    let entries = index["entries"].as_object().expect("entries");
    for chart in ["flotilla", "flotilla-agent", "flotilla-manager"] {
        assert!(entries.contains_key(chart), "{chart}: {index}");
    }
    for (chart, versions) in entries {
        let version = &versions[0];
        let package = folder.join(version["urls"][0].as_str().expect("a file"));
        let sum = text(&run(Command::new("sha256sum").arg(&package)));
        assert_eq!(version["digest"].as_str(), sum.split_whitespace().next(), "{chart}");
        assert_eq!(version["version"], env!("CARGO_PKG_VERSION"), "{chart}: all parts of a release have one version");
        assert_eq!(version["appVersion"], env!("CARGO_PKG_VERSION"), "{chart}");
        let read = |file: &str| {
            let inside = run(Command::new("tar").arg("-xzOf").arg(&package).arg(format!("{chart}/{file}")));
            String::from_utf8_lossy(&inside.stdout).into_owned()
        };
        let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("YAML");
        assert_eq!(values["image"]["repository"], IMAGE, "{chart}");
        assert_eq!(values["image"]["digest"], digest, "{chart}");
        assert!(read("README.md").contains(IMAGE), "{chart}: the documented default is that of the package");
        let inside: Value = serde_saphyr::from_str(&read("Chart.yaml")).expect("YAML");
        for field in ["name", "version", "appVersion", "description", "kubeVersion"] {
            assert_eq!(version[field], inside[field], "{chart}: {field}");
        }
    }
}

#[test]
fn workflows_are_valid() {
    let linter = programs().join("actionlint");
    if !linter.exists() {
        test_skip::skip(format_args!("{} is missing; `make test` builds it", linter.display()));
        return;
    }
    // Other linters on this machine must not change the result.
    run(Command::new(&linter).args(["-shellcheck=", "-pyflakes="]).current_dir(root()));
    let broken = tempfile::tempdir().expect("a directory");
    let file = broken.path().join("broken.yml");
    std::fs::write(&file, "on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: 'echo ${{ nonsense.x }}'}]}}\n")
        .expect("written");
    let refused = Command::new(&linter).arg(&file).output().expect("the linter runs");
    assert!(!refused.status.success(), "an invalid workflow must be refused");
}

#[test]
fn alerts_and_dashboards_use_metrics_that_exist() {
    let monitoring = root().join("deploy/monitoring");
    let rules = monitoring.join("rules.yaml");
    match Command::new("promtool").args(["check", "rules"]).arg(&rules).output() {
        Ok(checked) => assert!(checked.status.success(), "{}", text(&checked)),
        Err(_) => test_skip::skip(format_args!("promtool is not installed, so the alerts are not checked by it")),
    }
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rules: Value = serde_saphyr::from_str(&read(&rules)).expect("YAML");
    let dashboards: Vec<Value> = ["flotilla", "flotilla-members", "flotilla-manager"]
        .map(|name| serde_json::from_str(&read(&monitoring.join(format!("{name}.json")))).expect("JSON"))
        .into();
    let alerts = rules["groups"][0]["rules"].as_array().expect("rules").iter().map(|rule| &rule["expr"]);
    let panels = dashboards.iter().flat_map(|dashboard| dashboard["panels"].as_array().expect("panels"));
    let queries =
        panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten()).map(|target| &target["expr"]);
    let reference = read(&root().join("docs/reference/metrics.md"));
    let mut seen = 0;
    for query in alerts.chain(queries).filter_map(Value::as_str) {
        // Labels and strings are not metrics.
        let plain: String = query.split('{').map(|part| part.rsplit('}').next().unwrap_or(part)).collect();
        let words = plain.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.contains('_') && !word.ends_with("_over_time")) {
            let name = word.trim_end_matches("_bucket");
            if ["histogram_quantile", "schedule_step", "member_cluster"].contains(&name) {
                continue;
            }
            seen += 1;
            assert!(
                reference.contains(&format!("`{name}`")),
                "{name} in {query:?} is not in docs/reference/metrics.md"
            );
        }
    }
    assert!(seen > 20, "{seen} metrics are used");
}
