//! Demos of custom images, and of programs reached on one port per member.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::demo::placement::{policy, ready_replicas};
use crate::demo::stage::{CROSSING, DemoContext};
use crate::expose::{Exposure, PodChoice};
use crate::hint::Hint;
use crate::ports::Ports;

const PAGE_PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Port of the first member; the others follow.
const PROMETHEUS_PORT: u16 = 9091;
const FLASK_PORT: u16 = 5001;

/// Prints where the pages come from if no containers run.
fn explain_simulation(stage: &DemoContext<'_>, name: &str) -> anyhow::Result<bool> {
    if stage.is_simulated() {
        stage.say(format!("pods are simulated: the page comes from the simulation, not from {name}"))?;
    }
    Ok(stage.is_simulated())
}

fn busybox() -> anyhow::Result<&'static Path> {
    find(&["/bin/busybox", "/usr/bin/busybox"])
        .context("the demo image is built from a static busybox: `apt-get install busybox-static`")
}

/// Builds and distributes the image of a small web server on port 80, and returns its name.
pub async fn web(stage: &DemoContext<'_>) -> anyhow::Result<String> {
    stage.say("a small web server replaces nginx, so that nothing has to be downloaded")?;
    let mut recipe = Recipe::new(stage, "web")?;
    recipe.program(busybox()?).await?;
    recipe.file("/www/index.html", "Hello from a container\n")?;
    recipe.command(&["/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"]);
    let image = "flotilla/web:demo";
    distribute(stage, &recipe, image).await?;
    Ok(image.to_owned())
}

/// A custom image in every member, without a registry they would pull from.
pub async fn flask(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    let image = "docker.io/flotilla/flask:demo";
    if !explain_simulation(stage, "Flask")? {
        let busybox = busybox()?;
        stage.say("a small web server replaces Flask, so that nothing has to be downloaded")?;
        let mut recipe = Recipe::new(stage, "flask")?;
        recipe.program(busybox).await?;
        recipe.file("/www/index.html", "Hello from an image of your own\n")?;
        recipe.command(&["/bin/busybox", "httpd", "-f", "-p", "5000", "-h", "/www"]);
        distribute(stage, &recipe, image).await?;
    }
    serve_everywhere(stage, "flask", image, 5000, FLASK_PORT).await
}

pub async fn prometheus(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    if explain_simulation(stage, "Prometheus")? {
        return serve_everywhere(stage, "prometheus", "prom/prometheus:latest", 9090, PROMETHEUS_PORT).await;
    }
    let Some(program) = find(&["/usr/bin/prometheus", "/usr/local/bin/prometheus"]) else {
        let registry = stage.bed.spec.registry_port.context("prometheus needs the registry of the testbed")?;
        let image = format!("localhost:{registry}/prom/prometheus:latest");
        stage
            .say(format!("no Prometheus is installed here, so {image} must be in the registry (see image preload)"))?;
        return serve_everywhere(stage, "prometheus", &image, 9090, PROMETHEUS_PORT).await;
    };
    let mut recipe = Recipe::new(stage, "prometheus")?;
    recipe.program(program).await?;
    recipe.file("/etc/prometheus.yml", "global: {scrape_interval: 15s}\nscrape_configs: []\n")?;
    recipe.file("/data/.keep", "")?;
    let path = program.display().to_string();
    recipe.command(&[&path, "--config.file=/etc/prometheus.yml", "--storage.tsdb.path=/data"]);
    let image = "docker.io/flotilla/prometheus:demo";
    distribute(stage, &recipe, image).await?;
    serve_everywhere(stage, "prometheus", image, 9090, PROMETHEUS_PORT).await
}

fn find(paths: &[&'static str]) -> Option<&'static Path> {
    paths.iter().map(|path| Path::new(*path)).find(|path| path.is_file())
}

/// A directory an image is built from, with nothing in it that must be fetched.
struct Recipe {
    directory: PathBuf,
    lines: Vec<String>,
}

impl Recipe {
    /// The directory stays, so that the printed command can be run again.
    fn new(stage: &DemoContext<'_>, name: &str) -> anyhow::Result<Self> {
        let directory = stage.bed.place.directory().join("images").join(name);
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        Ok(Self { directory, lines: vec!["FROM scratch".to_owned()] })
    }

    /// A program of this host with the libraries it needs, at their own places.
    async fn program(&mut self, path: &Path) -> anyhow::Result<()> {
        let output = tokio::process::Command::new("ldd").arg(path).output().await;
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
        for file in std::iter::once(path).chain(libraries) {
            let content = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            self.put(&file.display().to_string(), &content, 0o755)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &str, text: &str) -> anyhow::Result<()> {
        self.put(path, text.as_bytes(), 0o644)
    }

    fn put(&mut self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let name = path.trim_start_matches('/').replace('/', "_");
        let file = self.directory.join(&name);
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))?;
        self.lines.push(format!("COPY {name} {path}"));
        Ok(())
    }

    fn command(&mut self, words: &[&str]) {
        self.lines.push(format!("CMD {}", serde_json::json!(words)));
    }
}

/// Build, save, push, import: as `flotilla image distribute` does.
async fn distribute(stage: &DemoContext<'_>, recipe: &Recipe, image: &str) -> anyhow::Result<()> {
    let dockerfile = recipe.lines.join("\n") + "\n";
    std::fs::write(recipe.directory.join("Dockerfile"), &dockerfile).context("cannot write a Dockerfile")?;
    stage.say(format!("the Dockerfile:\n{}", dockerfile.trim_end()))?;
    let place = &stage.bed.place;
    let push = stage.bed.spec.registry_port.is_some();
    stage.show_own(&Hint::Distribute { context: &recipe.directory, image, push })?;
    let mut command = tokio::process::Command::new(&stage.bed.program);
    command.args(["image", "distribute"]).arg(&recipe.directory).args(["-t", image]);
    if !push {
        command.arg("--no-push");
    }
    command.arg("--home").arg(place.home()).args(["--name", place.name()]).kill_on_drop(true);
    let output = command.output().await.context("cannot distribute the image")?;
    stage.console().print(&String::from_utf8_lossy(&output.stdout))?;
    if !output.status.success() {
        bail!("cannot distribute the image: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// One replica in every member, each reached on a port of its own.
async fn serve_everywhere(
    stage: &mut DemoContext<'_>,
    name: &str,
    image: &str,
    port: u16,
    first_port: u16,
) -> anyhow::Result<()> {
    let members = stage.members();
    let workload = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: '{image}', imagePullPolicy: IfNotPresent, ports: [{{containerPort: {port}}}]}}]
"
    );
    let placement = format!("{{clusterAffinity: {{clusterNames: [{}]}}}}", members.join(", "));
    let mut ports = Ports::new([]);
    stage.apply(&(workload + &policy(name, "", &placement))).await?;
    for (member, usual) in members.iter().zip(first_port..) {
        // Another testbed may use the usual port.
        let listen = if ports.is_free(usual) { usual } else { ports.any()? };
        let client = stage.member(member)?;
        let what = format!("{member} runs it");
        stage.wait(&what, CROSSING * 3, async || ready_replicas(&client, name, 1).await).await?;
        let forward = format!("{name}-{member}");
        let pod = format!("app={name}");
        stage.show_own(&Hint::Expose { name: &forward, member, pod: &pod, ports: (listen, port) })?;
        let exposure = Exposure {
            name: forward.clone(),
            cluster: member.clone(),
            kubeconfig: stage.bed.place.member_config(member),
            namespace: "default".to_owned(),
            pod: PodChoice::Selector(pod),
            listen,
            bind: [127, 0, 0, 1].into(),
            port,
        };
        stage.bed.supervisor.expose(exposure).await?;
        stage.remember_exposure(&forward);
        stage.wait(&format!("http://127.0.0.1:{listen}/ answers"), PAGE_PATIENCE, async || fetch(listen).await).await?;
    }
    Ok(())
}

async fn fetch(port: u16) -> anyhow::Result<Result<(), String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    let first = text.lines().next().unwrap_or_default();
    Ok(match first.split(' ').nth(1) {
        Some("200" | "301" | "302") => Ok(()),
        _ => Err(format!("it returned {first:?}")),
    })
}
