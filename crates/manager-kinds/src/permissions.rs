//! The permission catalogue: which roles may call what in the manager's API.

use std::collections::BTreeSet;

use crate::grants::{InstanceAccess, InstanceRole, PlatformRole};

/// A permission and the roles that have it.
#[derive(Clone, Copy, Debug)]
pub struct Permission {
    pub name: &'static str,
    pub callers: Callers,
    pub platform: &'static [PlatformRole],
    /// The least role on the whole instance.
    pub instance: Option<InstanceRole>,
    /// The least role in a namespace of the instance.
    pub namespace: Option<InstanceRole>,
}

/// Callers that need no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Everyone, without credentials too.
    Everyone,
    /// Every authenticated user; the answer depends on the user's roles.
    Authenticated,
    /// Users with a role.
    WithRole,
    /// The same, and administrators of any instance for what belongs to it.
    WithRoleOrInstanceAdmin,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// The caller may know that the instance exists, but not do this.
    Forbidden,
    /// The caller may not know that the instance exists.
    Hidden,
}

const OWNERS: &[PlatformRole] = &[PlatformRole::Admin, PlatformRole::InstanceOwner];
const IAM: &[PlatformRole] = &[PlatformRole::Admin, PlatformRole::IamOwner];
const ALL: &[PlatformRole] =
    &[PlatformRole::Admin, PlatformRole::InstanceOwner, PlatformRole::Auditor, PlatformRole::IamOwner];

const fn open(name: &'static str, callers: Callers) -> Permission {
    Permission { name, callers, platform: ALL, instance: Some(InstanceRole::View), namespace: Some(InstanceRole::View) }
}

const fn on_instance(
    name: &'static str,
    platform: &'static [PlatformRole],
    instance: Option<InstanceRole>,
    namespace: Option<InstanceRole>,
) -> Permission {
    Permission { name, callers: Callers::WithRole, platform, instance, namespace }
}

/// Every permission. RPCs name one of them.
pub const PERMISSIONS: &[Permission] = &[
    open("public", Callers::Everyone),
    open("self", Callers::Authenticated),
    open("search", Callers::Authenticated),
    open("instances.list", Callers::Authenticated),
    on_instance("instances.get", ALL, Some(InstanceRole::View), Some(InstanceRole::View)),
    on_instance("instances.read", OWNERS, Some(InstanceRole::View), None),
    on_instance("instances.use", OWNERS, Some(InstanceRole::View), Some(InstanceRole::View)),
    on_instance("instances.manage", OWNERS, Some(InstanceRole::Admin), None),
    on_instance("instances.create", OWNERS, None, None),
    on_instance("instances.delete", OWNERS, None, None),
    on_instance("clusters.manage", OWNERS, Some(InstanceRole::Admin), None),
    on_instance("objects.read", OWNERS, Some(InstanceRole::View), Some(InstanceRole::View)),
    on_instance("objects.write", OWNERS, Some(InstanceRole::Edit), Some(InstanceRole::Edit)),
    on_instance("objects.promote", OWNERS, Some(InstanceRole::Admin), Some(InstanceRole::Admin)),
    on_instance("secrets.read", OWNERS, Some(InstanceRole::Edit), Some(InstanceRole::Edit)),
    on_instance("explain", OWNERS, Some(InstanceRole::View), Some(InstanceRole::View)),
    Permission {
        name: "inventory.read",
        callers: Callers::WithRoleOrInstanceAdmin,
        platform: OWNERS,
        instance: None,
        namespace: None,
    },
    Permission {
        name: "audit.read",
        callers: Callers::WithRoleOrInstanceAdmin,
        platform: &[PlatformRole::Admin, PlatformRole::Auditor],
        instance: None,
        namespace: None,
    },
    on_instance("integration.read", &[PlatformRole::Admin, PlatformRole::IamOwner, PlatformRole::Auditor], None, None),
    on_instance("integration.push", IAM, None, None),
    on_instance("webhooks.manage", &[PlatformRole::Admin], None, None),
    on_instance("inventory.write", OWNERS, None, None),
    on_instance("iam.manage", IAM, None, None),
    Permission {
        name: "bindings.manage",
        callers: Callers::WithRoleOrInstanceAdmin,
        platform: &[PlatformRole::Admin, PlatformRole::InstanceOwner, PlatformRole::IamOwner],
        instance: None,
        namespace: None,
    },
];

/// Finds a permission by its name.
pub fn find(name: &str) -> Option<&'static Permission> {
    PERMISSIONS.iter().find(|permission| permission.name == name)
}

/// A caller as far as permissions depend on it.
#[derive(Clone, Debug, Default)]
pub struct CallerRoles {
    pub is_authenticated: bool,
    pub platform: BTreeSet<PlatformRole>,
    /// Has the role admin on at least one instance.
    pub is_some_admin: bool,
}

impl Permission {
    /// Decides about a caller, for an instance if the call names one.
    pub fn decide(&self, caller_roles: &CallerRoles, instance: Option<&InstanceAccess>) -> Verdict {
        let is_free = match self.callers {
            Callers::Everyone => true,
            Callers::Authenticated => caller_roles.is_authenticated,
            Callers::WithRole => false,
            Callers::WithRoleOrInstanceAdmin => caller_roles.is_some_admin,
        };
        if is_free || self.platform.iter().any(|role| caller_roles.platform.contains(role)) {
            return Verdict::Allowed;
        }
        let Some(access) = instance else { return Verdict::Forbidden };
        let on_whole = self.instance.is_some_and(|least| access.role >= Some(least));
        let in_some = self.namespace.is_some_and(|least| access.namespaces.values().any(|role| *role >= least));
        if on_whole || in_some {
            return Verdict::Allowed;
        }
        match access.sees_instance() || !caller_roles.platform.is_empty() {
            true => Verdict::Forbidden,
            false => Verdict::Hidden,
        }
    }

    /// The names of the roles that have it.
    pub fn roles(&self) -> Vec<&'static str> {
        if matches!(self.callers, Callers::Everyone | Callers::Authenticated) {
            return vec!["everyone"];
        }
        let mut roles: Vec<&str> = self.platform.iter().map(|role| role.name()).collect();
        let order = [InstanceRole::View, InstanceRole::Edit, InstanceRole::Admin];
        let least =
            if self.callers == Callers::WithRoleOrInstanceAdmin { Some(InstanceRole::Admin) } else { self.instance };
        roles
            .extend(order.into_iter().filter(|role| least.is_some_and(|least| *role >= least)).map(InstanceRole::name));
        roles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix, written down again: permission, then who has it. P platform admin, O instance owner, U auditor, I IAM
    /// owner, a e v roles on the instance, n m w the same in a namespace.
    const MATRIX: &[(&str, &str)] = &[
        ("instances.get", "POUIaevnmw"),
        ("instances.read", "POaev"),
        ("instances.use", "POaevnmw"),
        ("instances.manage", "POa"),
        ("instances.create", "PO"),
        ("instances.delete", "PO"),
        ("clusters.manage", "POa"),
        ("objects.read", "POaevnmw"),
        ("objects.write", "POaenm"),
        ("objects.promote", "POan"),
        ("secrets.read", "POaenm"),
        ("explain", "POaevnmw"),
        ("audit.read", "PUa"),
        ("integration.read", "PUI"),
        ("integration.push", "PI"),
        ("webhooks.manage", "P"),
        ("inventory.read", "POa"),
        ("inventory.write", "PO"),
        ("iam.manage", "PI"),
        ("bindings.manage", "POIa"),
    ];

    fn caller(letter: char) -> (CallerRoles, InstanceAccess) {
        use InstanceRole::{Admin, Edit, View};
        let mut caller_roles = CallerRoles { is_authenticated: true, ..CallerRoles::default() };
        let mut access = InstanceAccess::default();
        match letter {
            'P' => drop(caller_roles.platform.insert(PlatformRole::Admin)),
            'O' => drop(caller_roles.platform.insert(PlatformRole::InstanceOwner)),
            'U' => drop(caller_roles.platform.insert(PlatformRole::Auditor)),
            'I' => drop(caller_roles.platform.insert(PlatformRole::IamOwner)),
            'a' => {
                access.role = Some(Admin);
                caller_roles.is_some_admin = true;
            }
            'e' => access.role = Some(Edit),
            'v' => access.role = Some(View),
            'n' => drop(access.namespaces.insert("shop".into(), Admin)),
            'm' => drop(access.namespaces.insert("shop".into(), Edit)),
            _ => drop(access.namespaces.insert("shop".into(), View)),
        }
        (caller_roles, access)
    }

    #[test]
    fn every_permission_has_the_roles_of_the_matrix() {
        for permission in PERMISSIONS {
            let row = MATRIX.iter().find(|(name, _)| *name == permission.name);
            let is_open = matches!(permission.callers, Callers::Everyone | Callers::Authenticated);
            let expected = match row {
                Some((_, letters)) => letters,
                None if is_open => "POUIaevnmw",
                None => panic!("{} is not in the matrix", permission.name),
            };
            for letter in "POUIaevnmw".chars() {
                let (caller_roles, access) = caller(letter);
                let allowed = permission.decide(&caller_roles, Some(&access)) == Verdict::Allowed;
                assert_eq!(allowed, expected.contains(letter), "{} {letter}", permission.name);
            }
        }
    }

    #[test]
    fn callers_without_a_role_do_not_learn_that_an_instance_exists() {
        let stranger = CallerRoles { is_authenticated: true, ..CallerRoles::default() };
        for permission in PERMISSIONS.iter().filter(|permission| permission.callers == Callers::WithRole) {
            assert_eq!(permission.decide(&stranger, Some(&InstanceAccess::default())), Verdict::Hidden);
            assert_eq!(permission.decide(&stranger, None), Verdict::Forbidden);
        }
        assert_eq!(find("self").map(|found| found.decide(&CallerRoles::default(), None)), Some(Verdict::Forbidden));
    }
}
