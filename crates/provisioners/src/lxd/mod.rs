//! Machines as system containers of LXD or Incus, reached through proxy devices.

mod api;
mod image;
pub mod microk8s;
mod settings;
mod shared;
mod subnet;
mod tar;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, OnceCell};

use self::api::{Api, InstanceFile};
use self::image::Ingredients;
use self::settings::{FORWARD_PREFIX, MACHINE, MARK, REVERSE_PREFIX};
use self::shared::{Shared, doing};
use crate::machine::{Condition, Error, Forward, Machine, Output, Provisioner};

pub use self::api::DaemonError;
pub use self::settings::{ImageSource, Limits, LxdSettings};

/// The script that the init process of a machine keeps running.
const RUN: &str = "/etc/flotilla/run";
/// Written by the init process while the command keeps failing.
const FAILING: &str = "/run/flotilla/failing";
const UNIT: &str = "/etc/systemd/system/flotilla-machine.service";
/// Grace period for the command of a machine before it is killed.
const STOP_SECONDS: u64 = 15;

/// The log of a machine's command inside the machine, written by `init.sh`.
pub const MACHINE_LOG: &str = "/var/log/flotilla.log";

/// Returns the problem if no daemon answers on this host.
pub fn missing_daemon() -> Option<DaemonError> {
    api::find_socket(None).err()
}

pub struct Lxd {
    api: Api,
    settings: LxdSettings,
    /// Serializes creation and removal of shared resources.
    sharing: Mutex<()>,
    image: OnceCell<(Ingredients, String)>,
    serial: std::sync::atomic::AtomicU64,
}

impl Lxd {
    /// Fails if no daemon answers, with instructions to install or start one.
    pub async fn connect(settings: LxdSettings) -> Result<Self, Error> {
        let socket = api::find_socket(settings.socket.as_deref());
        let socket = socket.map_err(|error| Error::Host { problem: error.to_string(), remedy: error.remedy() })?;
        let api = Api::new(socket);
        api.get("/1.0").await.map_err(doing("querying the daemon"))?;
        Ok(Self { api, settings, sharing: Mutex::new(()), image: OnceCell::new(), serial: 0.into() })
    }

    /// Returns the name and version of the daemon.
    pub async fn describe(&self) -> Result<String, Error> {
        let server = self.api.get("/1.0").await.map_err(doing("querying the daemon"))?;
        let text = |field: &str| server["environment"][field].as_str().unwrap_or("?").to_owned();
        Ok(format!("{} {} at {}", text("server"), text("server_version"), self.api.socket().display()))
    }

    /// Returns the address of a running machine on its bridge, once it has one.
    pub async fn address(&self, machine: &str) -> Result<Option<String>, Error> {
        let state =
            self.api.find(&format!("{}/state", self.path(machine))).await.map_err(doing("asking for its state"))?;
        let state = state.ok_or_else(|| Error::NoMachine(machine.to_owned()))?;
        let addresses = state["network"]["eth0"]["addresses"].as_array().cloned().unwrap_or_default();
        let inet = addresses.iter().find(|address| address["family"] == "inet");
        Ok(inet.and_then(|address| address["address"].as_str()).map(str::to_owned))
    }

    fn path(&self, machine: &str) -> String {
        format!("/1.0/instances/{}", self.settings.instance(machine))
    }

    fn shared(&self) -> Shared<'_> {
        Shared { api: &self.api, settings: &self.settings }
    }

    /// Returns the instance if it belongs to this testbed. Foreign instances are never touched.
    async fn find(&self, machine: &str) -> Result<Option<Value>, Error> {
        let found = self.api.find(&self.path(machine)).await.map_err(doing("looking for the machine"))?;
        match found {
            Some(instance) if instance["config"][MARK] != self.settings.testbed.as_str() => Err(Error::Failed {
                doing: format!("looking for the machine {machine}"),
                why: format!(
                    "there is a container {0} that this testbed did not make; rename it (lxc move {0} OTHER) or use another \
                     --name",
                    self.settings.instance(machine)
                ),
            }),
            found => Ok(found),
        }
    }

    async fn existing(&self, machine: &str) -> Result<Value, Error> {
        self.find(machine).await?.ok_or_else(|| Error::NoMachine(machine.to_owned()))
    }

    async fn ingredients(&self) -> Result<(Ingredients, String), Error> {
        let binary = self.settings.binary.clone();
        let gather = || async move {
            let gathered = tokio::task::spawn_blocking(move || {
                let ingredients = Ingredients::gather(&binary)?;
                let key = ingredients.key().map_err(|error| Error::Failed {
                    doing: "reading the files of the image".to_owned(),
                    why: error.to_string(),
                })?;
                Ok((ingredients, key))
            });
            gathered.await.unwrap_or_else(|error| {
                Err(Error::Failed { doing: "building the image".to_owned(), why: error.to_string() })
            })
        };
        self.image.get_or_try_init(gather).await.cloned()
    }

    async fn make_instance(&self, machine: &Machine) -> Result<(), Error> {
        let _one_at_a_time = self.sharing.lock().await;
        let shared = self.shared();
        shared.ensure().await?;
        let source = shared.image_source(self.ingredients()).await?;
        let instance = json!({
            "name": self.settings.instance(&machine.name), "type": "container", "source": source,
            "profiles": [self.settings.profile()], "config": {MARK: self.settings.testbed},
        });
        let made = self.api.change(Method::POST, "/1.0/instances", instance).await;
        made.map(|_| ()).map_err(doing(&format!("creating the container of {}", machine.name)))
    }

    /// Writes the command, files and ports of a machine.
    async fn furnish(&self, machine: &Machine) -> Result<(), Error> {
        for (from, to) in &machine.files {
            self.push_file(&machine.name, from, to).await?;
        }
        let own = self.settings.image == ImageSource::Own;
        if !own && !machine.command.is_empty() {
            self.push_file(&machine.name, &self.settings.binary, image::BINARY).await?;
            self.write(&machine.name, UNIT, SYSTEMD_UNIT.into(), 0o644).await?;
            let wanted = "/etc/systemd/system/multi-user.target.wants/flotilla-machine.service";
            self.put(&machine.name, wanted, InstanceFile::Link(UNIT.to_owned())).await?;
        }
        if !machine.command.is_empty() {
            let script = run_script(machine, &self.settings.binary);
            self.write(&machine.name, RUN, script.into_bytes(), 0o755).await?;
        }
        let wanted: BTreeMap<String, Value> = machine
            .forwards
            .iter()
            .map(|forward| {
                (format!("{FORWARD_PREFIX}{}", forward.name), proxy(forward.listen, &forward.target, "host"))
            })
            .collect();
        let mark = serde_json::to_string(machine).unwrap_or_default();
        self.edit(&machine.name, "setting up the machine", |instance| {
            let devices = object_at(instance, "devices");
            // Forwards added later are managed by their callers.
            for (name, device) in wanted {
                devices.insert(name, device);
            }
            object_at(instance, "config").insert(MACHINE.to_owned(), json!(mark));
        })
        .await
    }

    /// Reads the instance, changes it, and writes it back if it differs.
    async fn edit(&self, machine: &str, what: &str, change: impl FnOnce(&mut Value)) -> Result<(), Error> {
        let before = self.existing(machine).await?;
        let mut after = before.clone();
        change(&mut after);
        if before == after {
            return Ok(());
        }
        let writable = ["architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful"];
        let body: Map<String, Value> =
            writable.iter().filter_map(|field| Some(((*field).to_owned(), after.get(*field)?.clone()))).collect();
        let put = self.api.change(Method::PUT, &self.path(machine), Value::Object(body)).await;
        put.map(|_| ()).map_err(doing(&format!("{what} ({machine})")))
    }

    async fn write(&self, machine: &str, path: &str, content: Vec<u8>, mode: u32) -> Result<(), Error> {
        self.put(machine, path, InstanceFile::File { content: Bytes::from(content), mode }).await
    }

    /// Creates missing parent directories; existing ones keep their modes.
    async fn put(&self, machine: &str, path: &str, entry: InstanceFile) -> Result<(), Error> {
        let failed = format!("writing {path} in {machine}");
        let url = |path: &str| format!("{}/files?path={}", self.path(machine), encoded(path));
        match self.api.push(&url(path), entry.clone()).await {
            Err(error) if error.is_missing() => {}
            result => return result.map_err(doing(&failed)),
        }
        // One directory at a time: the daemon creates no parents.
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
            let folder = url(&path[..at]);
            if self.api.read_file(&folder).await.map_err(doing(&failed))?.is_none() {
                self.api.push(&folder, InstanceFile::Folder).await.map_err(doing(&failed))?;
            }
        }
        self.api.push(&url(path), entry).await.map_err(doing(&failed))
    }

    async fn set_state(&self, machine: &str, state: Value, what: &str) -> Result<(), Error> {
        let path = format!("{}/state", self.path(machine));
        self.api.change(Method::PUT, &path, state).await.map(|_| ()).map_err(doing(&format!("{what} {machine}")))
    }

    /// Output is returned in files of the daemon, which are deleted after reading.
    async fn recorded(&self, output: &Value, stream: &str) -> Result<Vec<u8>, Error> {
        let Some(path) = output[stream].as_str() else { return Ok(Vec::new()) };
        let bytes = self.api.read_file(path).await.map_err(doing("reading the output of the command"))?;
        // A remaining log is deleted with the machine.
        let _ = self.api.delete(path).await;
        Ok(bytes.unwrap_or_default())
    }

    /// Provides input as a file, since recorded commands have no stdin.
    async fn with_input(
        &self,
        machine: &str,
        command: &[String],
        input: Vec<u8>,
    ) -> Result<(Vec<String>, String), Error> {
        let number = self.serial.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = format!("/run/flotilla/input-{}-{number}", std::process::id());
        self.write(machine, &file, input, 0o600).await?;
        let script = r#"exec "$@" <"$0""#.to_owned();
        let mut all = vec!["/bin/sh".to_owned(), "-c".to_owned(), script, file.clone()];
        all.extend_from_slice(command);
        Ok((all, file))
    }

    async fn remove_file(&self, machine: &str, path: &str) {
        // Remains are deleted with the machine.
        let _ = self.api.delete(&format!("{}/files?path={}", self.path(machine), encoded(path))).await;
    }
}

#[async_trait]
impl Provisioner for Lxd {
    fn name(&self) -> &'static str {
        "lxd"
    }

    async fn create(&self, machine: &Machine) -> Result<(), Error> {
        let found = self.find(&machine.name).await?;
        let recorded = found.as_ref().and_then(|instance| instance["config"][MACHINE].as_str());
        let recorded: Option<Machine> = recorded.and_then(|text| serde_json::from_str(text).ok());
        if recorded.as_ref() == Some(machine) {
            return Ok(());
        }
        let running = found.as_ref().is_some_and(|instance| instance["status"] == "Running");
        if found.is_none() {
            self.make_instance(machine).await?;
        }
        self.furnish(machine).await?;
        let same_command = recorded.is_some_and(|was| was.command == machine.command && was.env == machine.env);
        if running && !same_command {
            self.stop(&machine.name).await?;
            self.start(&machine.name).await?;
        }
        Ok(())
    }

    async fn start(&self, machine: &str) -> Result<(), Error> {
        if self.existing(machine).await?["status"] == "Running" {
            return Ok(());
        }
        self.set_state(machine, json!({"action": "start", "timeout": 60}), "starting").await
    }

    async fn stop(&self, machine: &str) -> Result<(), Error> {
        if self.existing(machine).await?["status"] == "Stopped" {
            return Ok(());
        }
        let gently = json!({"action": "stop", "timeout": STOP_SECONDS});
        if self.set_state(machine, gently, "stopping").await.is_ok() {
            return Ok(());
        }
        // It may have stopped in the meantime.
        if self.existing(machine).await?["status"] == "Stopped" {
            return Ok(());
        }
        self.set_state(machine, json!({"action": "stop", "force": true}), "stopping").await
    }

    async fn delete(&self, machine: &str) -> Result<(), Error> {
        let _one_at_a_time = self.sharing.lock().await;
        if let Some(instance) = self.find(machine).await? {
            if instance["status"] != "Stopped" {
                // Errors are ignored here; a failure shows at the deletion.
                let _ = self.set_state(machine, json!({"action": "stop", "force": true}), "stopping").await;
            }
            self.api
                .delete(&self.path(machine))
                .await
                .map_err(doing(&format!("removing the container of {machine}")))?;
        }
        self.shared().tidy().await
    }

    async fn condition(&self, machine: &str) -> Result<Condition, Error> {
        let Some(instance) = self.find(machine).await? else { return Ok(Condition::Missing) };
        match instance["status"].as_str() {
            Some("Running") => {}
            Some("Error") => return Ok(Condition::Failing),
            _ => return Ok(Condition::Stopped),
        }
        let failing = self.api.read_file(&format!("{}/files?path={FAILING}", self.path(machine))).await;
        let failing = failing.map_err(doing("checking its command"))?;
        Ok(if failing.is_some() { Condition::Failing } else { Condition::Running })
    }

    async fn exec(&self, machine: &str, command: &[String], stdin: Option<Vec<u8>>) -> Result<Output, Error> {
        self.existing(machine).await?;
        let (command, input) = match stdin {
            Some(input) => {
                let (command, file) = self.with_input(machine, command, input).await?;
                (command, Some(file))
            }
            None => (command.to_vec(), None),
        };
        let environment =
            json!({"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin", "HOME": "/root"});
        let request = json!({
            "command": command, "environment": environment, "record-output": true, "interactive": false,
            "wait-for-websocket": false,
        });
        let run = self.api.change(Method::POST, &format!("{}/exec", self.path(machine)), request).await;
        if let Some(file) = input {
            self.remove_file(machine, &file).await;
        }
        let done = run.map_err(doing(&format!("running {} in {machine}", command.join(" "))))?;
        let stdout = self.recorded(&done["output"], "1").await?;
        let stderr = self.recorded(&done["output"], "2").await?;
        Ok(Output { code: done["return"].as_i64().unwrap_or(-1) as i32, stdout, stderr })
    }

    async fn push_file(&self, machine: &str, from: &Path, to: &str) -> Result<(), Error> {
        let failed =
            |why: std::io::Error| Error::Failed { doing: format!("reading {}", from.display()), why: why.to_string() };
        let content = tokio::fs::read(from).await.map_err(failed)?;
        let mode = tokio::fs::metadata(from).await.map_err(failed)?.permissions().mode() & 0o777;
        self.write(machine, to, content, mode).await
    }

    async fn read_file(&self, machine: &str, path: &str) -> Result<Vec<u8>, Error> {
        self.existing(machine).await?;
        let url = format!("{}/files?path={}", self.path(machine), encoded(path));
        let doing_what = format!("reading {path} in {machine}");
        let found = self.api.read_file(&url).await.map_err(doing(&doing_what))?;
        found.ok_or_else(|| Error::Failed { doing: doing_what, why: "no such file".to_owned() })
    }

    async fn forward(&self, machine: &str, forward: &Forward) -> Result<(), Error> {
        let device = proxy(forward.listen, &forward.target, "host");
        let name = format!("{FORWARD_PREFIX}{}", forward.name);
        self.edit(machine, &format!("forwarding {}", forward.listen), |instance| {
            object_at(instance, "devices").insert(name, device);
        })
        .await
    }

    async fn unforward(&self, machine: &str, forward: &str) -> Result<(), Error> {
        let name = format!("{FORWARD_PREFIX}{forward}");
        self.edit(machine, "removing a forward", |instance| {
            object_at(instance, "devices").remove(&name);
        })
        .await
    }

    async fn reach_back(&self, machine: &str, back: &Forward) -> Result<(), Error> {
        let device = proxy(back.listen, &back.target, "instance");
        let name = format!("{REVERSE_PREFIX}{}", back.name);
        self.edit(machine, &format!("leading {} out", back.listen), |instance| {
            object_at(instance, "devices").insert(name, device);
        })
        .await
    }
}

/// Keeps the command running in images with systemd.
const SYSTEMD_UNIT: &str = "[Unit]\nDescription=The command of this machine\nAfter=network-online.target\n\n[Service]\n\
ExecStart=/etc/flotilla/run\nRestart=always\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n";

fn proxy(listen: SocketAddr, target: &str, side: &str) -> Value {
    json!({"type": "proxy", "bind": side, "listen": format!("tcp:{listen}"), "connect": format!("tcp:{target}")})
}

fn object_at<'a>(instance: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !instance[field].is_object() {
        instance[field] = json!({});
    }
    instance[field].as_object_mut().expect("set to an object above")
}

/// Renders environment and command as a script; our own binary is replaced by its path in the image.
fn run_script(machine: &Machine, binary: &Path) -> String {
    let mut script = "#!/bin/sh\n".to_owned();
    for (name, value) in &machine.env {
        script.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    let program = |word: &String| {
        if Path::new(word) == binary || word == "flotilla" { image::BINARY.to_owned() } else { word.clone() }
    };
    let mut words = machine.command.iter();
    let first = words.next().map(program);
    let words: Vec<String> = first.iter().chain(words).map(|word| quoted(word)).collect();
    script.push_str(&format!("exec {}\n", words.join(" ")));
    script
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Encodes a path as query value.
fn encoded(path: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    path.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted() {
        let machine = Machine {
            name: "m".into(),
            command: vec!["/host/flotilla".into(), "member".into(), "it's $HOME `x`".into()],
            env: BTreeMap::from([("A".to_owned(), "b c".to_owned())]),
            files: Vec::new(),
            forwards: Vec::new(),
        };
        let script = run_script(&machine, Path::new("/host/flotilla"));
        assert_eq!(script, "#!/bin/sh\nexport A='b c'\nexec '/usr/bin/flotilla' 'member' 'it'\\''s $HOME `x`'\n");
        let echo =
            Machine { command: vec!["printf".into(), "%s|".into(), "it's".into(), "$HOME `x`".into()], ..machine };
        let output =
            std::process::Command::new("sh").arg("-c").arg(run_script(&echo, Path::new("/none"))).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "it's|$HOME `x`|");
    }

    #[test]
    fn paths_are_encoded_as_one_query_value() {
        assert_eq!(encoded("/a b/c&d=é"), "/a%20b/c%26d%3D%C3%A9");
    }
}
