//! Fields an applier wants that others own, and the refusal that lists them.

use crate::patch::fieldset::{Path, Set};
use crate::patch::managed::ManagedEntry;
use crate::status::{Status, StatusCause, StatusDetails};

/// One field and the manager that owns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The manager as messages name it.
    pub manager: String,
    pub path: Path,
    /// The sort key of managers.
    order: String,
}

/// All conflicts of one apply, by manager and path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    pub(super) fn add(&mut self, manager: &ManagedEntry, fields: &Set) {
        let (name, order) = (manager.describe(), manager.identifier());
        let conflict = |path| Conflict { manager: name.clone(), path, order: order.clone() };
        self.0.extend(fields.paths().into_iter().map(conflict));
        self.0.sort_by(|a, b| a.order.cmp(&b.order));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn without(self, allowed: &Set) -> Self {
        Self(self.0.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect())
    }

    pub fn message(&self) -> String {
        if let [only] = self.0.as_slice() {
            return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
        }
        let mut lines = Vec::new();
        for group in self.0.chunk_by(|a, b| a.order == b.order) {
            lines.push(format!("conflicts with {}:", group[0].manager));
            lines.extend(group.iter().map(|conflict| format!("- {}", conflict.path)));
        }
        format!("Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }

    pub fn to_status(&self) -> Status {
        let causes = self.0.iter().map(|conflict| StatusCause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", conflict.manager),
            field: conflict.path.to_string(),
        });
        let details = StatusDetails { causes: causes.collect(), ..StatusDetails::default() };
        Status::new(409, "Conflict", self.message()).with_details(details)
    }
}
