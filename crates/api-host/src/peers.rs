//! The address by which other servers on the same storage reach this one.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use anyhow::Context;

use crate::options::{Options, Storage};

/// Returns `HOST:PORT`, or `None` when the storage is not shared.
pub fn address(options: &Options, bound: SocketAddr) -> anyhow::Result<Option<String>> {
    let Storage::Etcd(etcd) = &options.storage else { return Ok(None) };
    if let Some(given) = &options.peer_address {
        let port = given.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
        anyhow::ensure!(matches!(port, Some(Ok(1..))), "{given:?} is not an address like 10.0.0.1:5443 or host:5443");
        return Ok(Some(given.clone()));
    }
    if !bound.ip().is_unspecified() {
        return Ok(Some(bound.to_string()));
    }
    let own = etcd.endpoints.iter().find_map(|endpoint| address_towards(endpoint));
    let own = own.context(
        "cannot detect the address for other servers: there is no route to any etcd server; set --peer-address HOST:PORT",
    )?;
    Ok(Some(SocketAddr::new(own, bound.port()).to_string()))
}

/// Returns the local address of the route to etcd, which other servers also use.
fn address_towards(endpoint: &str) -> Option<IpAddr> {
    let authority = endpoint.split("://").last()?.split('/').next()?;
    let target = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => format!("{host}:{port}"),
        _ => format!("{authority}:2379"),
    };
    // Connecting a datagram socket sends nothing; it only resolves the route.
    let targets = std::net::ToSocketAddrs::to_socket_addrs(&target).ok()?;
    targets.into_iter().find_map(|target| {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(target).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bound: &str, given: Option<&str>, etcd: Option<&str>, expected: Result<Option<&str>, &str>) {
        let bound: SocketAddr = bound.parse().expect("an address");
        let mut options = Options::new("test", "/nowhere", bound);
        options.peer_address = given.map(str::to_owned);
        if let Some(endpoint) = etcd {
            options.storage = Storage::Etcd(store::etcd::EtcdOptions::new([endpoint]));
        }
        match (address(&options, bound), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn the_peer_address_is_the_bound_or_the_routed_address() {
        let etcd = Some("https://127.0.0.1:2379");
        check("10.1.2.3:5443", None, None, Ok(None));
        check("10.1.2.3:5443", None, etcd, Ok(Some("10.1.2.3:5443")));
        check("0.0.0.0:5443", None, etcd, Ok(Some("127.0.0.1:5443")));
        check("0.0.0.0:5443", None, Some("http://localhost"), Ok(Some("127.0.0.1:5443")));
        check("0.0.0.0:5443", Some("flotilla-2.example.net:443"), etcd, Ok(Some("flotilla-2.example.net:443")));
        check("0.0.0.0:5443", Some("flotilla-2"), etcd, Err("is not an address"));
        check("0.0.0.0:5443", None, Some("https://no.such.name.invalid:2379"), Err("--peer-address"));
    }
}
