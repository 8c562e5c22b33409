//! Scheduler plugins that `--plugins` enables and disables by name.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    ApiEnablement,
    TaintToleration,
    ClusterAffinity,
    SpreadConstraint,
    ClusterLocality,
    ClusterEviction,
    WorkloadAffinity,
    WorkloadAntiAffinity,
}

impl Plugin {
    pub const ALL: [Self; 8] = [
        Self::ApiEnablement,
        Self::TaintToleration,
        Self::ClusterAffinity,
        Self::SpreadConstraint,
        Self::ClusterLocality,
        Self::ClusterEviction,
        Self::WorkloadAffinity,
        Self::WorkloadAntiAffinity,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ApiEnablement => "APIEnablement",
            Self::TaintToleration => "TaintToleration",
            Self::ClusterAffinity => "ClusterAffinity",
            Self::SpreadConstraint => "SpreadConstraint",
            Self::ClusterLocality => "ClusterLocality",
            Self::ClusterEviction => "ClusterEviction",
            Self::WorkloadAffinity => "WorkloadAffinity",
            Self::WorkloadAntiAffinity => "WorkloadAntiAffinity",
        }
    }
}

/// The enabled plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugins {
    bits: u8,
}

impl Default for Plugins {
    fn default() -> Self {
        Self { bits: u8::MAX }
    }
}

impl Plugins {
    /// Parses the items of `--plugins`: `*` enables all, a name enables one, `-name` disables one. Unknown names are
    /// ignored.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str> + Clone) -> Self {
        let all = items.clone().into_iter().any(|item| item == "*");
        let mut plugins = Self { bits: if all { u8::MAX } else { 0 } };
        for item in items {
            let find = |name: &str| Plugin::ALL.into_iter().find(|plugin| plugin.name() == name);
            if let Some(plugin) = find(item) {
                plugins.bits |= 1 << plugin as u8;
            } else if let Some(plugin) = item.strip_prefix('-').and_then(find) {
                plugins.bits &= !(1 << plugin as u8);
            }
        }
        plugins
    }

    pub fn has(&self, plugin: Plugin) -> bool {
        self.bits >> plugin as u8 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(items: &[&str], expected: &[Plugin]) {
        let plugins = Plugins::parse(items.iter().copied());
        let on: Vec<Plugin> = Plugin::ALL.into_iter().filter(|plugin| plugins.has(*plugin)).collect();
        assert_eq!(on, expected, "{items:?}");
    }

    #[test]
    fn plugins_are_switched_by_name() {
        check(&["*"], &Plugin::ALL);
        check(&[], &[]);
        check(&["TaintToleration"], &[Plugin::TaintToleration]);
        let without: Vec<Plugin> =
            Plugin::ALL.into_iter().filter(|plugin| *plugin != Plugin::ClusterEviction).collect();
        check(&["*", "-ClusterEviction"], &without);
        check(&["-ClusterEviction", "*"], &without);
        check(&["Unknown", "-Unknown"], &[]);
    }
}
