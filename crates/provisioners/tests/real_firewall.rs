//! Rules in a real firewall, in a network namespace: added only once, without changing other rules.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::process::Command;

use provisioners::host::{CheckStatus, HostUse, apply, gather, judge};

const INSIDE: &str = "FLOTILLA_TEST_INSIDE";

fn iptables(words: &str) -> Result<String, String> {
    let output = Command::new("iptables").args(words.split(' ')).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs the same test again in a new network namespace.
fn in_a_network_of_its_own(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let able =
        Command::new("unshare").args(["-n", "iptables", "-S"]).output().is_ok_and(|output| output.status.success());
    if !able {
        test_skip::skip("creating a network namespace with iptables requires root");
        return false;
    }
    let this_test = std::env::current_exe().expect("this test has a path");
    let mut command = Command::new("unshare");
    command.arg("-n").arg(this_test).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let output = command.output().expect("unshare runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

#[test]
fn missing_rules_are_inserted_once_and_others_are_kept() {
    if !in_a_network_of_its_own("missing_rules_are_inserted_once_and_others_are_kept") {
        return;
    }
    iptables("-P FORWARD DROP").unwrap();
    iptables("-A INPUT -p tcp --dport 22 -j ACCEPT").unwrap();
    iptables("-A INPUT -j DROP").unwrap();
    let bridge = Some("lxdbr0".to_owned());
    let wanted = HostUse { lxd: true, containerd: false, bridge, ports: vec![], needs_ports: true, home: "/".into() };
    for expected in [3, 0] {
        let missing: Vec<_> = judge(&gather(&wanted), &wanted)
            .into_iter()
            .filter(|check| check.area == "firewall" && check.repair.is_some())
            .collect();
        assert_eq!(missing.len(), expected, "{missing:?}");
        assert!(missing.iter().all(|check| check.standing == CheckStatus::Broken));
        for check in missing {
            apply(&check.repair.expect("there is one")).unwrap();
        }
    }
    let rules = iptables("-S").unwrap();
    let lines: Vec<&str> = rules.lines().collect();
    let expected = [
        "-P INPUT ACCEPT",
        "-P FORWARD DROP",
        "-P OUTPUT ACCEPT",
        "-A INPUT -i lxdbr0 -j ACCEPT",
        "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT",
        "-A INPUT -j DROP",
        "-A FORWARD -o lxdbr0 -j ACCEPT",
        "-A FORWARD -i lxdbr0 -j ACCEPT",
    ];
    assert_eq!(lines, expected);
}
