//! Plans the host cluster of a testbed.

use anyhow::{Context, bail};

use super::{HOST, HostSpec};
use crate::hint::Hint;
use crate::place::TestbedDir;
use crate::plan::{ALL, UpOptions};
use crate::ports::Ports;
use crate::runtime::{Runtime, RuntimeChoice};
use crate::spec::{Kind, MemberSpec, Mode, Spec};

/// Port of the API of the host cluster, as that of MicroK8s on the host.
const HOST_PORT: u16 = 16443;
/// Third byte of the pod addresses of the host cluster; members have those below [`crate::spec::MEMBERS_MAX`].
const NETWORK_BYTE: u8 = 254;

/// Returns the options for a testbed with a host cluster: its members have containers and are all in pull mode.
/// Other options are returned as they are.
pub fn options(existing: Option<&Spec>, wanted: &UpOptions, place: &TestbedDir) -> anyhow::Result<UpOptions> {
    let has_host = existing.map(|spec| spec.host.is_some());
    if wanted.host_cluster && has_host == Some(false) {
        bail!(
            "--host-cluster: the existing testbed has no host cluster; delete it with `{}`, or use another --name",
            place.hint(&Hint::DownDelete)
        );
    }
    if !wanted.host_cluster && has_host != Some(true) {
        return Ok(wanted.clone());
    }
    refuse_others(wanted)?;
    let (pull, runtime) = (Some(vec![ALL.to_owned()]), Some(RuntimeChoice::Containerd));
    Ok(UpOptions { pull, runtime, host_cluster: true, ..wanted.clone() })
}

fn refuse_others(wanted: &UpOptions) -> anyhow::Result<()> {
    if !matches!(wanted.provisioner, None | Some(Kind::Process)) || !wanted.sources.is_empty() {
        bail!("--host-cluster: the members are processes of this host; leave out --provisioner and --cluster");
    }
    if wanted.runtime == Some(RuntimeChoice::Simulated) {
        bail!("--host-cluster: the control plane is a container and needs --runtime containerd");
    }
    if wanted.no_registry {
        bail!("--host-cluster: pods pull their image from the registry; leave out --no-registry");
    }
    let is_all = |names: &Vec<String>| names.iter().all(|name| name == ALL);
    if !wanted.pull.as_ref().is_none_or(is_all) {
        bail!("--host-cluster: every member has an agent and is in pull mode; leave out --pull");
    }
    Ok(())
}

/// Returns the host cluster of a new testbed. `network` is the beginning of its pod addresses.
pub fn plan_host(wanted: &UpOptions, ports: &mut Ports, network: &str) -> anyhow::Result<HostSpec> {
    // Tests ask for free ports everywhere with --member-port 0.
    let asked = wanted.member_port.filter(|port| *port == 0);
    Ok(HostSpec {
        cluster: MemberSpec {
            name: HOST.to_owned(),
            mode: Mode::Push,
            port: ports.choose(asked, HOST_PORT, "the host cluster")?,
            own_port: ports.any()?,
            agent_plane_port: 0,
            nodes: None,
            runtime: Some(Runtime::Containerd),
            pod_cidr: Some(format!("{network}.{NETWORK_BYTE}.0/24")),
            kubernetes_version: wanted.kubernetes_version.clone(),
            source: None,
        },
        plane_port: ports.any()?,
    })
}

/// Checks the ports of a stopped host cluster; internal ports move when they are in use.
pub fn reclaim(host: &mut HostSpec, ports: &mut Ports) -> anyhow::Result<()> {
    let port = host.cluster.port;
    if !ports.is_free(port) {
        bail!("port {port} of the host cluster is in use by another program; find it with `ss -tlpn | grep :{port}`");
    }
    for port in [&mut host.cluster.own_port, &mut host.plane_port] {
        if !ports.is_free(*port) {
            *port = ports.any().context("cannot find a port for the host cluster")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use crate::runtime::HostContainers;

    fn planned(existing: Option<Spec>, wanted: &UpOptions) -> anyhow::Result<Spec> {
        let place = TestbedDir::find(Some("/beds".into()), "x").unwrap();
        plan(existing, wanted, &mut Ports::pretending(|_| true), true, &place)
    }

    fn hosted() -> UpOptions {
        UpOptions { host_cluster: true, containers: HostContainers::Available, ..UpOptions::default() }
    }

    #[test]
    fn every_member_has_an_agent_and_the_control_plane_leaves_5443_free() {
        let spec = planned(None, &hosted()).unwrap();
        let host = spec.host.clone().unwrap();
        assert_eq!((spec.plane_port, host.cluster.port, spec.registry_port), (32443, 16443, Some(32000)));
        assert!(spec.members.iter().all(|member| member.mode == Mode::Pull));
        assert!(spec.members.iter().all(|member| member.runtime() == Runtime::Containerd));
        assert!(spec.members.iter().all(|member| member.pod_cidr != host.cluster.pod_cidr));
        assert!(host.plane_address().unwrap().to_string().ends_with(&format!(".254.1:{}", host.plane_port)));
        // Later calls need no flag.
        let again = UpOptions { host_cluster: false, ..hosted() };
        assert_eq!(planned(Some(spec.clone()), &again).unwrap(), spec);
    }

    #[track_caller]
    fn check_refused(wanted: UpOptions, part: &str) {
        let error = planned(None, &UpOptions { host_cluster: true, ..wanted }).unwrap_err().to_string();
        assert!(error.contains("--host-cluster") && error.contains(part), "{error}");
    }

    #[test]
    fn options_that_contradict_a_host_cluster_are_refused() {
        check_refused(UpOptions { provisioner: Some(Kind::Lxd), ..hosted() }, "--provisioner");
        check_refused(UpOptions { runtime: Some(RuntimeChoice::Simulated), ..hosted() }, "containerd");
        check_refused(UpOptions { no_registry: true, ..hosted() }, "--no-registry");
        check_refused(UpOptions { pull: Some(vec!["member1".to_owned()]), ..hosted() }, "--pull");
        let plain = planned(None, &UpOptions::default()).unwrap();
        let error = planned(Some(plain), &hosted()).unwrap_err().to_string();
        assert!(error.contains("has no host cluster"), "{error}");
        let root = HostContainers::Unavailable("requires root".to_owned());
        let error = planned(None, &UpOptions { containers: root, ..hosted() }).unwrap_err().to_string();
        assert!(error.contains("requires root"), "{error}");
    }
}
