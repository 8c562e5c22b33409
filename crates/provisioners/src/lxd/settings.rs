//! What can be chosen about machines in LXD or Incus, and the names everything gets.

use std::path::PathBuf;

/// Marks everything of ours; its value is the testbed's name.
pub const MARK: &str = "user.flotilla";
/// The machine as it was asked for, kept on the instance once all of it is there.
pub const MACHINE: &str = "user.flotilla.machine";
/// The property of an image that says what it was made of.
pub const IMAGE_KEY: &str = "flotilla.key";
pub const POOL: &str = "flotilla";
pub const BRIDGE: &str = "flotillabr0";
/// The bridge `lxd init` makes; used where it is there.
pub const COMMON_BRIDGE: &str = "lxdbr0";
/// Devices of ours on an instance.
pub const FORWARD_PREFIX: &str = "forward-";
pub const REVERSE_PREFIX: &str = "reverse-";

#[derive(Clone, Debug)]
pub struct Settings {
    /// Machines of different testbeds never meet: profile and instances carry this name.
    pub testbed: String,
    /// The binary that is put into the image; by default the one that runs.
    pub binary: PathBuf,
    /// The daemon's socket; by default the first that answers.
    pub socket: Option<PathBuf>,
    /// What machines are made from; by default our own image.
    pub image: ImageSource,
    /// A managed bridge that is there; by default `lxdbr0`, else one of ours is made.
    pub network: Option<String>,
    /// A storage pool that is there; by default `default`, else one of ours is made.
    pub pool: Option<String>,
    /// Root inside is root outside: MicroK8s and containerd need it, our member does not.
    pub privileged: bool,
    /// Adds what MicroK8s needs of the kernel to the profile.
    pub microk8s: bool,
    pub limits: Limits,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Cores, such as `2`, or pinned ones, such as `0-1`.
    pub cpu: Option<String>,
    /// Such as `2GiB`.
    pub memory: Option<String>,
    pub processes: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// Made here from the binary, see `image`.
    Own,
    /// An alias or fingerprint the daemon already has.
    Local(String),
    /// An alias on a public image server.
    Server { server: &'static str, alias: String },
}

impl Settings {
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

    /// As the seeds call them, where there is one testbed only.
    pub fn instance(&self, machine: &str) -> String {
        if self.testbed == "default" { machine.to_owned() } else { format!("{}-{machine}", self.testbed) }
    }

    pub fn profile(&self) -> String {
        if self.testbed == "default" { "flotilla".to_owned() } else { format!("flotilla-{}", self.testbed) }
    }
}

impl ImageSource {
    /// `ubuntu:22.04` and `images:debian/12` are fetched by the daemon; any other name is one it has.
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
    fn image_names_say_where_they_come_from() {
        let ubuntu = ImageSource::parse("ubuntu:22.04");
        assert!(
            matches!(ubuntu, ImageSource::Server { server, alias } if server.contains("ubuntu") && alias == "22.04")
        );
        assert_eq!(ImageSource::parse("flotilla"), ImageSource::Own);
        assert_eq!(ImageSource::parse("local:mine"), ImageSource::Local("mine".to_owned()));
        assert_eq!(ImageSource::parse("mine"), ImageSource::Local("mine".to_owned()));
    }

    #[test]
    fn testbeds_side_by_side_never_share_a_name() {
        let one = Settings::new("default", PathBuf::new());
        let other = Settings::new("two", PathBuf::new());
        assert_eq!((one.instance("member1"), one.profile()), ("member1".to_owned(), "flotilla".to_owned()));
        assert_eq!((other.instance("member1"), other.profile()), ("two-member1".to_owned(), "flotilla-two".to_owned()));
    }
}
