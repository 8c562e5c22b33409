//! Commands that are printed as hints. They are built here only, so that every hint selects the testbed it was printed for, and
//! tests know all of them.

use std::path::Path;

use crate::place::TestbedDir;

/// A command a user can copy. `e2e/tests/hints.rs` runs each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint<'a> {
    Up,
    /// Creates or changes a testbed to run the pods as containers.
    UpWithContainers,
    UpSimulated,
    Down,
    DownDelete,
    Status,
    Demo(&'a str),
    Stop(&'a str),
    Start(&'a str),
    RemoveMember(&'a str),
    Fault {
        member: &'a str,
        fault: &'a str,
    },
    Restore(&'a str),
    PartLogs(&'a str),
    Expose {
        name: &'a str,
        member: &'a str,
        pod: &'a str,
        ports: (u16, u16),
    },
    Unexpose(&'a str),
    Distribute {
        context: &'a Path,
        image: &'a str,
        push: bool,
    },
    /// Adds a cluster of the user to the control plane.
    Join {
        name: &'a str,
        kubeconfig: &'a Path,
    },
    Unjoin(&'a str),
    UnjoinForced(&'a str),
    Uncordon(&'a str),
    /// All nodes of a member.
    UncordonNodes(&'a str),
    /// Explains an object of the control plane, named as TYPE/NAME.
    Why {
        object: &'a str,
        namespace: &'a str,
    },
    /// Prints a link to the web console.
    Console,
    /// Lists the instances of the manager.
    Instances,
    /// Checks this host for members in system containers.
    PrepareLxd,
    /// Checks this host for pods in containers.
    PrepareContainers,
}

/// The target of a hint.
enum Scope {
    Testbed,
    Plane,
    Manager,
    Host,
}

impl TestbedDir {
    /// Returns the command line of a hint, with the flags that select this testbed.
    pub fn hint(&self, hint: &Hint<'_>) -> String {
        let arguments = hint.arguments();
        match hint.scope() {
            Scope::Testbed => self.command(&arguments),
            Scope::Plane => self.plane_command(&arguments),
            Scope::Manager => self.manager_command(&arguments),
            Scope::Host => format!("flotilla {arguments}"),
        }
    }
}

impl Hint<'_> {
    /// One of each, with placeholders: what `e2e/testdata/hints.txt` lists.
    pub fn all() -> Vec<Hint<'static>> {
        let file = Path::new("FILE");
        vec![
            Hint::Up,
            Hint::UpWithContainers,
            Hint::UpSimulated,
            Hint::Down,
            Hint::DownDelete,
            Hint::Status,
            Hint::Demo("DEMO"),
            Hint::Stop("MEMBER"),
            Hint::Start("MEMBER"),
            Hint::RemoveMember("MEMBER"),
            Hint::Fault { member: "MEMBER", fault: "FAULT" },
            Hint::Restore("SNAPSHOT"),
            Hint::PartLogs("PART"),
            Hint::Expose { name: "FORWARD", member: "MEMBER", pod: "POD", ports: (1, 2) },
            Hint::Unexpose("FORWARD"),
            Hint::Distribute { context: file, image: "IMAGE", push: true },
            Hint::Join { name: "MEMBER", kubeconfig: file },
            Hint::Unjoin("MEMBER"),
            Hint::UnjoinForced("MEMBER"),
            Hint::Uncordon("MEMBER"),
            Hint::UncordonNodes("MEMBER"),
            Hint::Why { object: "OBJECT", namespace: "NAMESPACE" },
            Hint::Console,
            Hint::Instances,
            Hint::PrepareLxd,
            Hint::PrepareContainers,
        ]
    }

    fn scope(&self) -> Scope {
        match self {
            Self::Join { .. }
            | Self::Unjoin(_)
            | Self::UnjoinForced(_)
            | Self::Uncordon(_)
            | Self::UncordonNodes(_)
            | Self::Why { .. }
            | Self::Console => Scope::Plane,
            Self::Instances => Scope::Manager,
            Self::PrepareLxd | Self::PrepareContainers => Scope::Host,
            _ => Scope::Testbed,
        }
    }

    /// Returns the command line for a control plane that is not a testbed.
    pub fn for_plane(&self, kubeconfig: &Path) -> String {
        format!("flotilla {} --kubeconfig {}", self.arguments(), quoted(kubeconfig))
    }

    /// Returns the words after `flotilla`, without the flags that select the testbed.
    fn arguments(&self) -> String {
        match self {
            Self::Up => "up".to_owned(),
            Self::UpWithContainers => "up --runtime containerd".to_owned(),
            Self::UpSimulated => "up --runtime simulated".to_owned(),
            Self::Down => "down".to_owned(),
            Self::DownDelete => "down --delete".to_owned(),
            Self::Status => "status".to_owned(),
            Self::Demo(name) => format!("demo {name}"),
            Self::Stop(member) => format!("stop {member}"),
            Self::Start(member) => format!("start {member}"),
            Self::RemoveMember(member) => format!("remove-member {member}"),
            Self::Fault { member, fault } => format!("fault {member} {fault}"),
            Self::Restore(snapshot) => format!("restore {snapshot}"),
            Self::PartLogs(part) => format!("logs --part {part}"),
            Self::Expose { name, member, pod, ports: (listen, port) } => {
                format!("expose {name} -C {member} --pod {pod} --port {listen}:{port}")
            }
            Self::Unexpose(name) => format!("unexpose {name}"),
            Self::Distribute { context, image, push } => {
                let push = if *push { "" } else { " --no-push" };
                format!("image distribute {} -t {image}{push}", quoted(context))
            }
            Self::Join { name, kubeconfig } => format!("join {name} --cluster-kubeconfig {}", quoted(kubeconfig)),
            Self::Unjoin(member) => format!("unjoin {member}"),
            Self::Uncordon(member) => format!("uncordon {member}"),
            Self::UncordonNodes(member) => format!("uncordon --all -C {member}"),
            Self::Why { object, namespace: "" } => format!("why {object}"),
            Self::Why { object, namespace } => format!("why {object} -n {namespace}"),
            Self::UnjoinForced(member) => format!("unjoin {member} --force"),
            Self::Console => "console".to_owned(),
            Self::Instances => "instance list".to_owned(),
            Self::PrepareLxd => "prepare --provisioner lxd".to_owned(),
            Self::PrepareContainers => "prepare --runtime containerd".to_owned(),
        }
    }
}

/// Quotes a path for a shell where it needs it.
pub fn quoted(path: &Path) -> String {
    let word = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    match word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_select_the_testbed_they_were_printed_for() {
        let other = TestbedDir::find(Some("/tmp/test beds".into()), "one").unwrap();
        assert_eq!(other.hint(&Hint::DownDelete), "flotilla down --delete --home '/tmp/test beds' --name one");
        assert_eq!(
            other.hint(&Hint::UnjoinForced("m1")),
            "flotilla unjoin m1 --force --kubeconfig '/tmp/test beds/one/karmada-apiserver.config'"
        );
        assert_eq!(other.hint(&Hint::PrepareLxd), "flotilla prepare --provisioner lxd");
        let default = TestbedDir::find(None, "default").unwrap();
        assert_eq!(default.hint(&Hint::Up), "flotilla up");
        let named = TestbedDir::find(None, "nc1").unwrap();
        assert_eq!(named.hint(&Hint::Up), "flotilla up --name nc1");
    }

    /// A hint written as a literal would lack --home and --name.
    #[test]
    fn every_hint_is_built_here() {
        let builders = ["hint.rs", "place.rs", "subject.rs", "tests.rs"];
        let mut literals = Vec::new();
        let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") && !builders.contains(&&*name) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                    let is_literal = |line: &&str| line.contains("`flotilla ") || line.contains("\"flotilla ");
                    literals.extend(lines.filter(is_literal).map(|line| format!("{}: {line}", path.display())));
                }
            }
        }
        assert!(literals.is_empty(), "use TestbedDir::hint: {literals:#?}");
    }

    /// The list that `e2e/tests/hints.rs` runs.
    #[test]
    fn the_list_of_hints_is_complete() {
        let listed = include_str!("../../../e2e/testdata/hints.txt");
        let listed: Vec<&str> = listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        let all: Vec<String> = Hint::all().iter().map(Hint::arguments).collect();
        assert_eq!(listed, all, "update e2e/testdata/hints.txt and e2e/tests/hints.rs");
    }
}
