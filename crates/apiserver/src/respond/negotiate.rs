//! Reads the `Accept` header: which encoding, and whether the client wants objects, tables or only metadata.

use http::{HeaderMap, header};
use object::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    Table,
    /// `PartialObjectMetadata`, or the list of it.
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub yaml: bool,
    pub shape: Shape,
    pub pretty: bool,
    pub gzip: bool,
}

const WRITABLE_TYPES: &[&str] = &["application/json", "application/yaml"];

impl Format {
    /// The first form in the header that can be given; 406 when there is none.
    pub fn negotiate(headers: &HeaderMap, pretty: bool) -> Result<Self, Status> {
        let gzip = accepts_gzip(headers);
        let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).peekable();
        if accepted.peek().is_none() {
            return Ok(Self { yaml: false, shape: Shape::Object, pretty, gzip });
        }
        let choice = accepted.flat_map(|value| value.split(',')).find_map(read_clause);
        let (yaml, shape) = choice.ok_or_else(|| Status::not_acceptable(WRITABLE_TYPES))?;
        Ok(Self { yaml, shape, pretty, gzip })
    }
}

fn read_clause(clause: &str) -> Option<(bool, Shape)> {
    let mut parts = clause.split(';').map(str::trim);
    let yaml = match parts.next()? {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let (mut shape, mut group, mut version) = (Shape::Object, "", "");
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("as", "Table")) => shape = Shape::Table,
            Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) => shape = Shape::Metadata,
            Some(("as", _)) => return None,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            // `charset`, `q` and `stream=watch` change nothing; other parameters ask for what we do not offer.
            _ => {}
        }
    }
    let plain = shape == Shape::Object;
    let known = plain || (group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1"));
    known.then_some((yaml, shape))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|p| p == "q=0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_can_be_given_is_chosen() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let cases = [
            (kubectl, Some((false, Shape::Table))),
            ("application/vnd.kubernetes.protobuf,application/json", Some((false, Shape::Object))),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/yaml", Some((true, Shape::Object))),
            ("*/*", Some((false, Shape::Object))),
            ("text/html, */*;q=0.8", Some((false, Shape::Object))),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some((false, Shape::Metadata))),
            ("application/json;as=Table;g=other;v=v1", None),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            let got = Format::negotiate(&headers, false).ok().map(|f| (f.yaml, f.shape));
            assert_eq!(got, expected, "{accept}");
        }
    }
}
