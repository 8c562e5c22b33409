//! Kubeconfig files for users created by the control plane.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The credential of a kubeconfig user. Secret, so it has no `Debug`.
pub enum Credential<'a> {
    ClientCertificate { certificate_pem: &'a str, key_pem: &'a str },
    Token(&'a str),
}

/// A kubeconfig with everything embedded; cluster, user and context have the context's name.
pub fn kubeconfig(server_url: &str, ca_pem: &str, credential: &Credential<'_>, context_name: &str) -> String {
    kubeconfig_for_name(server_url, None, ca_pem, credential, context_name)
}

/// The same; the server is requested and verified by `server_name` if there is one.
pub fn kubeconfig_for_name(
    server_url: &str,
    server_name: Option<&str>,
    ca_pem: &str,
    credential: &Credential<'_>,
    context_name: &str,
) -> String {
    let (name, user) = (scalar(context_name), user_lines(credential));
    let (server, ca) = (scalar(server_url), STANDARD.encode(ca_pem));
    let server_name = server_name.map(|name| format!("    tls-server-name: {}\n", scalar(name))).unwrap_or_default();
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - cluster:\n    certificate-authority-data: {ca}\n    server: {server}\n{server_name}  name: {name}\n\
         contexts:\n\
         - context:\n    cluster: {name}\n    user: {name}\n  name: {name}\n\
         current-context: {name}\n\
         preferences: {{}}\n\
         users:\n\
         - name: {name}\n  user:\n{user}"
    )
}

fn user_lines(credential: &Credential<'_>) -> String {
    match credential {
        Credential::ClientCertificate { certificate_pem, key_pem } => {
            let (certificate, key) = (STANDARD.encode(certificate_pem), STANDARD.encode(key_pem));
            format!("    client-certificate-data: {certificate}\n    client-key-data: {key}\n")
        }
        Credential::Token(token) => format!("    token: {}\n", scalar(token)),
    }
}

/// Names and addresses stay unquoted if YAML reads them as text; anything else is quoted (a JSON string is YAML).
fn scalar(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:".contains(character);
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    let starts_as_text = text.starts_with(|first: char| first.is_ascii_alphabetic()) && !is_word;
    if starts_as_text && text.chars().all(plain) && !text.ends_with(':') {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_yaml_would_misread_is_quoted() {
        let check = |text: &str, expected: &str| assert_eq!(scalar(text), expected);
        check("karmada-apiserver", "karmada-apiserver");
        check("https://127.0.0.1:5443", "https://127.0.0.1:5443");
        check("https://[::1]:5443", "\"https://[::1]:5443\"");
        check("true", "\"true\"");
        check("0123", "\"0123\"");
        check("a: b", "\"a: b\"");
        check("two\nlines", "\"two\\nlines\"");
        check("", "\"\"");
    }

    #[test]
    fn a_token_kubeconfig_contains_the_token_and_the_authority() {
        let text = kubeconfig("https://h:1", "CA", &Credential::Token("abc.def"), "ctx");
        for expected in ["    token: abc.def\n", "certificate-authority-data: Q0E=\n", "current-context: ctx\n"] {
            assert!(text.contains(expected), "{text}");
        }
    }
}
