//! Renders the files of a private containerd: configuration, network, registries. Pure.

use std::path::{Path, PathBuf};

use serde_json::json;

/// The sandbox image, built locally and never pulled.
pub(crate) const PAUSE_IMAGE: &str = "flotilla.local/pause:1";

/// The paths of one containerd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerdPaths {
    pub directory: PathBuf,
    pub socket: PathBuf,
    pub config: PathBuf,
    pub log: PathBuf,
    pub pid: PathBuf,
    pub bridge: String,
    pub cgroup: String,
}

/// Socket addresses are limited in length; containerd adds a few characters for a second one.
const SOCKET_PATH_MAX: usize = 100;

impl ContainerdPaths {
    pub fn of(directory: &Path) -> Self {
        let tag = tag(directory);
        let socket = directory.join("containerd.sock");
        let is_short = socket.as_os_str().len() <= SOCKET_PATH_MAX;
        Self {
            socket: if is_short { socket } else { PathBuf::from(format!("/run/flotilla-{tag}.sock")) },
            config: directory.join("config.toml"),
            log: directory.join("containerd.log"),
            pid: directory.join("containerd.pid"),
            bridge: format!("fl{tag}"),
            cgroup: format!("/flotilla-{tag}"),
            directory: directory.to_owned(),
        }
    }
}

/// Eight characters unique per directory; interface names have at most fifteen.
fn tag(directory: &Path) -> String {
    let bytes = directory.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// The configuration file of containerd.
pub(crate) fn config(paths: &ContainerdPaths, snapshotter: &str, network_programs: &Path) -> String {
    let at = |name: &str| quoted(&paths.directory.join(name));
    let cri = "plugins.\"io.containerd.grpc.v1.cri\"";
    format!(
        r#"version = 2
root = {root}
state = {state}
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt",
]

[grpc]
  address = {socket}

[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  netns_mounts_under_state_dir = true

[{cri}.containerd]
  snapshotter = "{snapshotter}"
  default_runtime_name = "runc"

[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = {runc}

[{cri}.cni]
  bin_dir = {network_programs}
  conf_dir = {network}

[{cri}.registry]
  config_path = {registries}
"#,
        root = at("root"),
        state = at("state"),
        runc = at("state/runc"),
        socket = quoted(&paths.socket),
        network_programs = quoted(network_programs),
        network = at("network"),
        registries = at("registries"),
    )
}

fn quoted(path: &Path) -> String {
    // JSON string quoting is valid in TOML.
    serde_json::Value::from(path.display().to_string()).to_string()
}

/// A bridge of this containerd alone, with addresses from the pod CIDR. Creates no packet filter rules.
pub(crate) fn network(paths: &ContainerdPaths, pod_cidr: &str) -> String {
    let plugins = json!([{
        "type": "bridge", "bridge": paths.bridge, "isGateway": true, "ipMasq": false, "hairpinMode": true,
        "ipam": {"type": "host-local", "dataDir": paths.directory.join("addresses"),
            "ranges": [[{"subnet": pod_cidr}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }]);
    json!({"cniVersion": "0.4.0", "name": paths.bridge, "plugins": plugins}).to_string()
}

/// Renders the `hosts.toml` of a registry.
pub(crate) fn registry(url: &str) -> String {
    format!("server = \"{url}\"\n\n[host.\"{url}\"]\n  capabilities = [\"pull\", \"resolve\"]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_directories_share_nothing() {
        let (one, two) = (ContainerdPaths::of(Path::new("/a/one")), ContainerdPaths::of(Path::new("/a/two")));
        assert_ne!((&one.bridge, &one.cgroup, &one.socket), (&two.bridge, &two.cgroup, &two.socket));
        assert!(one.bridge.len() <= 15, "an interface's name has at most fifteen characters");
        let long = ContainerdPaths::of(Path::new(&format!("/{}", "x".repeat(120))));
        assert!(long.socket.as_os_str().len() <= SOCKET_PATH_MAX);
    }

    #[test]
    fn everything_is_below_the_directory() {
        let paths = ContainerdPaths::of(Path::new("/a \"b\""));
        let config = config(&paths, "overlayfs", Path::new("/usr/lib/cni"));
        assert!(config.contains(r#"root = "/a \"b\"/root""#), "{config}");
        assert!(config.contains(r#"state = "/a \"b\"/state""#), "{config}");
        let network: serde_json::Value = serde_json::from_str(&network(&paths, "10.1.0.0/24")).expect("JSON");
        assert_eq!(network["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.1.0.0/24");
        assert_eq!(network["plugins"][0]["ipMasq"], false);
    }
}
