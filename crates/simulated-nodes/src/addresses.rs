//! IP address management: one address per node, and unique pod addresses from the range of their node.

use std::net::Ipv4Addr;

use crate::settings::SimulatedNodeSettings;

/// Reserved addresses of a range: the network itself and the node's own end.
const RESERVED: u32 = 2;

/// The ranges of all nodes and their used addresses, one bit per address.
pub struct Addresses {
    base: u32,
    bits_per_node: u32,
    node_base: u32,
    taken: Vec<Vec<u64>>,
}

impl Addresses {
    pub fn new(settings: &SimulatedNodeSettings) -> Self {
        // Terminating pods still hold their address, so a range is twice as large as the pod capacity.
        let wanted = (settings.capacity.pods.max(1) * 2 + RESERVED).next_power_of_two().max(256);
        Self {
            base: settings.pod_network.to_bits(),
            bits_per_node: wanted.trailing_zeros(),
            node_base: settings.node_network.to_bits(),
            taken: vec![Vec::new(); settings.nodes as usize],
        }
    }

    pub fn of_node(&self, node: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.node_base.wrapping_add(RESERVED + node))
    }

    /// For example `10.64.3.0/24`.
    pub fn range(&self, node: u32) -> String {
        format!("{}/{}", Ipv4Addr::from_bits(self.start(node)), 32 - self.bits_per_node)
    }

    fn start(&self, node: u32) -> u32 {
        self.base.wrapping_add(node << self.bits_per_node)
    }

    /// Allocates an address of the node's range; `None` if it is exhausted.
    pub fn take(&mut self, node: u32) -> Option<Ipv4Addr> {
        let (start, size) = (self.start(node), 1u32 << self.bits_per_node);
        let words = self.words(node)?;
        for (index, word) in words.iter_mut().enumerate() {
            let free = (!*word).trailing_zeros();
            let offset = index as u32 * 64 + free;
            // The last address is the broadcast address.
            if free < 64 && offset < size - 1 {
                *word |= 1 << free;
                return Some(Ipv4Addr::from_bits(start + offset));
            }
        }
        None
    }

    /// Marks the address of an existing pod as used. False if it is in use, or outside of the node's range.
    pub fn claim(&mut self, node: u32, address: Ipv4Addr) -> bool {
        let Some((word, bit)) = self.place(node, address) else { return false };
        let is_free = *word & bit == 0;
        *word |= bit;
        is_free
    }

    pub fn release(&mut self, node: u32, address: Ipv4Addr) {
        if let Some((word, bit)) = self.place(node, address) {
            *word &= !bit;
        }
    }

    fn place(&mut self, node: u32, address: Ipv4Addr) -> Option<(&mut u64, u64)> {
        let offset = address.to_bits().checked_sub(self.start(node))?;
        if offset < RESERVED || offset >= 1 << self.bits_per_node {
            return None;
        }
        let word = self.words(node)?.get_mut(offset as usize / 64)?;
        Some((word, 1 << (offset % 64)))
    }

    /// Allocated with the node's first pod.
    fn words(&mut self, node: u32) -> Option<&mut Vec<u64>> {
        let words = (1usize << self.bits_per_node).div_ceil(64);
        let taken = self.taken.get_mut(node as usize)?;
        if taken.is_empty() {
            taken.resize(words, 0);
            taken[0] = (1 << RESERVED) - 1;
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn addresses_are_unique_and_in_the_range_of_their_node() {
        let settings = SimulatedNodeSettings { nodes: 1000, ..SimulatedNodeSettings::default() };
        let mut addresses = Addresses::new(&settings);
        assert_eq!(addresses.range(0), "10.64.0.0/24");
        assert_eq!(addresses.range(999), "10.67.231.0/24");
        let mut seen = HashSet::new();
        while let Some(address) = addresses.take(7) {
            assert!(address.to_string().starts_with("10.64.7."), "{address}");
            assert!(seen.insert(address));
        }
        assert_eq!(seen.len(), 253);
        let freed = Ipv4Addr::new(10, 64, 7, 9);
        addresses.release(7, freed);
        assert_eq!(addresses.take(7), Some(freed));
        assert_ne!(addresses.of_node(0), addresses.of_node(1));
    }

    #[test]
    fn an_address_is_claimed_once_and_within_its_range() {
        let mut addresses = Addresses::new(&SimulatedNodeSettings { nodes: 2, ..SimulatedNodeSettings::default() });
        let address = Ipv4Addr::new(10, 64, 1, 5);
        assert!(addresses.claim(1, address));
        assert!(!addresses.claim(1, address));
        assert!(!addresses.claim(0, address));
        assert!(!addresses.claim(9, address));
        addresses.release(1, address);
        assert!(addresses.claim(1, address));
    }
}
