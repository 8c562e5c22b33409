//! Resource versions and continue tokens of lists over many members, compatible with Karmada's clients.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::Status;
use reconcile::ObjectKey;
use serde::{Deserialize, Serialize};

/// The version of each member, encoded as base64 of a JSON map with sorted keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    by_cluster: BTreeMap<String, String>,
    /// `0` was requested, which means any version of every member.
    is_any: bool,
}

impl Versions {
    /// Invalid text counts as no version, as in Karmada.
    pub fn parse(text: &str) -> Self {
        Self { by_cluster: read(text).unwrap_or_default(), is_any: text == "0" }
    }

    pub fn one(cluster: &str, version: &str) -> Self {
        let mut versions = Self::default();
        versions.set(cluster, version);
        versions
    }

    /// Empty if the member has no version.
    pub fn get(&self, cluster: &str) -> &str {
        if self.is_any { "0" } else { self.by_cluster.get(cluster).map_or("", String::as_str) }
    }

    pub fn knows(&self, cluster: &str) -> bool {
        self.by_cluster.contains_key(cluster)
    }

    pub fn set(&mut self, cluster: &str, version: &str) {
        self.is_any &= version == "0";
        match self.by_cluster.get_mut(cluster) {
            Some(known) => version.clone_into(known),
            None => drop(self.by_cluster.insert(cluster.to_owned(), version.to_owned())),
        }
    }

    /// Sets the version unless a later one is known.
    pub fn advance(&mut self, cluster: &str, version: &str) {
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        if number(version) >= self.by_cluster.get(cluster).map_or(0, |known| number(known)) {
            self.set(cluster, version);
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any {
            return f.write_str("0");
        }
        if self.by_cluster.is_empty() {
            return Ok(());
        }
        let json = serde_json::to_vec(&self.by_cluster).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

/// Returns `None` if the text is not such a version; a member's own is a number and never one.
pub fn read(text: &str) -> Option<BTreeMap<String, String>> {
    let json = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&json).ok()
}

/// The start of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The versions of the first page: a watch from there misses nothing that later pages show late.
    pub versions: Versions,
    pub cluster: String,
    /// The last object of the previous page; `None` for the first one.
    pub after: Option<ObjectKey>,
}

#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(default)]
    rv: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    cluster: String,
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    within: String,
}

impl ContinueToken {
    pub fn parse(text: &str) -> Result<Self, Status> {
        let json = URL_SAFE_NO_PAD.decode(text).ok();
        let token = json.and_then(|json| serde_json::from_slice::<Token>(&json).ok());
        let token = token.filter(|token| !token.cluster.is_empty());
        let token = token.ok_or_else(|| Status::bad_request("continue key is not valid"))?;
        let after = match token.within.split_once('/') {
            Some((namespace, name)) => Some(ObjectKey::new(namespace, name)),
            None if token.within.is_empty() => None,
            None => return Err(Status::bad_request("continue key is not valid")),
        };
        Ok(Self { versions: Versions::parse(&token.rv), cluster: token.cluster, after })
    }
}

impl fmt::Display for ContinueToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = self.after.as_ref().map(|key| format!("{}/{}", key.namespace, key.name)).unwrap_or_default();
        let token = Token { rv: self.versions.to_string(), cluster: self.cluster.clone(), within };
        let json = serde_json::to_vec(&token).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pairs as encoded by Karmada 1.18 (pkg/search/proxy/store/util.go).
    #[test]
    fn versions_are_written_as_karmada_writes_them() {
        let mut versions = Versions::default();
        assert_eq!(versions.to_string(), "");
        versions.set("member2", "20");
        versions.set("member1", "1");
        assert_eq!(versions.to_string(), URL_SAFE_NO_PAD.encode(r#"{"member1":"1","member2":"20"}"#));
        assert_eq!(Versions::parse(&versions.to_string()), versions);
        let any = Versions::parse("0");
        assert_eq!((any.get("member1"), any.to_string().as_str()), ("0", "0"));
        let mut seen = any;
        seen.set("member1", "7");
        assert_eq!((seen.get("member1"), seen.get("member2")), ("7", ""));
    }

    #[test]
    fn invalid_versions_are_ignored_and_invalid_tokens_rejected() {
        for text in ["", "12345", "!!", "bm90IGpzb24", "WzFd"] {
            assert_eq!(Versions::parse(text), Versions::default(), "{text}");
        }
        for text in ["", "!!", "bm90IGpzb24", &URL_SAFE_NO_PAD.encode(r#"{"rv":"x"}"#)] {
            assert_eq!(ContinueToken::parse(text).map_err(|status| status.code), Err(400), "{text}");
        }
        let token = URL_SAFE_NO_PAD.encode(r#"{"rv":"","cluster":"m2"}"#);
        let expected = ContinueToken { versions: Versions::default(), cluster: "m2".into(), after: None };
        assert_eq!(ContinueToken::parse(&token), Ok(expected.clone()));
        assert_eq!(expected.to_string(), token);
    }

    #[test]
    fn a_version_only_advances() {
        let mut versions = Versions::one("a", "5");
        versions.advance("a", "4");
        versions.advance("b", "3");
        versions.advance("a", "10");
        assert_eq!((versions.get("a"), versions.get("b")), ("10", "3"));
    }

    proptest! {
        #[test]
        fn versions_and_continue_tokens_round_trip(
            by_cluster in prop::collection::btree_map("[a-z][a-z0-9-]{0,12}", "[1-9][0-9]{0,9}", 0..6),
            cluster in "[a-z][a-z0-9-]{0,12}",
            after in prop::option::of(("[a-z0-9-]{0,8}", "[a-z0-9.:-]{1,12}")),
        ) {
            let versions = Versions { by_cluster, is_any: false };
            prop_assert_eq!(&Versions::parse(&versions.to_string()), &versions);
            let after = after.map(|(namespace, name)| ObjectKey::new(&namespace, &name));
            let place = ContinueToken { versions, cluster, after };
            prop_assert_eq!(ContinueToken::parse(&place.to_string()), Ok(place));
        }

        #[test]
        fn any_text_round_trips(text in ".{0,64}") {
            let _ = Versions::parse(&text);
            let _ = ContinueToken::parse(&text);
        }
    }
}
