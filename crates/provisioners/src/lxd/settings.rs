//! Settings of machines in LXD or Incus, and the names of all resources.

use std::path::PathBuf;

/// Marks all resources created by flotilla; its value is the testbed's name.
pub const MARK: &str = "user.flotilla";
/// The machine spec, stored on the instance once it is completely set up.
pub const MACHINE: &str = "user.flotilla.machine";
/// The image property with the content key.
pub const IMAGE_KEY: &str = "flotilla.key";
pub const POOL: &str = "flotilla";
pub const BRIDGE: &str = "flotillabr0";
/// The bridge created by `lxd init`; used if it exists.
pub const COMMON_BRIDGE: &str = "lxdbr0";
/// Devices of ours on an instance.
pub const FORWARD_PREFIX: &str = "forward-";
pub const REVERSE_PREFIX: &str = "reverse-";

#[derive(Clone, Debug)]
pub struct LxdSettings {
    /// Separates the machines of different testbeds: profile and instances carry this name.
    pub testbed: String,
    /// The binary in the image; by default the running one.
    pub binary: PathBuf,
    /// The daemon's socket; by default the first that answers.
    pub socket: Option<PathBuf>,
    /// The image of machines; by default our own.
    pub image: ImageSource,
    /// An existing managed bridge; by default `lxdbr0`, or else our own.
    pub network: Option<String>,
    /// An existing storage pool; by default `default`, or else our own.
    pub pool: Option<String>,
    /// Root inside is root outside: required by MicroK8s and containerd, not by our member.
    pub privileged: bool,
    /// Adds the kernel settings of MicroK8s to the profile.
    pub microk8s: bool,
    pub limits: Limits,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Cores, such as `2`, or pinned ones, such as `0-1`.
    pub cpu: Option<String>,
    /// For example `2GiB`.
    pub memory: Option<String>,
    pub processes: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// Built here from the binary, see `image`.
    Own,
    /// An alias or fingerprint known to the daemon.
    Local(String),
    /// An alias on a public image server.
    Server { server: &'static str, alias: String },
}

impl LxdSettings {
    pub fn new(testbed: &str, binary: PathBuf) -> Self {
        Self {
            testbed: testbed.to_owned(),
            binary,
            socket: None,
            image: ImageSource::Own,
            network: None,
            pool: None,
            privileged: false,
            microk8s: false,
            limits: Limits::default(),
        }
    }

    /// The names used in the documentation if there is only one testbed.
    pub fn instance(&self, machine: &str) -> String {
        if self.testbed == "default" { machine.to_owned() } else { format!("{}-{machine}", self.testbed) }
    }

    pub fn profile(&self) -> String {
        if self.testbed == "default" { "flotilla".to_owned() } else { format!("flotilla-{}", self.testbed) }
    }
}

impl ImageSource {
    /// `ubuntu:22.04` and `images:debian/12` are downloaded by the daemon; any other name must exist locally.
    pub fn parse(text: &str) -> Self {
        let server = |server, alias: &str| Self::Server { server, alias: alias.to_owned() };
        match text.split_once(':') {
            Some(("ubuntu", alias)) => server("https://cloud-images.ubuntu.com/releases", alias),
            Some(("images", alias)) => server("https://images.linuxcontainers.org", alias),
            Some(("local", alias)) => Self::Local(alias.to_owned()),
            _ if text.is_empty() || text == "flotilla" => Self::Own,
            _ => Self::Local(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_parsed() {
        let ubuntu = ImageSource::parse("ubuntu:22.04");
        assert!(
            matches!(ubuntu, ImageSource::Server { server, alias } if server.contains("ubuntu") && alias == "22.04")
        );
        assert_eq!(ImageSource::parse("flotilla"), ImageSource::Own);
        assert_eq!(ImageSource::parse("local:mine"), ImageSource::Local("mine".to_owned()));
        assert_eq!(ImageSource::parse("mine"), ImageSource::Local("mine".to_owned()));
    }

    #[test]
    fn testbeds_have_distinct_names() {
        let one = LxdSettings::new("default", PathBuf::new());
        let other = LxdSettings::new("two", PathBuf::new());
        assert_eq!((one.instance("member1"), one.profile()), ("member1".to_owned(), "flotilla".to_owned()));
        assert_eq!((other.instance("member1"), other.profile()), ("two-member1".to_owned(), "flotilla-two".to_owned()));
    }
}
