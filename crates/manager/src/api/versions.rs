//! Versions of writes that a read must contain.

use cluster_client::{ListOptions, ResourceRef};
use manager_kinds::KARMADAS;
use object::Status;
use object::request::User;

use super::ManagerApi;

/// The source of versions of objects of the manager.
const MANAGER: &str = "manager";

/// Reads `SOURCE:REVISION`.
fn read(version: &str) -> Result<(&str, u64), Status> {
    let broken = || Status::bad_request("atLeast: is not a version that this manager returned");
    let (source, revision) = version.rsplit_once(':').ok_or_else(broken)?;
    Ok((source, revision.parse().map_err(|_| broken())?))
}

impl ManagerApi {
    /// Returns when answers contain the write with this version. Instances answer at their current version; what this manager
    /// knows of instances may be behind a write through another one.
    pub(super) async fn reach(&self, user: &User, version: &str) -> Result<(), Status> {
        let (source, revision) = read(version)?;
        if source != MANAGER {
            let known = self.operations.visible_instances(user);
            return match known.iter().any(|entry| entry.object.uid() == source) {
                true => Ok(()),
                false => Err(Status::timeout("the instance of this version does not exist any more")),
            };
        }
        let directory = &self.operations.directory;
        if directory.version() >= revision {
            return Ok(());
        }
        let list = self.system.list_all(ResourceRef::all(&KARMADAS.gvr()), ListOptions::default()).await?;
        let reached = list.resource_version.parse().unwrap_or(0);
        if reached < revision {
            return Err(Status::timeout("the manager has not reached this version"));
        }
        directory.show(&list.items, reached);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_source_and_a_revision() {
        assert_eq!(read("manager:7").ok(), Some(("manager", 7)));
        assert_eq!(read("2c9b:12").ok(), Some(("2c9b", 12)));
        for wrong in ["", "7", "manager:", "manager:x", "manager:-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
