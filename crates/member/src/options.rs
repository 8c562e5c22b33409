//! The configuration of a member.

use std::net::SocketAddr;
use std::path::PathBuf;

use apiserver::documents::Version;

/// The runtime of pods.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "created once and consumed at once")]
pub enum Runtime {
    /// Nodes that only simulate pods.
    Simulated(simulated_nodes::SimulatedNodeSettings),
    /// One node with real containers, in a containerd of its own.
    Containerd(Containers),
}

#[derive(Clone, Debug)]
pub struct Containers {
    pub node_name: String,
    pub pod_cidr: String,
    /// Registry mirrors by host and port with their URL: `localhost:32000`, `http://127.0.0.1:32000`.
    pub registries: Vec<(String, String)>,
}

#[derive(Clone)]
pub struct MemberOptions {
    pub host: api_host::Options,
    pub runtime: Runtime,
    pub services: cluster_services::ClusterServiceSettings,
}

impl MemberOptions {
    pub fn new(cluster_name: &str, data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        let mut host = api_host::Options::new(cluster_name, data_dir, bind);
        host.kubeconfig_file = "member.config".to_owned();
        let services = cluster_services::ClusterServiceSettings {
            host_path_root: host.data_dir.join("volumes"),
            ..Default::default()
        };
        let simulated =
            simulated_nodes::SimulatedNodeSettings { cluster_name: cluster_name.to_owned(), ..Default::default() };
        Self { host, runtime: Runtime::Simulated(simulated), services }
    }

    /// Sets the version that the API server and the nodes report, such as `v1.33.2`.
    pub fn report_version(&mut self, version: &str) -> anyhow::Result<()> {
        let numbers: Vec<&str> = version.trim_start_matches('v').splitn(3, '.').collect();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let [major, minor, patch] = numbers[..] else {
            anyhow::bail!("--kubernetes-version {version:?}: expected MAJOR.MINOR.PATCH, such as 1.33.2");
        };
        if !is_number(major) || !is_number(minor) || !patch.starts_with(|c: char| c.is_ascii_digit()) {
            anyhow::bail!("--kubernetes-version {version:?}: expected MAJOR.MINOR.PATCH, such as 1.33.2");
        }
        let git_version = format!("v{major}.{minor}.{patch}");
        if let Runtime::Simulated(settings) = &mut self.runtime {
            settings.kubernetes_version.clone_from(&git_version);
        }
        self.host.version =
            Version { major: major.to_owned(), minor: minor.to_owned(), git_version, ..Version::default() };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        let mut options = MemberOptions::new("m", "/nowhere", ([127, 0, 0, 1], 0).into());
        for good in ["1.33.2", "v1.33.2", "1.33.2+k3s1"] {
            options.report_version(good).expect(good);
            assert_eq!(options.host.version.minor, "33");
        }
        for bad in ["", "1.33", "one.two.three", "1.33.x", "v"] {
            assert!(options.report_version(bad).is_err(), "{bad}");
        }
    }
}
