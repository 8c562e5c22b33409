//! Records of the last writes to the member, so that an event of an unchanged object costs no comparison and no
//! request.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use object::Object;
use parking_lot::Mutex;

/// The record of each Work of a member. Bounded by the number of Works.
#[derive(Default)]
pub struct Records {
    works: Mutex<HashMap<String, WorkRecord>>,
}

#[derive(Default)]
struct WorkRecord {
    /// Of the work, when its manifests were applied.
    generation: i64,
    manifests: Vec<Option<Seen>>,
}

/// An object of the member as it was when it was as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    uid: String,
    version: Version,
    /// Labels and annotations change without a new generation.
    marks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    /// Counts changes of what is wanted, and not those of the status.
    Generation(i64),
    /// For kinds whose generation stays 0.
    Resource(String),
}

impl Seen {
    fn of(observed: &Object) -> Self {
        let version = match observed.generation() {
            0 => Version::Resource(observed.resource_version().to_owned()),
            generation => Version::Generation(generation),
        };
        let mut hasher = DefaultHasher::new();
        observed.labels().for_each(|entry| entry.hash(&mut hasher));
        0xffu8.hash(&mut hasher);
        observed.annotations().for_each(|entry| entry.hash(&mut hasher));
        Self { uid: observed.uid().to_owned(), version, marks: hasher.finish() }
    }
}

impl Records {
    /// The manifest was applied in this generation of the work and the object is still what it was then.
    pub fn is_settled(&self, work: &Object, ordinal: usize, observed: &Object) -> bool {
        let works = self.works.lock();
        let Some(record) = works.get(work.name()).filter(|record| record.generation == work.generation()) else {
            return false;
        };
        matches!(record.manifests.get(ordinal), Some(Some(seen)) if *seen == Seen::of(observed))
    }

    /// The manifest was applied in this generation of the work, whatever happened to the object since.
    pub fn was_applied(&self, work: &Object, ordinal: usize) -> bool {
        let works = self.works.lock();
        let record = works.get(work.name()).filter(|record| record.generation == work.generation());
        record.is_some_and(|record| matches!(record.manifests.get(ordinal), Some(Some(_))))
    }

    /// The object is now as the manifest wants it.
    pub fn settle(&self, work: &Object, ordinal: usize, observed: &Object) {
        let mut works = self.works.lock();
        let record = works.entry(work.name().to_owned()).or_default();
        if record.generation != work.generation() {
            record.generation = work.generation();
            record.manifests.clear();
        }
        if record.manifests.len() <= ordinal {
            record.manifests.resize(ordinal + 1, None);
        }
        record.manifests[ordinal] = Some(Seen::of(observed));
    }

    pub fn forget(&self, work: &str) {
        self.works.lock().remove(work);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(metadata: Value) -> Object {
        Object::from_value(json!({"metadata": metadata})).expect("a map")
    }

    #[test]
    fn an_object_is_up_to_date_until_it_or_its_work_changes() {
        let records = Records::default();
        let work = object(json!({"name": "w", "generation": 1}));
        let observed = |generation: i64, version: &str, label: &str| {
            object(json!({"name": "o", "uid": "u", "generation": generation, "resourceVersion": version,
                "labels": {"a": label}}))
        };
        assert!(!records.is_settled(&work, 0, &observed(1, "1", "x")));
        records.settle(&work, 0, &observed(1, "1", "x"));
        assert!(records.is_settled(&work, 0, &observed(1, "2", "x")), "its status changed");
        assert!(!records.is_settled(&work, 0, &observed(2, "2", "x")), "its spec changed");
        assert!(!records.is_settled(&work, 0, &observed(1, "2", "y")), "its labels changed");
        assert!(!records.is_settled(&work, 1, &observed(1, "1", "x")), "another manifest");
        let changed = object(json!({"name": "w", "generation": 2}));
        assert!(!records.is_settled(&changed, 0, &observed(1, "1", "x")), "the work changed");
        assert!(records.was_applied(&work, 0) && !records.was_applied(&changed, 0));

        records.settle(&work, 0, &observed(0, "5", "x"));
        assert!(records.is_settled(&work, 0, &observed(0, "5", "x")));
        assert!(!records.is_settled(&work, 0, &observed(0, "6", "x")), "without a generation any change counts");
        records.forget("w");
        assert!(!records.is_settled(&work, 0, &observed(0, "5", "x")));
    }
}
