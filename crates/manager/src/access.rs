//! The current bindings, roles, groups, workspaces, folders and users, kept in mirrors so that a change takes effect at once.

use cluster_client::ClusterClient;
use jiff::Timestamp;
use manager_kinds::grants::{Caller, GrantObjects, InstanceAccess, PlatformRole};
use object::Object;
use object::request::User;
use reconcile::{Index, Mirror, MirrorSpec, ObjectKey, Subscription};
use std::collections::BTreeSet;
use std::sync::Arc;
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
    /// The users by their e-mail addresses in lower case.
    by_email: Index<String>,
}

impl Rights {
    pub fn start(client: &ClusterClient, cancel: &CancellationToken) -> Self {
        let mirror =
            |resource: &api::Resource| Mirror::start(client.clone(), MirrorSpec::new(&resource.gvr()), cancel.clone());
        let users = mirror(&manager_kinds::USERS);
        let by_email = users.index(|user| {
            let emails = user.items(&["spec", "emails"]).iter().filter_map(|email| email.as_str());
            emails.map(str::to_lowercase).collect()
        });
        Self {
            bindings: mirror(&manager_kinds::BINDINGS),
            roles: mirror(&manager_kinds::ROLES),
            groups: mirror(&manager_kinds::GROUPS),
            workspaces: mirror(&manager_kinds::WORKSPACES),
            folders: mirror(&manager_kinds::FOLDERS),
            users,
            by_email,
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

    /// Returns true for users that an administrator has disabled, by name or by an e-mail address.
    pub fn is_disabled(&self, user: &str) -> bool {
        let is_off = |user: &Arc<Object>| user.bool_at(&["spec", "disabled"]) == Some(true);
        self.users.get(&ObjectKey::new("", user)).is_some_and(|user| is_off(&user))
            || self.users_with_email(user).iter().any(is_off)
    }

    fn users_with_email(&self, email: &str) -> Vec<Arc<Object>> {
        if email.contains('@') { self.by_email.list(&email.to_lowercase()) } else { Vec::new() }
    }

    /// Returns the User object that has the name of a caller as an e-mail address, as OIDC issuers name users.
    fn account_of(&self, user: &str) -> Option<String> {
        GrantObjects::account_of(&self.users_with_email(user), user)
    }

    /// Returns the UID of the User object of a caller, by name or by an e-mail address.
    pub fn account_uid(&self, user: &str) -> Option<String> {
        self.user_uid(user).or_else(|| self.user_uid(&self.account_of(user)?))
    }

    fn caller(&self, user: &User) -> Caller {
        identity::caller(user, self.account_of(&user.name))
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
        // Callers whose name is an address of the user have its rights too.
        let emails: Vec<_> = self.users.list().iter().flat_map(|user| self.emails_of(user, &subjects)).collect();
        subjects.extend(emails);
        subjects.retain(|(kind, name)| kind != "User" || !self.is_disabled(name));
        subjects
    }

    /// The addresses of a user that is one of the subjects, as far as no other user has them.
    fn emails_of(&self, user: &Object, subjects: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
        if !subjects.contains(&("User".to_owned(), user.name().to_owned())) {
            return Vec::new();
        }
        let emails = user.items(&["spec", "emails"]).iter().filter_map(|email| email.as_str());
        let own = emails.filter(|email| self.account_of(email).as_deref() == Some(user.name()));
        own.map(|email| ("User".to_owned(), email.to_owned())).collect()
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
        self.objects().platform_roles(&self.caller(user), Timestamp::now())
    }

    /// Returns true for users with the role admin on an instance, a workspace or a folder.
    pub fn is_some_admin(&self, user: &User) -> bool {
        !self.is_disabled(&user.name) && self.objects().is_some_admin(&self.caller(user), Timestamp::now())
    }

    /// Returns the rights of a user on an instance, by the name in its path.
    pub fn instance_access(&self, user: &User, instance: &str) -> InstanceAccess {
        if self.is_disabled(&user.name) {
            return InstanceAccess::default();
        }
        let caller: Caller = self.caller(user);
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
