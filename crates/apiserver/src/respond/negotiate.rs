//! Reads the `Accept` header: which encoding, and whether the client wants objects, tables or only metadata.

use http::{HeaderMap, HeaderValue, header};
use kinds::protobuf;
use object::Status;

use crate::served_resources::Resource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    Table,
    /// `PartialObjectMetadata`, or the list of it.
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub encoding: Encoding,
    pub shape: Shape,
    pub pretty: bool,
    pub gzip: bool,
}

const WRITABLE_TYPES: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

impl Format {
    /// The first form in the header in which objects of the resource can be given; 406 when there is none.
    ///
    /// Kinds without protobuf messages are given as protobuf only for requests of metadata.
    pub fn for_resource(resource: &Resource, headers: &HeaderMap, pretty: bool) -> Result<Self, Status> {
        let gvk = &resource.kind.gvk;
        let has_message = || resource.custom.is_none() && protobuf::knows(&gvk.api_version(), &gvk.kind);
        let format = Self::negotiate(accepted(headers), pretty, has_message, true)?;
        Ok(Self { gzip: accepts_gzip(headers), ..format })
    }

    /// The same for answers that are not stored objects: they have no tables and no metadata of their own.
    pub fn for_review(resource: &Resource, headers: &HeaderMap, pretty: bool) -> Result<Self, Status> {
        let gvk = &resource.kind.gvk;
        let has_message = || resource.custom.is_none() && protobuf::knows(&gvk.api_version(), &gvk.kind);
        let format = Self::negotiate(accepted(headers), pretty, has_message, false)?;
        Ok(Self { gzip: accepts_gzip(headers), ..format })
    }

    /// The same for documents about the API, which are all known in protobuf.
    pub fn for_discovery(headers: &HeaderMap, pretty: bool) -> Result<Self, Status> {
        let format = Self::negotiate(accepted(headers), pretty, || true, true)?;
        Ok(Self { gzip: accepts_gzip(headers), ..format })
    }

    /// For a `Status`, which is written in whatever the client reads, or else in JSON.
    pub fn for_status(accept: Option<&HeaderValue>) -> Self {
        let json = Self { encoding: Encoding::Json, shape: Shape::Object, pretty: false, gzip: false };
        let accept = accept.and_then(|value| value.to_str().ok());
        Self::negotiate(accept.into_iter(), false, || true, true)
            .map_or(json, |format| Self { shape: Shape::Object, ..format })
    }

    fn negotiate<'a>(
        accepted: impl Iterator<Item = &'a str>,
        pretty: bool,
        has_message: impl Fn() -> bool,
        has_shapes: bool,
    ) -> Result<Self, Status> {
        let plain = Self { encoding: Encoding::Json, shape: Shape::Object, pretty, gzip: false };
        let mut clauses: Vec<&str> =
            accepted.flat_map(|value| value.split(',')).map(str::trim).filter(|clause| !clause.is_empty()).collect();
        if clauses.is_empty() {
            return Ok(plain);
        }
        clauses.sort_by_key(|clause| std::cmp::Reverse(quality(clause)));
        let choice = clauses.into_iter().filter_map(read_clause).find(|(encoding, shape)| match (encoding, shape) {
            (_, Shape::Table | Shape::Metadata) if !has_shapes => false,
            (Encoding::Protobuf, Shape::Table) => false,
            (Encoding::Protobuf, Shape::Object) => has_message(),
            _ => true,
        });
        let (encoding, shape) = choice.ok_or_else(|| Status::not_acceptable(WRITABLE_TYPES))?;
        Ok(Self { encoding, shape, ..plain })
    }

    /// Can stored bytes go out as they lie?
    pub fn is_plain(self) -> bool {
        self.shape == Shape::Object && self.encoding == Encoding::Json && !self.pretty
    }
}

fn accepted(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok())
}

/// The `q` of a clause in thousandths.
fn quality(clause: &str) -> u32 {
    let given = clause.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("q="));
    let quality = given.and_then(|text| text.trim().parse::<f32>().ok()).unwrap_or(1.0);
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

fn read_clause(clause: &str) -> Option<(Encoding, Shape)> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
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
            // `charset` and `stream=watch` change nothing; other parameters ask for what we do not offer.
            _ => {}
        }
    }
    let plain = shape == Shape::Object;
    let known = plain || (group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1"));
    known.then_some((encoding, shape))
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
    fn the_first_supported_media_type_is_chosen() {
        use Encoding::{Json, Protobuf, Yaml};
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json";
        // The header, and what is chosen for a built-in and for a custom kind.
        let cases = [
            (kubectl, Some((Json, Shape::Table)), Some((Json, Shape::Table))),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some((Protobuf, Shape::Object)),
                Some((Json, Shape::Object)),
            ),
            ("application/vnd.kubernetes.protobuf;stream=watch", Some((Protobuf, Shape::Object)), None),
            (metadata, Some((Protobuf, Shape::Metadata)), Some((Protobuf, Shape::Metadata))),
            (table, Some((Json, Shape::Object)), Some((Json, Shape::Object))),
            ("application/yaml", Some((Yaml, Shape::Object)), Some((Yaml, Shape::Object))),
            ("*/*", Some((Json, Shape::Object)), Some((Json, Shape::Object))),
            ("text/html, */*;q=0.8", Some((Json, Shape::Object)), Some((Json, Shape::Object))),
            (
                "application/json;q=0.5, application/yaml;q=0.9",
                Some((Yaml, Shape::Object)),
                Some((Yaml, Shape::Object)),
            ),
            ("application/json;as=Table;g=other;v=v1", None, None),
        ];
        for (accept, built_in, custom) in cases {
            for (has_message, expected) in [(true, built_in), (false, custom)] {
                let got = Format::negotiate([accept].into_iter(), false, || has_message, true).ok();
                assert_eq!(got.map(|format| (format.encoding, format.shape)), expected, "{accept} {has_message}");
            }
        }
    }
}
