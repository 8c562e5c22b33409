//! The addresses that connections to servers named by users may lead to.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;

/// A metadata service of a cloud that is not at a link-local address.
const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Addresses that are refused. The default refuses none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Link-local addresses, at which metadata services are, and addresses that no server has.
    pub forbids_link_local: bool,
    /// Addresses of this machine.
    pub forbids_loopback: bool,
}

impl AddressPolicy {
    /// Returns the reason to refuse an address.
    pub fn refuses(self, address: IpAddr) -> Option<&'static str> {
        let address = match address {
            IpAddr::V6(six) => six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4),
            four @ IpAddr::V4(_) => four,
        };
        let is_link_local = match address {
            IpAddr::V4(four) => four.is_link_local(),
            IpAddr::V6(six) => (six.segments()[0] & 0xffc0) == 0xfe80 || six == METADATA,
        };
        if is_link_local && self.forbids_link_local {
            return Some("is a link-local address, which metadata services use");
        }
        if (address.is_unspecified() || address.is_multicast()) && self.forbids_link_local {
            return Some("is not the address of a server");
        }
        if address.is_loopback() && self.forbids_loopback {
            return Some("is an address of this machine");
        }
        None
    }

    /// Returns the addresses of a host, all of which are allowed. Connect to one of them: the name may change its address.
    pub async fn resolve(self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        for address in &found {
            if let Some(problem) = self.refuses(address.ip()) {
                let text = format!("{host} ({}) {problem}", address.ip());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
        }
        Ok(found)
    }

    /// Opens a connection to an allowed address of a host.
    pub async fn open_tcp(self, host: &str, port: u16) -> io::Result<TcpStream> {
        let stream = match self == Self::default() {
            true => TcpStream::connect((host, port)).await?,
            false => TcpStream::connect(&self.resolve(host, port).await?[..]).await?,
        };
        // Requests are small and wait for their responses.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_metadata_services_and_of_this_machine_are_refused() {
        let refuses = |text: &str, forbids_loopback: bool| {
            let policy = AddressPolicy { forbids_link_local: true, forbids_loopback };
            policy.refuses(text.parse().expect("an address")).is_some()
        };
        for bad in
            ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "::", "224.0.0.1"]
        {
            assert!(refuses(bad, false), "{bad}");
            assert!(AddressPolicy::default().refuses(bad.parse().expect("an address")).is_none(), "{bad}");
        }
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(refuses(own, true) && !refuses(own, false), "{own}");
        }
        assert!(!refuses("10.0.0.1", true) && !refuses("2001:db8::1", true));
    }

    #[tokio::test]
    async fn a_name_is_checked_by_its_addresses() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let strict = AddressPolicy { forbids_link_local: true, forbids_loopback: true };
        for host in ["localhost", "127.0.0.1"] {
            let refused = strict.open_tcp(host, port).await.expect_err("refused");
            assert!(refused.to_string().contains("is an address of this machine"), "{refused}");
            AddressPolicy::default().open_tcp(host, port).await.expect("opened");
        }
    }
}
