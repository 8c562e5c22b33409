//! Does a resource selector select a template, how specifically, and if not, which of its fields differ?

use std::fmt;

use api::policy::ResourceSelector;
use object::Object;
use object::selector::LabelSelector;

/// Specificity of a selector; later is more specific. Karmada's implicit priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Specificity {
    /// By kind and namespace alone.
    All = 1,
    /// By labels.
    Labels = 2,
    /// By name.
    Name = 3,
}

/// A resource selector, ready to be matched.
#[derive(Clone, Debug)]
pub struct Selector {
    pub written: ResourceSelector,
    /// Label requirements; `None` when the selector has none.
    labels: Option<Result<LabelSelector, String>>,
}

/// One field of a selector that a template does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    ApiVersion {
        wanted: String,
        found: String,
    },
    Kind {
        wanted: String,
        found: String,
    },
    Namespace {
        wanted: String,
        found: String,
    },
    Name {
        wanted: String,
        found: String,
    },
    /// One requirement, and the label as the template has it.
    Label {
        wanted: String,
        found: Option<String>,
    },
    /// The label selector cannot be read, so it selects nothing.
    Unreadable(String),
}

impl Selector {
    pub fn new(written: ResourceSelector) -> Self {
        // If there is a name, labels are ignored.
        let labels = written.label_selector.as_ref().filter(|_| written.name.is_empty());
        let labels = labels.map(|labels| labels.compile().map_err(|error| error.to_string()));
        Self { written, labels }
    }

    /// Returns how specifically it selects the template; `None` when it does not.
    pub fn selects(&self, template: &Object) -> Option<Specificity> {
        let written = &self.written;
        let is_of_kind = template.kind() == written.kind && template.api_version() == written.api_version;
        if !is_of_kind || !(written.namespace.is_empty() || written.namespace == template.namespace()) {
            return None;
        }
        if !written.name.is_empty() {
            return (written.name == template.name()).then_some(Specificity::Name);
        }
        match &self.labels {
            None => Some(Specificity::All),
            // Even an empty label selector counts as one.
            Some(Ok(labels)) => labels.matches(template).then_some(Specificity::Labels),
            Some(Err(_)) => None,
        }
    }

    /// A label value that every selected template has, where there is one: what an index can find the selector by.
    pub fn required_label(&self) -> Option<(&str, &str)> {
        let labels = self.written.label_selector.as_ref().filter(|_| self.labels.is_some())?;
        labels.match_labels.iter().next().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Every field the template does not meet; none when it is selected.
    pub fn misses(&self, template: &Object) -> Vec<Miss> {
        let written = &self.written;
        let mut misses = Vec::new();
        let pair = |wanted: &str, found: &str| (wanted.to_owned(), found.to_owned());
        if written.kind != template.kind() {
            let (wanted, found) = pair(&written.kind, template.kind());
            misses.push(Miss::Kind { wanted, found });
        }
        if written.api_version != template.api_version() {
            let (wanted, found) = pair(&written.api_version, template.api_version());
            misses.push(Miss::ApiVersion { wanted, found });
        }
        if !written.namespace.is_empty() && written.namespace != template.namespace() {
            let (wanted, found) = pair(&written.namespace, template.namespace());
            misses.push(Miss::Namespace { wanted, found });
        }
        if !written.name.is_empty() && written.name != template.name() {
            let (wanted, found) = pair(&written.name, template.name());
            misses.push(Miss::Name { wanted, found });
        }
        match &self.labels {
            None => {}
            Some(Err(error)) => misses.push(Miss::Unreadable(error.clone())),
            Some(Ok(labels)) => misses.extend(labels.requirements().iter().filter_map(|requirement| {
                let found = template.label(&requirement.key);
                let miss = || Miss::Label { wanted: requirement.to_string(), found: found.map(str::to_owned) };
                (!requirement.matches(found)).then(miss)
            })),
        }
        misses
    }
}

impl Miss {
    /// Distance from a match: another kind is further than another name, a label is nearest.
    pub fn distance(&self) -> u32 {
        match self {
            Self::Kind { .. } => 100,
            Self::ApiVersion { wanted, found } if group(wanted) != group(found) => 50,
            Self::Unreadable(_) => 20,
            Self::Name { .. } => 12,
            Self::Namespace { .. } => 8,
            Self::ApiVersion { .. } => 6,
            Self::Label { .. } => 4,
        }
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl fmt::Display for Specificity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "by kind",
            Self::Labels => "by labels",
            Self::Name => "by name",
        })
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiVersion { wanted, found } => write!(f, "apiVersion is {found}, not {wanted}"),
            Self::Kind { wanted, found } => write!(f, "kind is {found}, not {wanted}"),
            Self::Namespace { wanted, found } if found.is_empty() => {
                write!(f, "it has no namespace, {wanted} is wanted")
            }
            Self::Namespace { wanted, found } => write!(f, "namespace is {found}, not {wanted}"),
            Self::Name { wanted, found } => write!(f, "name is {found}, not {wanted}"),
            Self::Label { wanted, found: Some(found) } => {
                write!(f, "labels do not meet {wanted}: the value is {found:?}")
            }
            Self::Label { wanted, found: None } => write!(f, "labels do not meet {wanted}: there is no such label"),
            Self::Unreadable(error) => write!(f, "its labelSelector selects nothing: {error}"),
        }
    }
}
