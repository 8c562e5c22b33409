//! Path templates: `/v1/instances/{name}:restart`.

use object::Status;

/// A part of a template between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(&'static str),
    /// The path of a field that takes the segment.
    Field(&'static str),
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    segments: Vec<Segment>,
    verb: Option<&'static str>,
}

/// Fields with their values.
pub type Bound = Vec<(&'static str, String)>;

impl Template {
    /// Templates come from generated tables; a test parses all of them.
    pub fn parse(text: &'static str) -> Self {
        let (path, verb) = match text.rfind(':') {
            Some(at) if !text[at..].contains(['/', '}']) => (&text[..at], Some(&text[at + 1..])),
            _ => (text, None),
        };
        let segments = path.trim_start_matches('/').split('/');
        let segments = segments.map(|segment| match segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            Some(field) => Segment::Field(field),
            None => Segment::Literal(segment),
        });
        Self { segments: segments.collect(), verb }
    }

    /// Returns the values of the fields if the path matches.
    pub fn matches(&self, segments: &[&str], verb: Option<&str>) -> Option<Bound> {
        if self.verb != verb || self.segments.len() != segments.len() {
            return None;
        }
        let mut bound = Bound::new();
        for (part, given) in self.segments.iter().zip(segments) {
            match part {
                Segment::Literal(text) if text == given => {}
                Segment::Literal(_) => return None,
                Segment::Field(field) => bound.push((field, object::percent::decode_lenient(given))),
            }
        }
        Some(bound)
    }

    /// Templates with more literal parts are preferred: `/clusters/pending` over `/clusters/{name}`.
    pub fn literals(&self) -> usize {
        self.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count()
    }
}

/// Splits a path into its segments and the verb after a colon. Parts that could mean another path are refused.
pub fn split(path: &str) -> Result<(Vec<&str>, Option<&str>), Status> {
    let (path, verb) = match path.rfind(':') {
        Some(at) if !path[at..].contains('/') => (&path[..at], Some(&path[at + 1..])),
        _ => (path, None),
    };
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    for segment in &segments {
        let decoded = object::percent::decode_lenient(segment);
        let is_bad = decoded.is_empty() || decoded == "." || decoded == ".." || decoded.chars().any(char::is_control);
        if is_bad {
            return Err(Status::bad_request("the path has an empty, relative or unprintable segment"));
        }
    }
    Ok((segments, verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &'static str, path: &str, expected: Option<&[(&'static str, &str)]>) {
        let found = split(path).ok().and_then(|(segments, verb)| Template::parse(template).matches(&segments, verb));
        let expected =
            expected.map(|pairs| pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect::<Bound>());
        assert_eq!(found, expected, "{template} {path}");
    }

    #[test]
    fn paths_are_matched_segment_by_segment() {
        check("/v1/instances", "/v1/instances", Some(&[]));
        check("/v1/instances/{name}", "/v1/instances/east", Some(&[("name", "east")]));
        check("/v1/instances/{name}", "/v1/instances/a%2Fb", Some(&[("name", "a/b")]));
        check("/v1/instances/{name}", "/v1/instances/east:restart", None);
        check("/v1/instances/{name}:restart", "/v1/instances/east:restart", Some(&[("name", "east")]));
        check("/v1/instances:watch", "/v1/instances:watch", Some(&[]));
        check("/v1/instances/{a.b}/x/{c}", "/v1/instances/1/x/2", Some(&[("a.b", "1"), ("c", "2")]));
        check("/v1/instances/{name}", "/v1/instances/", None);
        check("/v1/instances/{name}", "/v1/instances/..", None);
        check("/v1/instances/{name}", "/v1/instances/%2e%2e", None);
        check("/v1/instances/{name}", "/v1/instances/a%00", None);
        check("/v1/instances/{name}", "/v1//instances/a", None);
        check("/v1/instances/{name}", "/v1/instances/a/", None);
    }
}
