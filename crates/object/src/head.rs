//! The metadata of an encoded object that lists and watches filter by, parsed without the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

/// Parsing it takes a fraction of the time of parsing the object.
#[derive(Deserialize)]
pub struct Head<'a> {
    #[serde(borrow)]
    pub metadata: HeadMeta<'a>,
}

#[derive(Deserialize)]
pub struct HeadMeta<'a> {
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

impl<'a> Head<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
