//! The firewall rules for the bridge of the machines, and checks for them.

use super::Repair;

/// The program that manages the firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firewall {
    Iptables,
    Nftables,
}

/// A required rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallRule {
    pub name: &'static str,
    chain: &'static str,
    /// `-i` for traffic from the bridge, `-o` for traffic to it.
    side: &'static str,
    pub why: &'static str,
}

pub const RULES: &[FirewallRule] = &[
    FirewallRule {
        name: "INPUT from the bridge",
        chain: "INPUT",
        side: "-i",
        why: "machines reach this host, and its connections to them are answered",
    },
    FirewallRule { name: "FORWARD from the bridge", chain: "FORWARD", side: "-i", why: "machines reach the network" },
    FirewallRule {
        name: "FORWARD to the bridge",
        chain: "FORWARD",
        side: "-o",
        why: "the network's answers reach the machines",
    },
];

/// Reports whether the listing of either program drops or rejects anything.
pub fn blocks(listing: &str) -> bool {
    listing.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let words: Vec<&str> = line.split([' ', '\t', ';']).collect();
        words.contains(&"drop") || words.contains(&"reject")
    })
}

impl FirewallRule {
    fn words(&self, bridge: &str) -> String {
        format!("{} {} {bridge} -j ACCEPT", self.chain, self.side)
    }

    /// Reports whether the rule is in the output of `iptables -S` or `nft list ruleset`.
    pub fn is_in(&self, firewall: Firewall, bridge: &str, listing: &str) -> bool {
        match firewall {
            Firewall::Iptables => {
                let wanted = format!("-A {}", self.words(bridge));
                listing.lines().any(|line| line.trim() == wanted)
            }
            Firewall::Nftables => {
                let wanted = self.nft_rule(bridge);
                let table = listing.split("table inet flotilla {").nth(1).unwrap_or_default();
                let table = table.split("\n}").next().unwrap_or_default();
                let chain = table.split(&format!("chain {} {{", self.nft_chain())).nth(1).unwrap_or_default();
                chain.split('}').next().unwrap_or_default().lines().any(|line| line.trim() == wanted)
            }
        }
    }

    /// Inserts the rule first, since a rule after a drop is never reached. Existing rules are not changed.
    pub fn repair(&self, firewall: Firewall, bridge: &str) -> Repair {
        match firewall {
            Firewall::Iptables => {
                let line = format!("iptables -w -I {}", self.words(bridge));
                Repair::Run(line.split(' ').map(str::to_owned).collect())
            }
            Firewall::Nftables => {
                let chain = self.nft_chain();
                // `add` leaves existing objects alone.
                let script = format!(
                    "add table inet flotilla; add chain inet flotilla {chain} {{ type filter hook {chain} priority -10; }}; \
                     insert rule inet flotilla {chain} {}",
                    self.nft_rule(bridge)
                );
                Repair::Run(vec!["nft".to_owned(), script])
            }
        }
    }

    fn nft_chain(&self) -> &'static str {
        if self.chain == "INPUT" { "input" } else { "forward" }
    }

    fn nft_rule(&self, bridge: &str) -> String {
        let side = if self.side == "-i" { "iifname" } else { "oifname" };
        format!("{side} \"{bridge}\" accept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPTABLES: &str =
        "-P INPUT DROP\n-P FORWARD DROP\n-A INPUT -i lxdbr0 -j ACCEPT\n-A FORWARD -i lxdbr0 -p tcp -j ACCEPT\n";
    const NFTABLES: &str = "table inet lxd {\n\tchain input {\n\t\tiifname \"lxdbr0\" accept\n\t}\n}\ntable inet flotilla {\n\t\
        chain input {\n\t\ttype filter hook input priority -10; policy accept;\n\t\tiifname \"lxdbr0\" accept\n\t}\n\n\t\
        chain forward {\n\t\ttype filter hook forward priority -10; policy accept;\n\t\toifname \"lxdbr0\" accept\n\t}\n}\n";

    fn present(firewall: Firewall, bridge: &str, listing: &str) -> Vec<bool> {
        RULES.iter().map(|rule| rule.is_in(firewall, bridge, listing)).collect()
    }

    #[test]
    fn only_the_exact_rule_counts() {
        assert_eq!(present(Firewall::Iptables, "lxdbr0", IPTABLES), [true, false, false]);
        assert_eq!(present(Firewall::Iptables, "lxdbr", IPTABLES), [false, false, false]);
        assert_eq!(present(Firewall::Nftables, "lxdbr0", NFTABLES), [true, false, true]);
        assert_eq!(present(Firewall::Nftables, "lxdbr0", ""), [false, false, false]);
    }

    #[test]
    fn dropping_policies_and_rules_are_detected() {
        assert!(blocks(IPTABLES));
        assert!(blocks("-A FORWARD -j REJECT --reject-with icmp-host-prohibited"));
        assert!(blocks("\t\ttype filter hook forward priority filter; policy drop;"));
        assert!(!blocks(NFTABLES) && !blocks("-P INPUT ACCEPT\n-N DROPBEAR"));
    }

    #[test]
    fn repairs_insert_and_never_flush_or_delete() {
        let texts: Vec<String> =
            RULES.iter().map(|rule| rule.repair(Firewall::Iptables, "lxdbr0").to_string()).collect();
        assert_eq!(texts[0], "iptables -w -I INPUT -i lxdbr0 -j ACCEPT");
        assert_eq!(texts[1], "iptables -w -I FORWARD -i lxdbr0 -j ACCEPT");
        assert_eq!(texts[2], "iptables -w -I FORWARD -o lxdbr0 -j ACCEPT");
        for firewall in [Firewall::Iptables, Firewall::Nftables] {
            for text in RULES.iter().map(|rule| rule.repair(firewall, "lxdbr0").to_string()) {
                assert!(!text.contains("flush") && !text.contains("delete") && !text.contains("-F"), "{text}");
            }
        }
    }
}
