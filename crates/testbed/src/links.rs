//! Links to the kubeconfigs at the paths Karmada's guides use: /etc/karmada/karmada-apiserver.config and /root/NAME.config.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::place::TestbedDir;
use crate::spec::{Spec, write_file};

/// The folders the links are created in.
pub struct LinkFolders {
    pub plane: PathBuf,
    pub members: PathBuf,
}

/// The links and folders that were created, for their removal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Created {
    links: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl LinkFolders {
    /// Only root can create them.
    pub fn of_this_host() -> Option<Self> {
        let folders = Self { plane: "/etc/karmada".into(), members: "/root".into() };
        rustix::process::geteuid().is_root().then_some(folders)
    }

    fn wanted(&self, place: &TestbedDir, spec: &Spec) -> Vec<(PathBuf, PathBuf)> {
        let plane = (self.plane.join("karmada-apiserver.config"), place.plane_config());
        let member = |name: &str| (self.members.join(format!("{name}.config")), place.member_config(name));
        std::iter::once(plane).chain(spec.members.iter().map(|known| member(&known.name))).collect()
    }

    /// Creates the links where nothing is, and returns the new ones. Files and links of others are not touched.
    pub fn create(&self, place: &TestbedDir, spec: &Spec) -> anyhow::Result<Vec<PathBuf>> {
        let mut created = load(place);
        let mut new = Vec::new();
        for (link, target) in self.wanted(place, spec) {
            if std::fs::symlink_metadata(&link).is_ok() {
                continue;
            }
            if let Some(folder) = link.parent().filter(|folder| !folder.exists()) {
                std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
                created.folders.push(folder.to_owned());
            }
            match std::os::unix::fs::symlink(&target, &link) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                linked => linked.with_context(|| format!("cannot create the link {}", link.display()))?,
            }
            created.links.retain(|known| *known != link);
            created.links.push(link.clone());
            new.push(link);
        }
        if !new.is_empty() {
            write_file(&place.links_file(), &serde_json::to_vec_pretty(&created)?)?;
        }
        Ok(new)
    }
}

/// Removes the links that were created for this testbed and still lead into it.
pub fn remove_all(place: &TestbedDir) -> anyhow::Result<()> {
    let created = load(place);
    for link in &created.links {
        remove(place, link)?;
    }
    for folder in &created.folders {
        // Not empty: another program uses it by now.
        let _ = std::fs::remove_dir(folder);
    }
    crate::snapshot::remove(&place.links_file())
}

/// Removes the link of a member.
pub fn remove_member(place: &TestbedDir, member: &str) -> anyhow::Result<()> {
    let file = format!("{member}.config");
    let links = load(place).links;
    links.iter().filter(|link| link.ends_with(&file)).try_for_each(|link| remove(place, link))
}

fn remove(place: &TestbedDir, link: &Path) -> anyhow::Result<()> {
    match std::fs::read_link(link) {
        Ok(target) if target.starts_with(place.directory()) => {
            std::fs::remove_file(link).with_context(|| format!("cannot remove {}", link.display()))
        }
        _ => Ok(()),
    }
}

fn load(place: &TestbedDir) -> Created {
    let text = std::fs::read(place.links_file()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{UpOptions, plan};
    use crate::ports::Ports;

    #[test]
    fn links_are_created_where_nothing_is_and_only_they_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let place = TestbedDir::find(Some(root.path().join("beds")), "x").unwrap();
        let spec = plan(None, &UpOptions::default(), &mut Ports::pretending(|_| true), false, &place).unwrap();
        let folders = LinkFolders { plane: root.path().join("etc/karmada"), members: root.path().join("root") };
        std::fs::create_dir_all(&folders.members).unwrap();
        std::fs::create_dir_all(place.directory()).unwrap();
        let own = folders.members.join("member2.config");
        std::fs::write(&own, "mine").unwrap();
        let made = folders.create(&place, &spec).unwrap();
        assert_eq!(made.len(), 3, "{made:?}");
        let plane = folders.plane.join("karmada-apiserver.config");
        assert_eq!(std::fs::read_link(&plane).unwrap(), place.plane_config());
        assert!(folders.create(&place, &spec).unwrap().is_empty());

        remove_member(&place, "member1").unwrap();
        assert!(!folders.members.join("member1.config").exists());
        // Replaced by the user meanwhile.
        std::fs::remove_file(folders.members.join("member3.config")).unwrap();
        std::fs::write(folders.members.join("member3.config"), "mine too").unwrap();
        remove_all(&place).unwrap();
        assert!(!folders.plane.exists());
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(folders.members.join("member3.config")).unwrap(), "mine too");
        assert!(!place.links_file().exists());
    }
}
