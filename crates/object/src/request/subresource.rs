//! The subresource of a request.

use serde::{Serialize, Serializer};

/// A part of an object, or an action on it, with an endpoint of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subresource {
    Approval,
    Attach,
    Binding,
    EphemeralContainers,
    Eviction,
    Exec,
    Finalize,
    Log,
    PortForward,
    Proxy,
    Resize,
    Scale,
    Status,
    Token,
    /// Any other path segment in this position: subresources of aggregated APIs, and paths that no kind serves.
    Other(Box<str>),
}

impl Subresource {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Approval => "approval",
            Self::Attach => "attach",
            Self::Binding => "binding",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Eviction => "eviction",
            Self::Exec => "exec",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::PortForward => "portforward",
            Self::Proxy => "proxy",
            Self::Resize => "resize",
            Self::Scale => "scale",
            Self::Status => "status",
            Self::Token => "token",
            Self::Other(name) => name,
        }
    }

    /// Reads a path segment; the empty one is none.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "" => return None,
            "approval" => Self::Approval,
            "attach" => Self::Attach,
            "binding" => Self::Binding,
            "ephemeralcontainers" => Self::EphemeralContainers,
            "eviction" => Self::Eviction,
            "exec" => Self::Exec,
            "finalize" => Self::Finalize,
            "log" => Self::Log,
            "portforward" => Self::PortForward,
            "proxy" => Self::Proxy,
            "resize" => Self::Resize,
            "scale" => Self::Scale,
            "status" => Self::Status,
            "token" => Self::Token,
            other => Self::Other(other.into()),
        })
    }

    /// The name where texts have an empty string for none: rules, audit records, metrics.
    pub fn name_of(subresource: Option<&Self>) -> &str {
        subresource.map(Self::as_str).unwrap_or_default()
    }

    /// Reports whether requests stay open by design.
    pub fn is_stream(&self) -> bool {
        matches!(self, Self::Log | Self::Exec | Self::Attach | Self::PortForward | Self::Proxy)
    }
}

impl std::fmt::Display for Subresource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Subresource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Subresource;

    #[test]
    fn names_are_read_back() {
        let known = "approval attach binding ephemeralcontainers eviction exec finalize log portforward proxy resize \
                     scale status token";
        for name in known.split_whitespace() {
            let read = Subresource::parse(name).expect("not empty");
            assert!(!matches!(read, Subresource::Other(_)), "{name}");
            assert_eq!(read.as_str(), name);
        }
        assert_eq!(Subresource::parse("custom"), Some(Subresource::Other("custom".into())));
        assert_eq!(Subresource::parse(""), None);
        assert_eq!(Subresource::name_of(None), "");
    }
}
