//! URLs parsed as by Go's `net/url`.

use super::{CallContext, Function, insert_entry, no_overload_for};
use crate::value::{EvalError, Evaluated, Map, Opaque, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |context, args| match args {
            [Value::String(text)] => match Url::parse(text) {
                Ok(url) => Ok(Value::Opaque(Opaque::Url(Arc::new(url)))),
                Err(error) => Err(EvalError::new(format!("URL parse error during conversion from string: {error}"))),
            },
            _ => no_overload_for(context, args),
        },
        "isURL" => |context, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
            _ => no_overload_for(context, args),
        },
        "getScheme" => |context, args| part(context, args, |url| url.scheme.clone()),
        "getHost" => |context, args| part(context, args, |url| url.host.clone()),
        "getHostname" => |context, args| part(context, args, |url| url.hostname().to_owned()),
        "getPort" => |context, args| part(context, args, |url| url.port().to_owned()),
        "getEscapedPath" => |context, args| part(context, args, |url| escaped_path(&url.path)),
        "getQuery" => query,
        _ => return None,
    })
}

fn part<'a>(context: &CallContext, args: &[Value<'a>], read: fn(&Url) -> String) -> Evaluated<'a> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(Value::text(read(url))),
        _ => no_overload_for(context, args),
    }
}

fn query<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Opaque(Opaque::Url(url))] = args else { return no_overload_for(context, args) };
    let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| unescape(&text.replace('+', " ")).ok();
        if let (Some(key), Some(value)) = (decode(key), decode(value)) {
            values.entry(key).or_default().push(Value::text(value));
        }
    }
    let mut entries = BTreeMap::new();
    for (key, values) in values {
        insert_entry(&mut entries, Value::text(key), Value::list(values))?;
    }
    Ok(Value::Map(Map::made(entries)))
}

impl Url {
    /// Parses an absolute URL, or a path starting with a slash.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_parts(text).map_err(|cause| format!("parse {text:?}: {cause}"))
    }

    fn parse_parts(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        if !rest.starts_with('/') && scheme.is_empty() {
            return Err("invalid URI for request".to_owned());
        }
        // The check includes the fragment, the parsing does not.
        let (rest, _fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let scheme = scheme.to_ascii_lowercase();
        let make = |host: String, path: &str| Self {
            text: text.to_owned(),
            scheme: scheme.clone(),
            host,
            path: path.to_owned(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            return Ok(make(String::new(), ""));
        }
        let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            None => (String::new(), rest),
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (read_authority(authority)?, path)
            }
        };
        unescape(path)?;
        Ok(make(host, path))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inside, _)) => inside,
            None => self.host.split_once(':').map_or(self.host.as_str(), |(name, _)| name),
        }
    }

    fn port(&self) -> &str {
        let after = self.host.rsplit_once(']').map_or(self.host.as_str(), |(_, after)| after);
        after.split_once(':').map_or("", |(_, port)| port)
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn read_authority(authority: &str) -> Result<String, String> {
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(allowed) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user)?;
            host
        }
    };
    let port = match host.strip_prefix('[') {
        Some(_) => match host.rfind(']') {
            None => return Err("missing ']' in host".to_owned()),
            Some(end) => &host[end + 1..],
        },
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let valid_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if !valid_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    let host = unescape(host)?;
    let allowed = |c: &char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(*c);
    match host.chars().find(|c| !allowed(c)) {
        Some(bad) => Err(format!("invalid character {:?} in host name", bad.to_string())),
        None => Ok(host),
    }
}

/// Decodes percent escapes.
fn unescape(text: &str) -> Result<String, String> {
    match object::percent::decode(text) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(at) => {
            let shown: String = text[at..].chars().take(3).collect();
            Err(format!("invalid URL escape {shown:?}"))
        }
    }
}

/// The path as given if it is validly escaped, else escaped again.
fn escaped_path(path: &str) -> String {
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@".contains(c);
    let valid = |c: char| unreserved(c) || "!'()*[]%".contains(c);
    if path.chars().all(valid) {
        return path.to_owned();
    }
    let decoded = unescape(path).unwrap_or_else(|_| path.to_owned());
    let mut escaped = String::new();
    for byte in decoded.bytes() {
        if unreserved(char::from(byte)) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
