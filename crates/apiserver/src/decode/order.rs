//! The order in which fields occur in a JSON document, for error messages that list them as a reader met them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The number of keys before the first occurrence of each path; paths that are not there come last.
pub(super) fn positions(body: &[u8], paths: &[&str]) -> Vec<usize> {
    let mut walk = Walk { keys: 0, found: vec![usize::MAX; paths.len()] };
    let wanted: Vec<Wanted<'_>> = paths.iter().enumerate().map(|(index, rest)| Wanted { index, rest }).collect();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    // The document was read before, so an error only ends the search.
    let _ = WalkSeed { walk: &mut walk, wanted }.deserialize(&mut deserializer);
    walk.found
}

struct Walk {
    keys: usize,
    found: Vec<usize>,
}

/// A path below the present place.
#[derive(Clone, Copy)]
struct Wanted<'p> {
    index: usize,
    rest: &'p str,
}

impl<'p> Wanted<'p> {
    /// The rest of the path below a key, if the path leads there.
    fn below_key(self, key: &str) -> Option<Self> {
        let rest = self.rest.strip_prefix('.').unwrap_or(self.rest).strip_prefix(key)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some(Self { rest, ..self })
    }

    fn below_index(self, index: usize) -> Option<Self> {
        let rest = self.rest.strip_prefix('[')?.strip_prefix(&index.to_string())?.strip_prefix(']')?;
        Some(Self { rest, ..self })
    }
}

struct WalkSeed<'w, 'p> {
    walk: &'w mut Walk,
    wanted: Vec<Wanted<'p>>,
}

impl<'de> DeserializeSeed<'de> for WalkSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for WalkSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let wanted: Vec<_> = self.wanted.iter().filter_map(|path| path.below_index(index)).collect();
            let more = items.next_element_seed(WalkSeed { walk: &mut *self.walk, wanted })?;
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            self.walk.keys += 1;
            let mut wanted = Vec::new();
            for below in self.wanted.iter().filter_map(|path| path.below_key(&key)) {
                if below.rest.is_empty() {
                    let found = &mut self.walk.found[below.index];
                    *found = (*found).min(self.walk.keys);
                } else {
                    wanted.push(below);
                }
            }
            entries.next_value_seed(WalkSeed { walk: &mut *self.walk, wanted })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_they_occur() {
        let body = br#"{"b":{"y":1,"x":[{"k":1},{"k":2}]},"a":null,"b":3}"#;
        assert_eq!(positions(body, &["a", "b.y", "b.x[1].k", "nope", "b"]), [6, 2, 5, usize::MAX, 1]);
    }
}
