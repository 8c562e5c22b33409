//! The current bindings, roles, groups, workspaces, folders and users, kept in mirrors so that a change takes effect at once.

use cluster_client::ClusterClient;
use jiff::Timestamp;
use manager_kinds::grants::{Caller, GrantObjects, InstanceAccess, PlatformRole};
use object::request::User;
use reconcile::{Mirror, MirrorSpec, ObjectKey, Subscription};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::identity;

/// The rights of users.
#[derive(Clone)]
pub struct Rights {
    bindings: Mirror,
    roles: Mirror,
    groups: Mirror,
    workspaces: Mirror,
    folders: Mirror,
    users: Mirror,
}

impl Rights {
    pub fn start(client: &ClusterClient, cancel: &CancellationToken) -> Self {
        let mirror =
            |resource: &api::Resource| Mirror::start(client.clone(), MirrorSpec::new(&resource.gvr()), cancel.clone());
        Self {
            bindings: mirror(&manager_kinds::BINDINGS),
            roles: mirror(&manager_kinds::ROLES),
            groups: mirror(&manager_kinds::GROUPS),
            workspaces: mirror(&manager_kinds::WORKSPACES),
            folders: mirror(&manager_kinds::FOLDERS),
            users: mirror(&manager_kinds::USERS),
        }
    }

    pub async fn synced(&self) {
        for mirror in [&self.bindings, &self.roles, &self.groups, &self.workspaces, &self.folders, &self.users] {
            mirror.synced().await;
        }
    }

    fn objects(&self) -> GrantObjects {
        GrantObjects {
            bindings: self.bindings.list(),
            roles: self.roles.list(),
            groups: self.groups.list(),
            workspaces: self.workspaces.list(),
            folders: self.folders.list(),
        }
    }

    /// Returns true for users that an administrator has disabled.
    pub fn is_disabled(&self, user: &str) -> bool {
        let found = self.users.get(&ObjectKey::new("", user));
        found.is_some_and(|user| user.bool_at(&["spec", "disabled"]) == Some(true))
    }

    /// Returns the UID of a user's object, if the user has one.
    pub fn user_uid(&self, user: &str) -> Option<String> {
        self.users.get(&ObjectKey::new("", user)).map(|user| user.uid().to_owned())
    }

    /// Returns the users and groups that bindings give a role on the whole platform. Local groups are expanded: the API
    /// server does not know them.
    pub fn subjects_of(&self, role: &str, now: Timestamp) -> BTreeSet<(String, String)> {
        let objects = self.objects();
        let mut subjects = objects.platform_subjects(role, now);
        subjects.retain(|(kind, name)| kind != "User" || !self.is_disabled(name));
        subjects
    }

    /// The workspaces.
    pub fn workspaces(&self) -> &Mirror {
        &self.workspaces
    }

    /// Reports every change of the objects.
    pub fn followers(&self) -> Vec<Subscription> {
        let mirrors = [&self.bindings, &self.roles, &self.groups, &self.workspaces, &self.folders, &self.users];
        mirrors.into_iter().map(Mirror::subscribe).collect()
    }

    /// Reports changes of any of the objects, and time that may have ended a binding.
    pub fn changes(&self) -> RightsChanges {
        let mirrors = [&self.bindings, &self.roles, &self.groups, &self.users];
        RightsChanges { followers: mirrors.into_iter().map(Mirror::subscribe).collect() }
    }

    pub fn platform_roles(&self, user: &User) -> BTreeSet<PlatformRole> {
        if self.is_disabled(&user.name) {
            return BTreeSet::new();
        }
        self.objects().platform_roles(&identity::caller(user), Timestamp::now())
    }

    /// Returns true for users with the role admin on an instance, a workspace or a folder.
    pub fn is_some_admin(&self, user: &User) -> bool {
        !self.is_disabled(&user.name) && self.objects().is_some_admin(&identity::caller(user), Timestamp::now())
    }

    /// Returns the rights of a user on an instance, by the name in its path.
    pub fn instance_access(&self, user: &User, instance: &str) -> InstanceAccess {
        if self.is_disabled(&user.name) {
            return InstanceAccess::default();
        }
        let caller: Caller = identity::caller(user);
        self.objects().instance_access(&caller, instance, Timestamp::now())
    }
}

/// Interval for looking at bindings that expire.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for changes.
pub struct RightsChanges {
    followers: Vec<Subscription>,
}

impl RightsChanges {
    /// Returns after a change, or when bindings may have expired.
    pub async fn next(&mut self) {
        let changed = futures::future::select_all(self.followers.iter_mut().map(|follower| Box::pin(follower.next())));
        let _ = tokio::time::timeout(EXPIRY_INTERVAL, changed).await;
    }
}
