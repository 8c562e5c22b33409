//! Picks a network for the bridge that is not routed on this host.

use std::net::Ipv4Addr;

/// A routed network: its first address and prefix length.
pub type Network = (Ipv4Addr, u32);

/// Returns the bridge address in the first candidate network that no route overlaps. LXD can choose by itself, but
/// fails on hosts whose resolver or gateway answers for every address.
pub fn pick(routes: &[Network]) -> Option<String> {
    let candidates = (0..=255_u8)
        .map(|third| Ipv4Addr::new(10, 164, third, 0))
        .chain((0..=255).map(|third| Ipv4Addr::new(172, 29, third, 0)));
    let free = |network: &Ipv4Addr| !routes.iter().any(|route| overlaps((*network, 24), *route));
    candidates.into_iter().find(free).map(|network| {
        let [a, b, c, _] = network.octets();
        format!("{a}.{b}.{c}.1/24")
    })
}

fn overlaps(a: Network, b: Network) -> bool {
    let bits = a.1.min(b.1);
    // The default route overlaps everything and is ignored.
    bits > 0 && (a.0.to_bits() ^ b.0.to_bits()) >> (32 - bits) == 0
}

/// Parses `/proc/net/route`: hexadecimal, in native byte order.
pub fn parse_routes(table: &str) -> Vec<Network> {
    let row = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let destination = u32::from_str_radix(columns.next()?, 16).ok()?;
        let mask = u32::from_str_radix(columns.nth(5)?, 16).ok()?;
        Some((Ipv4Addr::from(destination.to_ne_bytes()), mask.count_ones()))
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";

    #[test]
    fn kernel_routes_are_parsed() {
        let expected = vec![(Ipv4Addr::new(0, 0, 0, 0), 0), (Ipv4Addr::new(192, 0, 2, 0), 24)];
        assert_eq!(parse_routes(TABLE), expected);
    }

    #[test]
    fn a_routed_network_is_skipped() {
        let check = |routes: &[Network], expected: &str| assert_eq!(pick(routes).as_deref(), Some(expected));
        check(&parse_routes(TABLE), "10.164.0.1/24");
        check(&[(Ipv4Addr::new(10, 164, 0, 0), 24)], "10.164.1.1/24");
        check(&[(Ipv4Addr::new(10, 164, 0, 0), 22)], "10.164.4.1/24");
        check(&[(Ipv4Addr::new(10, 164, 0, 128), 25)], "10.164.1.1/24");
        check(&[(Ipv4Addr::new(10, 0, 0, 0), 8)], "172.29.0.1/24");
        let all = [(Ipv4Addr::new(10, 0, 0, 0), 8), (Ipv4Addr::new(172, 16, 0, 0), 12)];
        assert_eq!(pick(&all), None);
    }
}
