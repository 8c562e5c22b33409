//! Names of instances below a domain: `NAME.instances.DOMAIN`, as a host and in TLS handshakes (SNI).

use apiserver::mount::RequestedNames;
use object::Status;

use crate::proxy::PREFIX;

/// The label between the name of an instance and the domain.
const LABEL: &str = "instances";

/// The names of all instances of this manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceNames {
    /// `.instances.DOMAIN`
    suffix: String,
}

impl InstanceNames {
    pub fn below(domain: &str) -> Result<Self, String> {
        let domain = domain.to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_allowed = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            (1..=63).contains(&label.len()) && is_allowed && !label.starts_with('-') && !label.ends_with('-')
        };
        if domain.len() > 180 || !domain.split('.').all(is_label) || domain.parse::<std::net::IpAddr>().is_ok() {
            return Err(format!("--instances-domain: {domain:?} is not a DNS name"));
        }
        Ok(Self { suffix: format!(".{LABEL}.{domain}") })
    }

    /// The name in the serving certificate.
    pub fn wildcard(&self) -> String {
        format!("*{}", self.suffix)
    }

    /// Returns the name of an instance. Instances of other namespaces are not one DNS label.
    pub fn name_of(&self, instance: &str) -> Result<String, String> {
        match instance.contains('~') || instance.len() > 63 {
            true => Err(format!("address: the instance {instance} has no name of its own; use its path")),
            false => Ok(format!("{instance}{}", self.suffix)),
        }
    }

    /// Returns the path at the manager of a request to the name of an instance. The name in the handshake selects the
    /// instance; a host or a path that names another one is refused, so that checks of either cannot be circumvented.
    pub fn path_of(&self, names: &RequestedNames<'_>, path: &str) -> Result<Option<String>, Status> {
        let from_handshake = names.server_name.and_then(|name| self.instance_in(name));
        let from_host = names.host.and_then(|host| self.instance_in(&without_port(host).to_ascii_lowercase()));
        let Some(instance) = from_handshake else {
            return match from_host {
                Some(_) => Err(misdirected("the host names an instance and the TLS handshake does not")),
                None => Ok(None),
            };
        };
        if from_host.is_some_and(|host| host != instance) {
            return Err(misdirected("the host and the TLS handshake name different instances"));
        }
        let Some(rest) = path.strip_prefix(PREFIX) else {
            return Ok(Some(format!("{PREFIX}{instance}{path}")));
        };
        match rest.split('/').next() == Some(instance.as_str()) {
            true => Ok(Some(path.to_owned())),
            false => Err(misdirected("the path and the TLS handshake name different instances")),
        }
    }

    /// Returns the instance that a name stands for. Labels that no instance can have are returned too: they exist nowhere.
    fn instance_in(&self, name: &str) -> Option<String> {
        let label = name.trim_end_matches('.').strip_suffix(self.suffix.as_str())?;
        (!label.is_empty()).then(|| label.to_owned())
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// 421: the client may repeat the request on another connection.
fn misdirected(problem: &str) -> Status {
    Status::new(421, "MisdirectedRequest", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Result<Option<&str>, u16> = Err(421);

    #[track_caller]
    fn check(server_name: Option<&str>, host: &str, path: &str, expected: Result<Option<&str>, u16>) {
        let names = InstanceNames::below("Example.com").expect("a domain");
        let found = names.path_of(&RequestedNames { server_name, host: Some(host) }, path);
        let found = found.as_ref().map(|path| path.as_deref()).map_err(|status| status.code);
        assert_eq!(found, expected, "{server_name:?} {host} {path}");
    }

    #[test]
    fn the_name_in_the_handshake_selects_the_instance() {
        let east = Some("east.instances.example.com");
        let of_east = Ok(Some("/instances/east/api/v1/pods"));
        check(east, "east.instances.example.com:5443", "/api/v1/pods", of_east);
        check(east, "EAST.instances.example.com.", "/api/v1/pods", of_east);
        // A client with `tls-server-name` sends the host of its URL.
        check(east, "127.0.0.1:5443", "/api/v1/pods", of_east);
        check(east, "127.0.0.1:5443", "/instances/east/api/v1/pods", of_east);
        check(None, "127.0.0.1:5443", "/instances/east/api", Ok(None));
        check(Some("manager.example.com"), "manager.example.com", "/api", Ok(None));
        check(Some("instances.example.com"), "manager.example.com", "/api", Ok(None));
    }

    #[test]
    fn names_that_contradict_each_other_are_refused() {
        let east = Some("east.instances.example.com");
        check(east, "west.instances.example.com", "/api", REFUSED);
        check(east, "east.instances.example.com", "/instances/west/api", REFUSED);
        check(east, "east.instances.example.com", "/instances/eastern/api", REFUSED);
        check(east, "east.instances.example.com", "/instances/", REFUSED);
        check(None, "east.instances.example.com", "/api", REFUSED);
        check(Some("manager.example.com"), "east.instances.example.com", "/api", REFUSED);
        // The certificate covers one label only; two labels are no instance of the manager.
        let deep = Some("a.east.instances.example.com");
        check(deep, "127.0.0.1", "/api", Ok(Some("/instances/a.east/api")));
    }

    #[test]
    fn a_domain_is_a_dns_name() {
        for wrong in ["", ".", "a..b", "-a.example", "10.0.0.1", "a_b.example", "*.example"] {
            assert!(InstanceNames::below(wrong).is_err(), "{wrong}");
        }
        let names = InstanceNames::below("example.com").expect("a domain");
        assert_eq!(names.wildcard(), "*.instances.example.com");
        assert_eq!(names.name_of("east").as_deref(), Ok("east.instances.example.com"));
        assert!(names.name_of("team~east").is_err());
    }
}
