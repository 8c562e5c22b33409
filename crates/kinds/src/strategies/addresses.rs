//! IP addresses and CIDRs in fields: validation and warnings.

use std::net::IpAddr;

use super::fields::Field;

impl Field<'_> {
    /// An IP address; values of the stored object are accepted unchanged.
    pub fn ip_address(self, kept: &[&str]) -> bool {
        let text = self.text();
        if kept.contains(&text) {
            return true;
        }
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
                self.invalid("must not be an IPv4-mapped IPv6 address");
                false
            }
            Ok(_) => true,
            Err(_) if without_leading_zeros(text).is_some() => {
                self.invalid("must not have leading 0s");
                false
            }
            Err(_) => {
                self.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
                false
            }
        }
    }

    /// A subnet such as `10.0.0.0/8`; values of the stored object are accepted unchanged.
    pub fn cidr(self, kept: &[&str]) {
        self.cidr_text(self.text(), kept);
    }

    pub fn cidr_text(self, text: &str, kept: &[&str]) {
        if kept.contains(&text) {
            return;
        }
        if let Some(problem) = cidr_problem(text) {
            self.invalid_as(text, problem);
        }
    }

    /// An address traffic can be sent to: neither unspecified nor loopback nor link-local.
    pub fn endpoint_address(self) {
        let Some(ip) = parse_sloppy(self.text()) else {
            return self.invalid("must be a valid IP address");
        };
        if ip.is_unspecified() {
            self.invalid(format!("may not be unspecified ({})", self.text()));
        }
        if ip.is_loopback() {
            self.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
        }
        let (link_local, link_local_multicast) = match ip {
            IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
        };
        if link_local {
            self.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
        }
        if link_local_multicast {
            self.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
        }
    }
}

/// Reports whether it can be parsed as a subnet, in any notation.
pub fn is_cidr(text: &str) -> bool {
    cidr_problem(text).is_none_or(|problem| problem != MALFORMED)
}

const MALFORMED: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

fn cidr_problem(text: &str) -> Option<&'static str> {
    let Some((address, length)) = text.split_once('/') else { return Some(MALFORMED) };
    let Some(ip) = parse_sloppy(address) else { return Some(MALFORMED) };
    let bits_max = if ip.is_ipv4() { 32 } else { 128 };
    let all_digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let Some(bits) = length.parse::<u32>().ok().filter(|n| all_digits && *n <= bits_max) else {
        return Some(MALFORMED);
    };
    if address.parse::<IpAddr>().is_err() || (length.len() > 1 && length.starts_with('0')) {
        return Some("must not have leading 0s in IP or prefix length");
    }
    let beyond = match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            return Some("must not have an IPv4-mapped IPv6 address");
        }
        IpAddr::V4(v4) => u128::from(v4.to_bits()) & !(u128::MAX << (32 - bits)) != 0,
        IpAddr::V6(v6) => bits < 128 && v6.to_bits() & (u128::MAX >> bits) != 0,
    };
    beyond.then_some("must not have bits set beyond the prefix length")
}

/// Parses addresses as Kubernetes historically did: leading zeros in IPv4 octets are ignored.
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| without_leading_zeros(text))
}

pub fn is_ipv6(text: &str) -> bool {
    matches!(parse_sloppy(text), Some(IpAddr::V6(_)))
}

fn without_leading_zeros(text: &str) -> Option<IpAddr> {
    let stripped: Vec<&str> = text
        .split('.')
        .map(|octet| match octet.trim_start_matches('0') {
            "" if !octet.is_empty() => "0",
            rest => rest,
        })
        .collect();
    (stripped.len() == 4).then(|| stripped.join(".").parse().ok()).flatten()
}

/// The warning for a valid address in a non-canonical form.
pub fn spelling_warning(path: &str, text: &str) -> Option<String> {
    let canonical = text.parse::<IpAddr>().ok()?;
    let spelled = canonical.to_string();
    (canonical.is_ipv6() && spelled != text)
        .then(|| format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({spelled:?})"))
}

/// Reports whether these are one IPv4 and one IPv6 address.
pub fn is_dual_stack(addresses: &[&str]) -> bool {
    addresses.iter().any(|a| is_ipv6(a)) && addresses.iter().any(|a| !is_ipv6(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_validated_as_in_kubernetes() {
        let cases = [
            ("10.0.0.0/8", None),
            ("0.0.0.0/0", None),
            ("2001:db8::/64", None),
            ("::/0", None),
            ("10.0.0.1/32", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("010.0.0.0/8", Some("must not have leading 0s in IP or prefix length")),
            ("10.0.0.0/33", Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
            ("10.0.0.0", Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
        ];
        for (text, expected) in cases {
            assert_eq!(cidr_problem(text), expected, "{text}");
        }
    }
}
