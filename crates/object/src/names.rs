//! Rules for names, labels and ports in Kubernetes, with their error texts.

/// Checks `name` as a DNS-1123 label (namespaces, containers, most parts of names).
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_many_characters(63));
    }
    if !is_dns1123_label_shape(name) {
        problems.push(if is_dns1123_subdomain_shape(name) {
            "must not contain dots".to_owned()
        } else {
            regex_message(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

/// Checks `name` as a DNS-1123 subdomain (the names of most objects).
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_many_characters(253));
    }
    if !is_dns1123_subdomain_shape(name) {
        problems.push(regex_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    problems
}

/// Checks `name` as a DNS-1035 label (services).
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_many_characters(63));
    }
    let starts_with_letter = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !starts_with_letter || !is_dns1123_label_shape(name) {
        problems.push(regex_message(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// Checks `name` as one segment of a URL path (roles, bindings and other names with colons).
pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Checks `key` as a qualified name: an optional DNS prefix, a slash and a name (labels, annotations, resources).
pub fn qualified_name(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    dns1123_subdomain(prefix)
                        .into_iter()
                        .map(|p| format!("prefix part {}", p.replace("253 characters", "253 bytes"))),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex_message(
                    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
                    &["MyName", "my.name", "123-abc"]
                )
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_label_word_shape(name) {
        problems.push(format!(
            "name part {}",
            regex_message(
                "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
                &["MyName", "my.name", "123-abc"]
            )
        ));
    }
    problems
}

/// Checks `value` as the value of a label; empty is allowed.
pub fn label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push(too_long(63));
    }
    if !value.is_empty() && !is_label_word_shape(value) {
        problems.push(regex_message(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// Checks a port name (IANA_SVC_NAME): at most 15 lowercase characters with at least one letter.
pub fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push(too_many_characters(15));
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec!["must be between 1 and 65535, inclusive".to_owned()] }
}

/// Checks a key of a ConfigMap or Secret.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push(too_many_characters(253));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        problems.push(regex_message(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// The text of the rules for names, ports and keys; labels and qualified names count in bytes ([`too_long`]).
pub fn too_many_characters(characters_max: usize) -> String {
    format!("must be no more than {characters_max} characters")
}

pub fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

/// The sentence Kubernetes builds for a failed pattern: the rule, examples and the pattern itself.
pub fn regex_message(rule: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{pattern}')");
    }
    let quoted: Vec<String> = examples.iter().map(|e| format!("'{e}'")).collect();
    let examples = quoted.join(",  or ");
    format!("{rule} (e.g. {examples}, regex used for validation is '{pattern}')")
}

fn is_dns1123_label_shape(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    !bytes.is_empty() && bytes.iter().all(inner) && bytes[0] != b'-' && bytes[bytes.len() - 1] != b'-'
}

fn is_dns1123_subdomain_shape(name: &str) -> bool {
    name.split('.').all(is_dns1123_label_shape)
}

fn is_label_word_shape(word: &str) -> bool {
    let bytes = word.as_bytes();
    let edge = |b: u8| b.is_ascii_alphanumeric();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !bytes.is_empty() && bytes.iter().all(inner) && edge(bytes[0]) && edge(bytes[bytes.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_accepted_and_refused_as_in_kubernetes() {
        type Rule = fn(&str) -> Vec<String>;
        let cases: &[(Rule, &str, bool)] = &[
            (dns1123_label, "web-1", true),
            (dns1123_label, "Web", false),
            (dns1123_label, "a.b", false),
            (dns1123_label, "", false),
            (dns1123_subdomain, "a.b-c.d", true),
            (dns1123_subdomain, "a..b", false),
            (dns1035_label, "1a", false),
            (dns1035_label, "a1", true),
            (qualified_name, "app.kubernetes.io/name", true),
            (qualified_name, "/name", false),
            (qualified_name, "a/b/c", false),
            (label_value, "", true),
            (label_value, "-x", false),
            (port_name, "http", true),
            (port_name, "80", false),
            (config_map_key, "a.b_c", true),
            (config_map_key, "..", false),
            (path_segment, "system:admin", true),
            (path_segment, "a/b", false),
        ];
        for (rule, input, valid) in cases {
            assert_eq!(rule(input).is_empty(), *valid, "{input}: {:?}", rule(input));
        }
    }
}
