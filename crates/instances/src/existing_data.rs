//! Keeps an instance that has lost its data from starting as an empty control plane with new keys.

use std::path::PathBuf;

use object::Object;

/// Facts about the data of an instance that does not run.
#[derive(Clone, Debug, Default)]
pub struct DataFacts {
    pub was_ready: bool,
    /// The data is in a directory of a manager, not in an external etcd or a control plane of others.
    pub is_local: bool,
    pub is_here: bool,
    /// A backup that the instance asks for can be read here.
    pub can_restore: bool,
    pub directory: PathBuf,
    /// The directory at the last start.
    pub last_directory: String,
}

/// Returns true for an instance that was ready once: its control plane has an identity.
pub fn was_ready(instance: &Object) -> bool {
    !instance.str_at(&["status", "identity"]).is_empty()
}

/// Returns why an instance cannot be started without losing data, and the remedy.
pub fn missing(facts: &DataFacts) -> Option<String> {
    let DataFacts { was_ready, is_local, is_here, can_restore, directory, last_directory } = facts;
    if !was_ready || !is_local || *is_here || *can_restore {
        return None;
    }
    let here = directory.display().to_string();
    let there = match last_directory.is_empty() || *last_directory == here {
        true => String::new(),
        false => format!(" (it was last in {last_directory})"),
    };
    Some(format!(
        "the data of this control plane is not in {here}{there}: start the manager that has it, move the directory here, or \
         restore a backup; to begin with an empty control plane, delete the instance and create it again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, change: impl FnOnce(&mut DataFacts), expected: Option<&str>) {
        let mut facts =
            DataFacts { was_ready: true, is_local: true, directory: "/b/instances/1".into(), ..DataFacts::default() };
        change(&mut facts);
        match (missing(&facts), expected) {
            (None, None) => {}
            (Some(text), Some(expected)) => assert!(text.contains(expected), "{name}: {text:?} lacks {expected:?}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    }

    #[test]
    fn only_an_instance_that_never_was_ready_starts_without_data() {
        check("lost", |_| {}, Some("not in /b/instances/1: start the manager"));
        check("elsewhere", |f| f.last_directory = "/a/instances/1".into(), Some("(it was last in /a/instances/1)"));
        check("new", |f| f.was_ready = false, None);
        check("here", |f| f.is_here = true, None);
        check("restored from a backup", |f| f.can_restore = true, None);
        check("in an etcd", |f| f.is_local = false, None);
    }
}
