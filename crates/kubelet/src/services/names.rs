//! Answers DNS queries for Services; all others are forwarded to the machine's resolver. Pure.

use std::net::Ipv4Addr;

const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;
const TTL_SECONDS: u32 = 5;
/// Maximum number of addresses in a response packet.
const ADDRESSES_MAX: usize = 24;
const NO_SUCH_NAME: u8 = 3;
const FAILED: u8 = 2;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DnsQuestion {
    /// In lower case, without the trailing dot.
    pub name: String,
    pub is_for_address: bool,
    /// The end of the question in its packet.
    end: usize,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DnsAnswer {
    Addresses(Vec<Ipv4Addr>),
    NoSuchName,
    /// Outside the cluster domain.
    Elsewhere,
}

/// A parsed name within the cluster domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterDnsName<'a> {
    Service {
        namespace: &'a str,
        name: &'a str,
    },
    /// A pod behind a Service, by its host name.
    Endpoint {
        namespace: &'a str,
        service: &'a str,
        hostname: &'a str,
    },
    Address(Ipv4Addr),
    Unknown,
}

impl DnsQuestion {
    /// Parses a packet with one question; `None` for anything else.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let is_query = packet.get(2)? & 0xf8 == 0;
        let is_one = packet.get(4..6)? == [0, 1];
        if !is_query || !is_one {
            return None;
        }
        let (mut labels, mut at) = (Vec::new(), 12);
        loop {
            let length = usize::from(*packet.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..64 => labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).to_lowercase()),
                // A question has no pointers.
                _ => return None,
            }
            at += length;
        }
        let number = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
        let is_for_address = number(at)? == TYPE_A && number(at + 2)? == CLASS_IN;
        Some(Self { name: labels.join("."), is_for_address, end: at + 4 })
    }

    /// Returns the response to the packet of this question.
    pub fn answer(&self, packet: &[u8], known: &DnsAnswer) -> Vec<u8> {
        let (addresses, code) = match known {
            DnsAnswer::Addresses(addresses) if self.is_for_address => (addresses.as_slice(), 0),
            DnsAnswer::Addresses(_) => (&[][..], 0),
            DnsAnswer::NoSuchName => (&[][..], NO_SUCH_NAME),
            DnsAnswer::Elsewhere => (&[][..], FAILED),
        };
        let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
        let mut answer = packet[..self.end].to_vec();
        // Flags: response, authoritative, recursion as requested and available.
        answer[2] = 0x84 | (packet[2] & 1);
        answer[3] = 0x80 | code;
        let count = u16::try_from(addresses.len()).unwrap_or_default();
        answer[6..8].copy_from_slice(&count.to_be_bytes());
        answer[8..12].fill(0);
        for address in addresses {
            // A pointer to the name in the question.
            answer.extend([0xc0, 12]);
            answer.extend(TYPE_A.to_be_bytes());
            answer.extend(CLASS_IN.to_be_bytes());
            answer.extend(TTL_SECONDS.to_be_bytes());
            answer.extend([0, 4]);
            answer.extend(address.octets());
        }
        answer
    }
}

/// Parses a name within the cluster domain; `None` for other names.
pub(crate) fn place<'a>(name: &'a str, domain: &str) -> Option<ClusterDnsName<'a>> {
    let inside = name.strip_suffix(domain)?;
    let Some(inside) = inside.strip_suffix('.') else {
        return inside.is_empty().then_some(ClusterDnsName::Unknown);
    };
    let labels: Vec<&str> = inside.split('.').collect();
    Some(match labels.as_slice() {
        [name, namespace, "svc"] => ClusterDnsName::Service { namespace, name },
        [hostname, service, namespace, "svc"] => ClusterDnsName::Endpoint { namespace, service, hostname },
        [address, _, "pod"] => {
            address.replace('-', ".").parse().map_or(ClusterDnsName::Unknown, ClusterDnsName::Address)
        }
        _ => ClusterDnsName::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(name: &str, kind: u16) -> Vec<u8> {
        let mut packet = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            packet.push(u8::try_from(label.len()).expect("short"));
            packet.extend(label.as_bytes());
        }
        packet.push(0);
        packet.extend(kind.to_be_bytes());
        packet.extend(CLASS_IN.to_be_bytes());
        packet
    }

    #[test]
    fn a_query_is_parsed_and_answered() {
        let packet = packet("Web.default.svc.cluster.local", TYPE_A);
        let question = DnsQuestion::parse(&packet).expect("a question");
        assert_eq!((question.name.as_str(), question.is_for_address), ("web.default.svc.cluster.local", true));
        let answer = question.answer(&packet, &DnsAnswer::Addresses(vec![Ipv4Addr::new(10, 0, 0, 7)]));
        assert_eq!(answer[..2], [0xab, 0xcd]);
        assert_eq!((answer[2], answer[3], &answer[6..8]), (0x85, 0x80, &[0, 1][..]));
        assert!(answer.ends_with(&[0, 4, 10, 0, 0, 7]));
        let none = question.answer(&packet, &DnsAnswer::NoSuchName);
        assert_eq!((none[3], none.len()), (0x83, packet.len()));
    }

    #[test]
    fn other_query_types_get_an_empty_answer() {
        let packet = packet("web", 28);
        let question = DnsQuestion::parse(&packet).expect("a question");
        let answer = question.answer(&packet, &DnsAnswer::Addresses(vec![Ipv4Addr::LOCALHOST]));
        assert_eq!((answer[3], &answer[6..8]), (0x80, &[0, 0][..]));
    }

    #[test]
    fn invalid_packets_are_rejected() {
        let whole = packet("web", TYPE_A);
        for length in 0..whole.len() {
            assert_eq!(DnsQuestion::parse(&whole[..length]), None, "{length}");
        }
        let mut answer = whole;
        answer[2] |= 0x80;
        assert_eq!(DnsQuestion::parse(&answer), None);
    }

    #[track_caller]
    fn check(name: &str, expected: Option<ClusterDnsName>) {
        assert_eq!(place(name, "cluster.local"), expected, "{name}");
    }

    #[test]
    fn cluster_names_are_parsed() {
        check("web.shop.svc.cluster.local", Some(ClusterDnsName::Service { namespace: "shop", name: "web" }));
        let endpoint = ClusterDnsName::Endpoint { namespace: "shop", service: "db", hostname: "db-0" };
        check("db-0.db.shop.svc.cluster.local", Some(endpoint));
        check("10-1-2-3.shop.pod.cluster.local", Some(ClusterDnsName::Address(Ipv4Addr::new(10, 1, 2, 3))));
        check("cluster.local", Some(ClusterDnsName::Unknown));
        check("x.cluster.local", Some(ClusterDnsName::Unknown));
        check("example.com", None);
        check("notcluster.local", None);
    }
}
