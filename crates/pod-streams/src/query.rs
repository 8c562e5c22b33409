//! The query of a streaming request.

use http::Uri;

use crate::backend::{LogOptions, Refusal};

/// Names and values in order, decoded.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name), unescape(value))
        });
        Self(pairs.collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses booleans as Go does in queries: only an explicit false is false.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let refused = || Refusal::new(400, format!("{name}: {text:?} is not a valid number"));
        text.parse().map(Some).map_err(|_| refused())
    }

    pub fn log_options(&self) -> Result<LogOptions, Refusal> {
        let options = LogOptions {
            follow: self.flag("follow"),
            previous: self.flag("previous"),
            timestamps: self.flag("timestamps"),
            tail_lines: self.number("tailLines")?,
            limit_bytes: self.number("limitBytes")?,
            since_seconds: self.number("sinceSeconds")?,
            since_time: self.get("sinceTime").filter(|text| !text.is_empty()).map(str::to_owned),
        };
        if options.since_seconds.is_some() && options.since_time.is_some() {
            let text = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            return Err(Refusal::new(422, format!("PodLogOptions \"\" is invalid: : Forbidden: {text}")));
        }
        if options.since_seconds.is_some_and(|seconds| seconds < 1) {
            let text = "PodLogOptions \"\" is invalid: sinceSeconds: Invalid value: must be greater than 0";
            return Err(Refusal::new(422, text));
        }
        Ok(options)
    }

    /// `ports` from clients of an API server, `port` from clients of a kubelet; each may be a list.
    pub fn ports(&self) -> Result<Vec<u16>, Refusal> {
        let named = self.all("ports").chain(self.all("port")).flat_map(|text| text.split(','));
        let read = |text: &str| {
            let refused = || Refusal::new(400, format!("unable to parse {text:?} as a port"));
            text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(refused)
        };
        named.filter(|text| !text.is_empty()).map(read).collect()
    }
}

fn unescape(text: &str) -> String {
    object::percent::decode_lenient(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().expect("a query"))
    }

    #[test]
    fn commands_keep_their_order_and_escapes_are_decoded() {
        let q = query("command=sh&command=-c&command=echo+a%26b%20%C3%A9%zz&tty=false&stdin=true&stdout");
        assert_eq!(q.all("command").collect::<Vec<_>>(), ["sh", "-c", "echo a&b é%zz"]);
        assert_eq!((q.flag("tty"), q.flag("stdin"), q.flag("stdout"), q.flag("stderr")), (false, true, true, false));
    }

    #[test]
    fn options_of_logs_are_checked() {
        let options = query("tailLines=5&sinceSeconds=60&follow=1").log_options().expect("good");
        assert_eq!((options.tail_lines, options.since_seconds, options.follow), (Some(5), Some(60), true));
        let bad = ["tailLines=-1", "limitBytes=x", "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", "sinceSeconds=0"];
        for text in bad {
            assert!(query(text).log_options().is_err(), "{text}");
        }
    }

    #[test]
    fn ports_have_two_spellings() {
        assert_eq!(query("ports=80,81&port=443").ports().expect("ports"), [80, 81, 443]);
        assert!(query("ports=0").ports().is_err());
        assert!(query("ports=99999").ports().is_err());
    }
}
