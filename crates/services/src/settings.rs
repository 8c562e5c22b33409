//! ServiceSettings of the controllers of services.

use propagation::skipped_namespaces::SkippedNamespaces;

/// Names in `--controllers` that this crate and the collection of slices in `member-sync` follow.
pub const CONTROLLERS: [&str; 6] = [
    "serviceExport",
    "endpointSlice",
    "serviceImport",
    "multiclusterservice",
    "endpointsliceCollect",
    "endpointsliceDispatch",
];

/// Which controllers run, and where.
#[derive(Clone, Debug, Default)]
pub struct ServiceSettings {
    /// Controllers that are switched off, of [`CONTROLLERS`].
    pub off: Vec<&'static str>,
    pub skipped_namespaces: SkippedNamespaces,
}

impl ServiceSettings {
    /// Reports whether a controller runs.
    pub fn is_enabled(&self, controller: &str) -> bool {
        !self.off.contains(&controller)
    }
}
