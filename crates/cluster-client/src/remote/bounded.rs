//! JSON of servers that are not trusted, read within bounds: bytes, memory, depth and the number of items.
//!
//! Text that is small can be large in memory: `{"":0}` takes a hundred times its length as a tree. Memory is therefore
//! counted while a document is read, and reading stops at the bound.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Largest answer to a list, per page.
pub const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most items of one page. Servers that ignore `limit` answer with everything they have.
pub const PAGE_ITEMS_MAX: usize = 50_000;
/// Memory the objects of one page may take as trees.
pub const PAGE_MEMORY_MAX: usize = 256 * 1024 * 1024;
/// Memory one object may take as a tree. API servers store objects of 1.5 MiB by default.
pub const OBJECT_MEMORY_MAX: usize = 64 * 1024 * 1024;

/// Memory of a map with its first entry: a whole node of the tree.
const MAP_BYTES: usize = 640;
/// Maximum memory of a further entry of a map, and of an element of a list.
const ENTRY_BYTES: usize = 112;
const ELEMENT_BYTES: usize = 64;
const ELEMENTS_FIRST_BYTES: usize = 128;

/// The memory that is left for documents that are read one after the other.
pub struct MemoryBudget {
    left: Cell<usize>,
}

impl MemoryBudget {
    pub fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes) }
    }

    pub fn left(&self) -> usize {
        self.left.get()
    }

    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(OUT_OF_MEMORY)),
        }
    }

    /// Takes what another budget has used.
    pub fn charge(&self, used: usize) -> bool {
        match self.left.get().checked_sub(used) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => false,
        }
    }
}

const OUT_OF_MEMORY: &str = "the document takes too much memory";
const TOO_MANY_ITEMS: &str = "the list has too many items";

/// Reports whether reading stopped at a bound of the document, not at a mistake in it.
pub fn is_too_large(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    text.starts_with(OUT_OF_MEMORY) || text.starts_with(TOO_MANY_ITEMS)
}

/// Reads a JSON document as a tree.
pub fn read_value(text: &[u8], budget: &MemoryBudget) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Tree { budget }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a JSON object as a tree.
pub fn read_map(text: &[u8], budget: &MemoryBudget) -> Result<Map<String, Value>, serde_json::Error> {
    match read_value(text, budget)? {
        Value::Object(map) => Ok(map),
        _ => Err(serde_json::Error::custom("not a JSON object")),
    }
}

/// The items of a list as text, not yet read. The list stops at `PAGE_ITEMS_MAX`.
#[derive(Default)]
pub struct RawItems<'a>(pub Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RawItems<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Items<'a> {
            type Value = RawItems<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(RawItems::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element::<&'a RawValue>()? {
                    if items.len() >= PAGE_ITEMS_MAX {
                        return Err(A::Error::custom(TOO_MANY_ITEMS));
                    }
                    items.push(item);
                }
                Ok(RawItems(items))
            }
        }
        deserializer.deserialize_any(Items(std::marker::PhantomData))
    }
}

/// The name of an object that cannot be read as a whole.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct ObjectName {
    metadata: NameMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NameMetadata {
    namespace: String,
    name: String,
}

impl ObjectName {
    /// Reads the name alone; empty where there is none to be read.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NameMetadata { namespace, name } = &self.metadata;
        let separator = if namespace.is_empty() { "" } else { "/" };
        // The server chooses the name, and it goes into the log.
        let name: String = format!("{namespace}{separator}{name}").chars().take(NAME_LENGTH_MAX).collect();
        write!(f, "{name:?}")
    }
}

const NAME_LENGTH_MAX: usize = 317;

/// Builds a tree and counts what it takes.
#[derive(Clone, Copy)]
struct Tree<'b> {
    budget: &'b MemoryBudget,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.budget.take(value.len())?;
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.budget.take(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            self.budget.take(if items.is_empty() { ELEMENTS_FIRST_BYTES } else { ELEMENT_BYTES })?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.budget.take(key.len() + if map.is_empty() { MAP_BYTES } else { ENTRY_BYTES })?;
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_as_serde_json_reads_them() {
        let text = r#"{"a":[1,-2,1.5,true,null,"x\n",{}],"b":{"c":{"d":[]}},"n":18446744073709551615}"#;
        let budget = MemoryBudget::new(1 << 20);
        let read = read_value(text.as_bytes(), &budget).expect("read");
        assert_eq!(read, serde_json::from_str::<Value>(text).expect("read"));
        assert!(read_map(b"[]", &budget).is_err() && read_value(b"{} {}", &budget).is_err());
    }

    #[test]
    fn reading_stops_at_the_memory_it_may_take() {
        for item in [r#"{"":0}"#, "[0]", "0", r#""xxxxxxxxxxxxxxxx""#, r#"{"a":{"b":{}}}"#] {
            let text = format!("[{}]", vec![item; 100_000].join(","));
            let error = read_value(text.as_bytes(), &MemoryBudget::new(1 << 20)).expect_err(item);
            assert!(is_too_large(&error), "{item}: {error}");
            assert!(read_value(text.as_bytes(), &MemoryBudget::new(1 << 30)).is_ok(), "{item}");
        }
    }

    #[test]
    fn the_estimate_is_at_least_the_allocated_memory() {
        // A map with one entry is the costliest for its text: a node has space for eleven entries.
        let node = 11 * (size_of::<String>() + size_of::<Value>()) + 16;
        assert!(MAP_BYTES >= node, "{node}");
        assert!(ELEMENT_BYTES >= 2 * size_of::<Value>() && ELEMENTS_FIRST_BYTES >= 4 * size_of::<Value>());
    }

    #[test]
    fn names_are_read_from_objects_that_are_too_deep() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        let text = format!(r#"{{"spec":{deep},"metadata":{{"name":"x","namespace":"a"}}}}"#);
        assert!(read_map(text.as_bytes(), &MemoryBudget::new(1 << 20)).is_err());
        assert_eq!(ObjectName::read(&text).to_string(), r#""a/x""#);
    }
}
