//! Checks the state of a host against the requirements.

use super::firewall::{self, Firewall, FirewallRule, RULES};
use super::{Check, CheckStatus, HostFacts, HostUse, Repair};
use crate::lxd::DaemonError;

const MIB: u64 = 1024 * 1024;
/// A testbed of three members as processes, with some headroom.
const MEMORY_MIN: u64 = 512 * MIB;
/// Each machine has its own kernel memory and page cache.
const MEMORY_MIN_LXD: u64 = 1024 * MIB;
const DISK_MIN: u64 = 1024 * MIB;
const OPEN_FILES_MIN: u64 = 4096;

pub struct RequiredProgram {
    pub name: &'static str,
    /// The Debian package that provides it.
    pub package: &'static str,
    pub why: &'static str,
    need: Need,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Always,
    Lxd,
    Containerd,
    /// Of either kind.
    Containers,
    /// Useful, but nothing fails without it.
    Optional,
}

pub const PROGRAMS: &[RequiredProgram] = &[
    RequiredProgram {
        name: "kubectl",
        package: "",
        why: "used to access the control plane and the members",
        need: Need::Optional,
    },
    RequiredProgram {
        name: "dnsmasq",
        package: "dnsmasq-base",
        why: "assigns addresses to machines on the bridge",
        need: Need::Lxd,
    },
    RequiredProgram { name: "ip", package: "iproute2", why: "sets up networks of machines and pods", need: Need::Lxd },
    RequiredProgram {
        name: "busybox",
        package: "busybox-static",
        why: "provides the userland of a machine's image",
        need: Need::Lxd,
    },
    RequiredProgram {
        name: "iptables",
        package: "iptables",
        why: "allows traffic to and from the bridge",
        need: Need::Optional,
    },
    RequiredProgram {
        name: "nft",
        package: "nftables",
        why: "allows traffic to and from the bridge",
        need: Need::Optional,
    },
    RequiredProgram {
        name: "containerd",
        package: "containerd",
        why: "runs the containers of pods",
        need: Need::Containerd,
    },
    RequiredProgram { name: "runc", package: "runc", why: "starts the containers of pods", need: Need::Containerd },
    RequiredProgram {
        name: "host-local",
        package: "containernetworking-plugins",
        why: "sets up the network of pods, with the other CNI plugins",
        need: Need::Containerd,
    },
    RequiredProgram {
        name: "skopeo",
        package: "skopeo",
        why: "copies images between registries",
        need: Need::Optional,
    },
    RequiredProgram { name: "snap", package: "snapd", why: "installs MicroK8s in machines", need: Need::Optional },
];

pub struct Setting {
    pub path: &'static str,
    min: u64,
    why: &'static str,
    need: Need,
}

pub const SETTINGS: &[Setting] = &[
    Setting {
        path: "/proc/sys/fs/inotify/max_user_instances",
        min: 512,
        why: "every machine and container runtime uses inotify watches",
        need: Need::Containers,
    },
    Setting {
        path: "/proc/sys/fs/inotify/max_user_watches",
        min: 65536,
        why: "every machine and container runtime uses inotify watches",
        need: Need::Containers,
    },
    Setting {
        path: "/proc/sys/fs/file-max",
        min: 65536,
        why: "all processes together open many files and sockets",
        need: Need::Always,
    },
    Setting {
        path: "/proc/sys/net/ipv4/ip_forward",
        min: 1,
        why: "without it machines cannot reach networks beyond their bridge",
        need: Need::Lxd,
    },
];

/// Returns all checks in reading order.
pub fn judge(facts: &HostFacts, wanted: &HostUse) -> Vec<Check> {
    let mut checks = programs(facts, wanted);
    if wanted.lxd {
        checks.push(daemon(facts));
        checks.push(bridge(facts));
        checks.extend(rules(facts));
    } else {
        checks.extend(RULES.iter().map(|rule| unused_rule(facts, rule)));
    }
    checks.extend(SETTINGS.iter().filter_map(|setting| judge_setting(facts, wanted, setting)));
    checks.push(open_files(facts));
    checks.extend(wanted.ports.iter().map(|port| port_check(facts, wanted, *port)));
    let memory_min = if wanted.lxd { MEMORY_MIN_LXD } else { MEMORY_MIN };
    checks.push(capacity_check(
        "memory",
        "memory",
        facts.memory_available,
        memory_min,
        "stop other programs, or start fewer members",
    ));
    let home = wanted.home.display().to_string();
    checks.push(capacity_check(
        "disk",
        &home,
        facts.disk_available,
        DISK_MIN,
        "free disk space there, or use another directory with --home",
    ));
    checks
}

fn good(area: &'static str, name: impl Into<String>, detail: impl Into<String>, why: &str) -> Check {
    Check {
        area,
        name: name.into(),
        standing: CheckStatus::Good,
        detail: detail.into(),
        why: why.to_owned(),
        repair: None,
    }
}

impl Need {
    fn is_there(self, wanted: &HostUse) -> bool {
        match self {
            Self::Always => true,
            Self::Lxd => wanted.lxd,
            Self::Containerd => wanted.containerd,
            Self::Containers => wanted.lxd || wanted.containerd,
            Self::Optional => false,
        }
    }

    /// Returns the severity of an unmet requirement.
    fn standing(self, wanted: &HostUse) -> CheckStatus {
        if self.is_there(wanted) { CheckStatus::Broken } else { CheckStatus::Note }
    }
}

fn programs(facts: &HostFacts, wanted: &HostUse) -> Vec<Check> {
    let check = |program: &RequiredProgram| {
        if let Some(path) = facts.programs.get(program.name) {
            return good("programs", program.name, path.display().to_string(), program.why);
        }
        let standing = program.need.standing(wanted);
        let repair = (!program.package.is_empty()).then(|| install(program.package));
        Check { standing, repair, ..good("programs", program.name, "not installed", program.why) }
    };
    PROGRAMS.iter().map(check).collect()
}

fn install(package: &str) -> Repair {
    Repair::Run(["apt-get", "install", "-y", "--no-install-recommends", package].map(str::to_owned).to_vec())
}

fn daemon(facts: &HostFacts) -> Check {
    let why = "runs the machines of the lxd provisioner";
    let Some(problem) = &facts.daemon else { return good("lxd", "daemon", "answers", why) };
    // Only a missing daemon can be fixed by a command; a stopped one has its own reasons.
    let repair = match problem {
        DaemonError::Missing(_) => install("lxd"),
        _ => Repair::Advice(problem.remedy()),
    };
    Check { standing: CheckStatus::Broken, repair: Some(repair), ..good("lxd", "daemon", problem.to_string(), why) }
}

fn bridge(facts: &HostFacts) -> Check {
    let bridge = &facts.bridge;
    let why = "connects the machines with each other and with this host";
    match (bridge.exists, bridge.up) {
        (true, true) => good("bridge", &bridge.name, "up", why),
        (true, false) => {
            let up = ["ip", "link", "set", &bridge.name, "up"].map(str::to_owned).to_vec();
            Check {
                standing: CheckStatus::Broken,
                repair: Some(Repair::Run(up)),
                ..good("bridge", &bridge.name, "down", why)
            }
        }
        (false, _) => Check {
            standing: CheckStatus::Note,
            ..good("bridge", &bridge.name, "does not exist yet; created with the first machine", why)
        },
    }
}

fn rules(facts: &HostFacts) -> Vec<Check> {
    let bridge = facts.bridge.name.as_str();
    let Some((firewall, listing)) = &facts.firewall else {
        let why = "without one of them the firewall cannot be checked";
        let check = good("firewall", "program", "neither iptables nor nft is installed", why);
        let program = Check { standing: CheckStatus::Broken, repair: Some(install("iptables")), ..check };
        // Added by the same run, after the program is installed.
        let after = RULES.iter().map(|rule| unread_rule(rule, Firewall::Iptables, bridge));
        return std::iter::once(program).chain(after).collect();
    };
    let listing = match listing {
        Ok(listing) => listing,
        Err(why_not) => {
            let check =
                good("firewall", "rules", format!("cannot be read: {why_not}"), "only root can read the firewall");
            let repair = Repair::Advice("run `sudo flotilla prepare --provisioner lxd`".to_owned());
            let listing = Check { standing: CheckStatus::Note, repair: Some(repair), ..check };
            let unread = RULES.iter().map(|rule| unread_rule(rule, *firewall, bridge));
            return std::iter::once(listing).chain(unread).collect();
        }
    };
    let check = |rule: &FirewallRule| {
        if rule.is_in(*firewall, bridge, listing) {
            return good("firewall", rule.name, "present", rule.why);
        }
        let repair = Some(rule.repair(*firewall, bridge));
        let (standing, detail) = match firewall::blocks(listing) {
            true => (CheckStatus::Broken, "missing, and other rules block traffic"),
            false => (CheckStatus::Note, "missing; no rule blocks traffic"),
        };
        Check { standing, repair, ..good("firewall", rule.name, detail, rule.why) }
    };
    RULES.iter().map(check).collect()
}

/// A rule whose presence is not known yet. Adding it is idempotent only for a program that can list its rules.
fn unread_rule(rule: &FirewallRule, firewall: Firewall, bridge: &str) -> Check {
    let repair = Some(rule.repair(firewall, bridge));
    Check { standing: CheckStatus::Note, repair, ..good("firewall", rule.name, "not known yet", rule.why) }
}

/// Shows a rule that only system containers need.
fn unused_rule(facts: &HostFacts, rule: &FirewallRule) -> Check {
    let repair = rule.repair(Firewall::Iptables, &facts.bridge.name);
    let detail = format!("only for --provisioner lxd: {repair}");
    Check { standing: CheckStatus::Note, ..good("firewall", rule.name, detail, rule.why) }
}

fn judge_setting(facts: &HostFacts, wanted: &HostUse, setting: &Setting) -> Option<Check> {
    let value = *facts.settings.get(setting.path)?;
    let name = setting.path.trim_start_matches("/proc/sys/").replace('/', ".");
    let check = good("limits", name, value.to_string(), setting.why);
    if value >= setting.min {
        return Some(check);
    }
    let repair = Repair::Set { path: setting.path.to_owned(), value: setting.min.to_string() };
    let detail = format!("{value}, requires at least {}", setting.min);
    Some(Check { standing: setting.need.standing(wanted), detail, repair: Some(repair), ..check })
}

fn open_files(facts: &HostFacts) -> Check {
    let why = "the control plane holds a connection for every watch";
    let Some(limit) = facts.open_files else { return good("limits", "open files", "no limit", why) };
    let check = good("limits", "open files", limit.to_string(), why);
    if limit >= OPEN_FILES_MIN {
        return check;
    }
    let repair = Repair::Advice(format!("ulimit -n {OPEN_FILES_MIN}, or a line in /etc/security/limits.conf"));
    Check { standing: CheckStatus::Broken, repair: Some(repair), ..check }
}

fn port_check(facts: &HostFacts, wanted: &HostUse, port: u16) -> Check {
    let why = "the testbed listens on it";
    let Some(listener) = facts.listeners.iter().find(|listener| listener.address.port() == port) else {
        return good("ports", port.to_string(), "free", why);
    };
    let program = listener.program.clone().unwrap_or_else(|| "a process of another user".to_owned());
    let process = listener.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let detail = format!("in use by {program}{process}");
    // A running testbed holds its ports; LXD holds those of its proxy devices.
    let ours = matches!(listener.program.as_deref(), Some("flotilla" | "lxd" | "incusd"));
    if ours {
        return good("ports", port.to_string(), detail, why);
    }
    if !wanted.needs_ports {
        let check = good("ports", port.to_string(), format!("{detail}; `up` uses another port"), why);
        return Check { standing: CheckStatus::Note, ..check };
    }
    let stop = listener.pid.map(|pid| format!("stop it (kill {pid}), or ")).unwrap_or_default();
    let repair = Repair::Advice(format!("{stop}choose other ports for the testbed"));
    Check { standing: CheckStatus::Broken, repair: Some(repair), ..good("ports", port.to_string(), detail, why) }
}

fn capacity_check(area: &'static str, name: &str, available: Option<u64>, min: u64, advice: &str) -> Check {
    let why = format!("requires at least {} MiB", min / MIB);
    let Some(available) = available else {
        return Check { standing: CheckStatus::Note, ..good(area, name, "cannot be read", &why) };
    };
    let check = good(area, name, format!("{} MiB free", available / MIB), &why);
    if available >= min {
        return check;
    }
    Check { standing: CheckStatus::Broken, repair: Some(Repair::Advice(advice.to_owned())), ..check }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Bridge;
    use super::super::ports::Listener;
    use super::*;

    fn wanted() -> HostUse {
        HostUse {
            lxd: true,
            containerd: true,
            bridge: None,
            ports: vec![16441],
            needs_ports: true,
            home: "/home/x".into(),
        }
    }

    /// A host that meets all requirements.
    fn healthy() -> HostFacts {
        let rules = "-P INPUT DROP\n-A INPUT -i lxdbr0 -j ACCEPT\n-A FORWARD -i lxdbr0 -j ACCEPT\n-A FORWARD -o lxdbr0 -j ACCEPT\n";
        HostFacts {
            root: true,
            programs: PROGRAMS.iter().map(|program| (program.name, program.name.into())).collect(),
            daemon: None,
            bridge: Bridge { name: "lxdbr0".into(), exists: true, up: true },
            firewall: Some((Firewall::Iptables, Ok(rules.to_owned()))),
            settings: SETTINGS.iter().map(|setting| (setting.path, setting.min)).collect(),
            open_files: Some(OPEN_FILES_MIN),
            listeners: Vec::new(),
            memory_available: Some(MEMORY_MIN_LXD),
            disk_available: Some(DISK_MIN),
        }
    }

    /// Expects exactly one broken check with this repair.
    fn check(change: impl FnOnce(&mut HostFacts), name: &str, repair: &str) {
        let mut facts = healthy();
        change(&mut facts);
        let broken: Vec<Check> =
            judge(&facts, &wanted()).into_iter().filter(|check| check.standing == CheckStatus::Broken).collect();
        let names: Vec<&str> = broken.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, [name]);
        assert_eq!(broken[0].repair.as_ref().unwrap().to_string(), repair);
    }

    #[test]
    fn a_complete_host_passes_all_checks() {
        let checks = judge(&healthy(), &wanted());
        assert!(checks.iter().all(|check| check.standing == CheckStatus::Good && check.repair.is_none()), "{checks:?}");
    }

    #[test]
    fn missing_requirements_are_found_with_their_repair() {
        let apt = "apt-get install -y --no-install-recommends";
        check(|facts| drop(facts.programs.remove("containerd")), "containerd", &format!("{apt} containerd"));
        let plugins = format!("{apt} containernetworking-plugins");
        check(|facts| drop(facts.programs.remove("host-local")), "host-local", &plugins);
        check(|facts| drop(facts.programs.remove("busybox")), "busybox", &format!("{apt} busybox-static"));
        check(|facts| facts.bridge.up = false, "lxdbr0", "ip link set lxdbr0 up");
        check(|facts| facts.firewall = None, "program", &format!("{apt} iptables"));
        check(|facts| facts.daemon = Some(DaemonError::Missing("unix.socket".into())), "daemon", &format!("{apt} lxd"));
        check(
            |facts| {
                let (socket, problem) = ("/var/lib/lxd/unix.socket".into(), "no answer".into());
                facts.daemon = Some(DaemonError::Stopped { socket, problem });
            },
            "daemon",
            "start it: systemctl start lxd",
        );
        check(
            |facts| {
                let listing = "-P FORWARD DROP\n-A INPUT -i lxdbr0 -j ACCEPT\n-A FORWARD -i lxdbr0 -j ACCEPT\n";
                facts.firewall = Some((Firewall::Iptables, Ok(listing.to_owned())));
            },
            "FORWARD to the bridge",
            "iptables -w -I FORWARD -o lxdbr0 -j ACCEPT",
        );
        check(
            |facts| _ = facts.settings.insert("/proc/sys/net/ipv4/ip_forward", 0),
            "net.ipv4.ip_forward",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
        );
        check(
            |facts| _ = facts.settings.insert("/proc/sys/fs/inotify/max_user_instances", 128),
            "fs.inotify.max_user_instances",
            "echo 512 > /proc/sys/fs/inotify/max_user_instances",
        );
        check(
            |facts| facts.disk_available = Some(5),
            "/home/x",
            "free disk space there, or use another directory with --home",
        );
        check(|facts| facts.memory_available = Some(5), "memory", "stop other programs, or start fewer members");
    }

    #[test]
    fn a_port_of_another_program_matters_only_if_requested() {
        let taken = |program: &str| Listener {
            address: ([127, 0, 0, 1], 16441).into(),
            pid: Some(7),
            program: Some(program.to_owned()),
        };
        let advice = "stop it (kill 7), or choose other ports for the testbed";
        check(|facts| facts.listeners = vec![taken("nginx")], "16441", advice);
        let facts = HostFacts { listeners: vec![taken("nginx")], ..healthy() };
        let checks = judge(&facts, &HostUse { needs_ports: false, ..wanted() });
        let port = checks.iter().find(|check| check.name == "16441").unwrap();
        assert_eq!(
            (port.standing, port.detail.as_str()),
            (CheckStatus::Note, "in use by nginx (process 7); `up` uses another port")
        );
        let facts = HostFacts { listeners: vec![taken("flotilla")], ..healthy() };
        assert!(judge(&facts, &wanted()).iter().all(|check| check.standing == CheckStatus::Good));
    }

    #[test]
    fn a_missing_rule_is_a_note_if_nothing_blocks() {
        let facts = HostFacts { firewall: Some((Firewall::Iptables, Ok("-P INPUT ACCEPT\n".to_owned()))), ..healthy() };
        let checks = judge(&facts, &wanted());
        let rules: Vec<&Check> = checks.iter().filter(|check| check.area == "firewall").collect();
        assert!(rules.iter().all(|check| check.standing == CheckStatus::Note && check.repair.is_some()), "{rules:?}");
        assert_eq!(rules.len(), 3);
    }

    #[test]
    fn the_three_rules_are_always_shown() {
        let unreadable = Some((Firewall::Nftables, Err("Operation not permitted".to_owned())));
        for firewall in [None, unreadable, healthy().firewall] {
            for lxd in [false, true] {
                let facts = HostFacts { firewall: firewall.clone(), ..healthy() };
                let checks = judge(&facts, &HostUse { lxd, ..wanted() });
                for rule in RULES {
                    let shown: Vec<&Check> = checks.iter().filter(|check| check.name == rule.name).collect();
                    assert_eq!(shown.len(), 1, "{lxd} {firewall:?} {}", rule.name);
                    let is_printed = shown[0].standing == CheckStatus::Good
                        || shown[0].repair.is_some()
                        || shown[0].detail.contains("iptables -w -I");
                    assert!(is_printed, "{:?}", shown[0]);
                }
            }
        }
    }

    #[test]
    fn process_testbeds_need_no_programs() {
        let settings = [("/proc/sys/fs/inotify/max_user_instances", 128), ("/proc/sys/net/ipv4/ip_forward", 0)];
        let facts = HostFacts { programs: Default::default(), firewall: None, settings: settings.into(), ..healthy() };
        let wanted = HostUse { lxd: false, containerd: false, ..wanted() };
        assert!(judge(&facts, &wanted).iter().all(|check| check.standing != CheckStatus::Broken));
    }
}
