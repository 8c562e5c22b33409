//! The string formats of a custom resource's schema, checked as in kube-apiserver.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Returns true when the text has the format; `None` when the format is not checked.
pub fn has_format(format: &str, text: &str) -> Option<bool> {
    let name: String = format.chars().filter(|c| *c != '-').collect();
    Some(match name.as_str() {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "uri" => is_request_uri(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && parse_ip_sloppy(text),
        "ipv6" => text.contains(':') && parse_ipv6(text).is_some(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None, false),
        "uuid3" => is_uuid(text, Some('3'), false),
        "uuid4" => is_uuid(text, Some('4'), true),
        "uuid5" => is_uuid(text, Some('5'), true),
        "byte" => is_base64(text),
        "password" => true,
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "k8sshortname" => text.len() <= 63 && is_dns_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_dns_label),
        _ => return None,
    })
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern compiles")
}

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let plain = r"[a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)";
    let label = r"[a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)";
    pattern(&format!(r"^({plain}|({label}(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"))
});
static TIME_OF_DAY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static DURATION_PART: LazyLock<Regex> = LazyLock::new(|| pattern(r"([0-9]+)[\t\n\x0c\r ]*([A-Za-zµ]+)"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    pattern(&format!(r"^rgb\({number},{number},{number}\)$"))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| pattern("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
});

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME_OF_DAY.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

fn is_duration(text: &str) -> bool {
    if crate::duration::parse(text).is_ok() {
        return true;
    }
    const UNITS: &[(&[&str], &str)] = &[
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    DURATION_PART.captures_iter(text).any(|part| {
        let unit = part[2].to_lowercase();
        UNITS.iter().any(|(exact, prefix)| exact.contains(&unit.as_str()) || unit.starts_with(prefix))
    })
}

/// An address with or without a display name; the parts RFC 5322 allows beyond dot-atoms are rare enough to refuse.
fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => &inner[open + 1..],
        (None, None) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.trim().rsplit_once('@') else { return false };
    let atom = |part: &str, extra: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || extra.contains(c) || !c.is_ascii())
    };
    let dotted = |text: &str| text.split('.').all(|part| atom(part, "!#$%&'*+-/=?^_`{|}~"));
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || dotted(local)) && (dotted(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

/// Accepts the texts of Go's `url.ParseRequestURI`: an absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    let scheme_end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(text.len());
    let has_scheme = text[scheme_end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = if has_scheme { &text[scheme_end + 1..] } else { text };
    if text.starts_with(':') || (!has_scheme && !rest.starts_with('/') && rest != "*") {
        return false;
    }
    if !rest.starts_with('/') {
        return has_scheme && !rest.is_empty() || rest == "*";
    }
    let path = rest.split('?').next().unwrap_or_default();
    let (host, path) = match path.strip_prefix("//") {
        Some(after) if has_scheme => after.split_at(after.find('/').unwrap_or(after.len())),
        _ => ("", path),
    };
    crate::percent::is_whole(path) && is_host(host.rsplit_once('@').map_or(host, |(_, host)| host))
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((address, port)) => (address, port),
            None => return false,
        },
        None => host.split_at(host.rfind(':').unwrap_or(host.len())),
    };
    let port_is_number =
        port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    port_is_number && !name.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

/// Go's older parser, kept by Kubernetes, reads leading zeros in IPv4 as decimal.
fn parse_ip_sloppy(text: &str) -> bool {
    parse_ipv4_sloppy(text).is_some() || parse_ipv6(text).is_some()
}

fn parse_ipv4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))?;
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|e| if part.bytes().all(|b| b == b'0') { Ok(0) } else { Err(e) })
            .ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits_max = if parse_ipv4_sloppy(address).is_some() {
        32
    } else if parse_ipv6(address).is_some() {
        128
    } else {
        return false;
    };
    !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|b| b <= bits_max)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let bytes = parts.len() * digits / 2;
        matches!(bytes, 6 | 8 | 20)
            && parts.iter().all(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn is_uuid(text: &str, version: Option<char>, variant: bool) -> bool {
    let mut rest = text;
    for (index, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some(group) = rest.get(..digits).filter(|g| g.bytes().all(|b| b.is_ascii_hexdigit())) else { return false };
        if index == 2 && version.is_some_and(|version| !group.starts_with(version)) {
            return false;
        }
        if index == 3 && variant && !group.starts_with(['8', '9', 'a', 'b', 'A', 'B']) {
            return false;
        }
        rest = &rest[digits..];
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let padding = text.len() - data.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && data.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

fn is_dns_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn isbn_digits(text: &str) -> Vec<u32> {
    let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    kept.map(|c| if c == 'X' { 10 } else { c.to_digit(10).unwrap_or(99) }).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let well_formed = digits.len() == 10 && digits[..9].iter().all(|d| *d < 10) && digits[9] <= 10;
    well_formed && digits.iter().zip(1..).map(|(digit, weight)| digit * weight).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let well_formed = digits.len() == 13 && digits.iter().all(|d| *d < 10);
    well_formed
        && digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn = |(index, c): (usize, char)| {
        let digit = c.to_digit(10).unwrap_or(0);
        if index % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    CREDIT_CARD.is_match(&digits) && digits.chars().rev().enumerate().map(luhn).sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_as_kube_apiserver_does() {
        let cases = [
            ("date-time", "2014-12-15T19:30:20.000Z", true),
            ("date-time", "2014-12-15T19:30:20+02:00", true),
            ("date-time", "2014-12-15", false),
            ("date-time", "2014-13-15T19:30:20Z", false),
            ("date", "2020-02-30", false),
            ("date", "2020-02-29", true),
            ("duration", "1h30m", true),
            ("duration", "22 ns", true),
            ("duration", "3 weeks", true),
            ("duration", "abc", false),
            ("email", "a@b.c", true),
            ("email", "Joe <a@b.c>", true),
            ("email", "a.b.c", false),
            ("uri", "http://example.com/a?b#c", true),
            ("uri", "/abs/path", true),
            ("uri", "relative", false),
            ("uri", "http://a:b", false),
            ("hostname", "example.com", true),
            ("hostname", "-bad-.com", false),
            ("ipv4", "192.168.0.1", true),
            ("ipv4", "010.0.0.1", true),
            ("ipv4", "256.0.0.1", false),
            ("ipv6", "::1", true),
            ("ipv6", "1.2.3.4", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("mac", "01:23:45:67:89:ab", true),
            ("mac", "0123.4567.89ab", true),
            ("mac", "01:23", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("uuid4", "123e4567-e89b-12d3-a456-426614174000", false),
            ("byte", "aGk=", true),
            ("byte", "aGk", false),
            ("isbn", "978-0321751041", true),
            ("isbn10", "0321751043", true),
            ("creditcard", "4111 1111 1111 1111", true),
            ("k8s-short-name", "a-b", true),
            ("k8s-long-name", "a.B", false),
            ("hexcolor", "#FFF", true),
            ("rgbcolor", "rgb(255, 1, 2)", true),
            ("ssn", "111-11-1111", true),
        ];
        for (format, text, expected) in cases {
            assert_eq!(has_format(format, text), Some(expected), "{format}: {text}");
        }
        assert_eq!(has_format("unheard-of", "x"), None);
    }
}
