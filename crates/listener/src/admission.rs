//! Counts open connections, in total and per source address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ConnectionLimits;
use crate::files::open_files_max;

/// Connections that are open, and how many there may be.
pub struct Admission {
    total_max: usize,
    per_address_max: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The limit a refused connection would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    Total(usize),
    PerAddress(usize),
}

/// One admitted connection; counted until dropped.
pub struct Permit {
    admission: Arc<Admission>,
    source: IpAddr,
}

impl Admission {
    pub fn new(limits: &ConnectionLimits) -> Arc<Self> {
        Self::with_files(limits, open_files_max())
    }

    fn with_files(limits: &ConnectionLimits, files_max: Option<usize>) -> Arc<Self> {
        let by_files = files_max.map_or(usize::MAX, |files| files - files / 4);
        let total_max = limits.connections_max.min(by_files).max(1);
        let half = total_max.div_ceil(2);
        let per_address_max = if limits.per_address_max == 0 { half } else { limits.per_address_max.min(total_max) };
        Arc::new(Self { total_max, per_address_max, open: Mutex::default() })
    }

    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Permit, Exceeded> {
        let source = source(address);
        let mut open = self.open.lock();
        if open.total >= self.total_max {
            return Err(Exceeded::Total(self.total_max));
        }
        let from_source = open.by_address.entry(source).or_default();
        if *from_source >= self.per_address_max {
            return Err(Exceeded::PerAddress(self.per_address_max));
        }
        *from_source += 1;
        open.total += 1;
        Ok(Permit { admission: self.clone(), source })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.admission.open.lock();
        open.total -= 1;
        if let Some(count) = open.by_address.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.source);
            }
        }
    }
}

/// One client usually controls a whole IPv6 /64 network.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits every address in turn and compares the refusals, as indexes, with `expected`.
    fn check(limits: (usize, usize), files: Option<usize>, addresses: &[&str], expected: &[(usize, Exceeded)]) {
        let limits =
            ConnectionLimits { connections_max: limits.0, per_address_max: limits.1, ..ConnectionLimits::default() };
        let admission = Admission::with_files(&limits, files);
        let (mut permits, mut refused) = (Vec::new(), Vec::new());
        for (index, address) in addresses.iter().enumerate() {
            match admission.admit(address.parse().expect("an address")) {
                Ok(permit) => permits.push(permit),
                Err(exceeded) => refused.push((index, exceeded)),
            }
        }
        assert_eq!(refused, expected, "{addresses:?}");
        drop(permits);
        let open = admission.open.lock();
        assert!(open.total == 0 && open.by_address.is_empty(), "every permit is returned");
    }

    #[test]
    fn connections_are_limited_in_total_and_per_address() {
        check((3, 2), None, &["::1", "::1", "::1", "10.0.0.1"], &[(2, Exceeded::PerAddress(2))]);
        check((2, 2), None, &["10.0.0.1", "10.0.0.2", "10.0.0.3"], &[(2, Exceeded::Total(2))]);
        check((4, 0), None, &["10.0.0.1"; 3], &[(2, Exceeded::PerAddress(2))]);
        check((2, 1), None, &["2001:db8::1", "2001:db8::2"], &[(1, Exceeded::PerAddress(1))]);
        check((2, 1), None, &["10.0.0.1", "::ffff:10.0.0.1"], &[(1, Exceeded::PerAddress(1))]);
        check((100, 100), Some(4), &["10.0.0.1"; 4], &[(3, Exceeded::Total(3))]);
    }
}
