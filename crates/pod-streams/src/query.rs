//! The options in the query of a streaming request.

use http::Uri;
use object::query::Query;

use crate::backend::{LogOptions, Refusal};

/// The query of a request for a stream.
pub fn query_of(uri: &Uri) -> Query {
    Query::parse(uri.query().unwrap_or_default())
}

fn number<T: std::str::FromStr>(query: &Query, name: &str) -> Result<Option<T>, Refusal> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Refusal::new(400, format!("{name}: {text:?} is not a valid number")))
}

pub fn log_options(query: &Query) -> Result<LogOptions, Refusal> {
    let options = LogOptions {
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        tail_lines: number(query, "tailLines")?,
        limit_bytes: number(query, "limitBytes")?,
        since_seconds: number(query, "sinceSeconds")?,
        since_time: query.get("sinceTime").map(str::to_owned),
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

/// The ports to forward: clients of an API server send `ports`, clients of a kubelet `port`; each may be a list.
pub fn ports(query: &Query) -> Result<Vec<u16>, Refusal> {
    let named = query.all("ports").chain(query.all("port")).flat_map(|text| text.split(','));
    let read = |text: &str| {
        let refused = || Refusal::new(400, format!("unable to parse {text:?} as a port"));
        text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(refused)
    };
    named.filter(|text| !text.is_empty()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        query_of(&format!("/x?{text}").parse().expect("a query"))
    }

    #[test]
    fn commands_keep_their_order_and_escapes_are_decoded() {
        let q = query("command=sh&command=-c&command=echo+a%26b%20%C3%A9&command=%zz&tty=false&stdin=true&stdout");
        assert_eq!(q.all("command").collect::<Vec<_>>(), ["sh", "-c", "echo a&b é"]);
        assert_eq!((q.flag("tty"), q.flag("stdin"), q.flag("stdout"), q.flag("stderr")), (false, true, true, false));
    }

    #[test]
    fn options_of_logs_are_checked() {
        let options = log_options(&query("tailLines=5&sinceSeconds=60&follow=1")).expect("good");
        assert_eq!((options.tail_lines, options.since_seconds, options.follow), (Some(5), Some(60), true));
        let bad = ["tailLines=-1", "limitBytes=x", "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", "sinceSeconds=0"];
        for text in bad {
            assert!(log_options(&query(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_have_two_forms() {
        assert_eq!(ports(&query("ports=80,81&port=443")).expect("ports"), [80, 81, 443]);
        assert!(ports(&query("ports=0")).is_err());
        assert!(ports(&query("ports=99999")).is_err());
    }
}
