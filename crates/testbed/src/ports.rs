//! Ports of a new testbed: the documented defaults if they are free, else other ports.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;

use anyhow::{Context, bail};

use crate::spec::loopback;

pub const PLANE_PORT: u16 = 5443;
/// Port of a control plane in a host cluster, as with `karmadactl init`: 5443 stays free for `kubectl port-forward`.
pub const HOSTED_PLANE_PORT: u16 = 32443;
pub const REGISTRY_PORT: u16 = 32000;
pub const MANAGER_PORT: u16 = 5444;
/// 16443 is left out: MicroK8s on the host uses it.
const MEMBER_PORTS: [u16; 3] = [16441, 16442, 16444];
/// Range of internal ports, below the ephemeral ports of outgoing connections.
const OWN_PORTS: std::ops::Range<u16> = 20000..31000;

/// Allocates each port once.
pub struct Ports {
    taken: BTreeSet<u16>,
    is_free: fn(u16) -> bool,
    /// Messages about replaced ports.
    pub notes: Vec<String>,
}

impl Ports {
    pub fn new(taken: impl IntoIterator<Item = u16>) -> Self {
        Self { taken: taken.into_iter().collect(), is_free, notes: Vec::new() }
    }

    #[cfg(test)]
    pub fn pretending(is_free: fn(u16) -> bool) -> Self {
        Self { taken: BTreeSet::new(), is_free, notes: Vec::new() }
    }

    pub fn is_free(&self, port: u16) -> bool {
        (self.is_free)(port)
    }

    /// Chooses a public port: the requested one, else the default if it is free. 0 requests any free port.
    pub fn choose(&mut self, asked: Option<u16>, default: u16, what: &str) -> anyhow::Result<u16> {
        match asked {
            Some(0) => self.any(),
            Some(port) if self.usable(port) => Ok(self.take(port)),
            Some(port) => bail!(
                "port {port} for {what} is in use; find the program with `ss -tlpn | grep :{port}`, or use 0 for a free port"
            ),
            None if self.usable(default) => Ok(self.take(default)),
            None => {
                let port = self.any()?;
                self.notes.push(format!("port {default} for {what} is in use, using {port} instead"));
                Ok(port)
            }
        }
    }

    /// Chooses the port of the member with this index. `first` shifts all of them.
    pub fn member(&mut self, first: Option<u16>, index: usize, name: &str) -> anyhow::Result<u16> {
        let what = format!("member {name}");
        let offset = u16::try_from(index).context("too many members")?;
        match first {
            Some(0) => self.any(),
            Some(first) => {
                let port = first.checked_add(offset).context("--member-port is too high for so many members")?;
                self.choose(Some(port), port, &what)
            }
            None => {
                let default = MEMBER_PORTS.get(index).copied();
                let after = MEMBER_PORTS[MEMBER_PORTS.len() - 1] + 1 - MEMBER_PORTS.len() as u16;
                self.choose(None, default.unwrap_or(after + offset), &what)
            }
        }
    }

    /// Chooses a free port outside the ephemeral range, so that it is still free after a restart.
    pub fn any(&mut self) -> anyhow::Result<u16> {
        let size = usize::from(OWN_PORTS.end - OWN_PORTS.start);
        // Testbeds that start at the same time should not try the same ports.
        let random = std::hash::RandomState::new().build_hasher().finish();
        let start = usize::try_from(random % size as u64).unwrap_or_default();
        let candidates = OWN_PORTS.cycle().skip(start).take(size);
        let found = candidates.into_iter().find(|port| self.usable(*port)).context("no port is free on 127.0.0.1")?;
        Ok(self.take(found))
    }

    fn usable(&self, port: u16) -> bool {
        !self.taken.contains(&port) && (self.is_free)(port)
    }

    fn take(&mut self, port: u16) -> u16 {
        self.taken.insert(port);
        port
    }
}

/// Returns true if no program listens on the port.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(loopback(port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_the_documented_ports_and_then_the_next_ones() {
        let mut ports = Ports::pretending(|_| true);
        let chosen: Vec<u16> = (0..5).map(|index| ports.member(None, index, "m").unwrap()).collect();
        assert_eq!(chosen, [16441, 16442, 16444, 16445, 16446]);
        assert!(ports.notes.is_empty());
    }

    #[test]
    fn a_default_in_use_is_replaced_with_a_note_and_a_requested_one_is_refused() {
        let mut ports = Ports::pretending(|port| port != PLANE_PORT);
        let other = ports.choose(None, PLANE_PORT, "the control plane").unwrap();
        assert!(OWN_PORTS.contains(&other));
        assert_eq!(ports.notes, [format!("port 5443 for the control plane is in use, using {other} instead")]);
        let refused = ports.choose(Some(PLANE_PORT), PLANE_PORT, "the control plane").unwrap_err();
        assert!(refused.to_string().contains("port 5443 for the control plane is in use"));
    }

    #[test]
    fn no_port_is_allocated_twice() {
        let mut ports = Ports::pretending(|_| true);
        let mut seen = BTreeSet::new();
        for index in 0..100 {
            assert!(seen.insert(ports.any().unwrap()));
            assert!(seen.insert(ports.member(Some(0), index, "m").unwrap()));
        }
        assert_eq!(ports.member(Some(17000), 2, "m").unwrap(), 17002);
        assert!(ports.member(Some(17000), 2, "m").is_err());
    }
}
