//! A user of the manager as a user of an instance.

use std::collections::BTreeSet;

use manager_kinds::grants::{Caller, InstanceAccess};
use object::request::User;
use object::request::user::AUTHENTICATED_GROUP;

/// Prefix of users whose names have a meaning in every Kubernetes API: the manager's `system:serviceaccount:a:b` is not the
/// instance's.
const SYSTEM_PREFIX: &str = "manager:";

/// Returns true for groups that only an API server itself may give.
fn is_reserved(group: &str) -> bool {
    group.starts_with("system:") || group.starts_with("flotilla:")
}

/// Returns a caller as bindings name it. Its account is the User object that has its name as an e-mail address.
pub fn caller(user: &User, account: Option<String>) -> Caller {
    let groups: BTreeSet<String> = user.groups.iter().filter(|group| !is_reserved(group)).cloned().collect();
    Caller { name: user.name.clone(), account, groups, is_master: user.is_master() }
}

/// Returns the user for requests to an instance: its name and groups, without any group that grants rights by itself, and one
/// group for each role.
pub fn in_instance(user: &User, access: &InstanceAccess) -> User {
    let name = match user.name.starts_with("system:") {
        true => format!("{SYSTEM_PREFIX}{}", user.name),
        false => user.name.clone(),
    };
    let mut groups: Vec<String> = user.groups.iter().filter(|group| !is_reserved(group)).cloned().collect();
    groups.extend(access.role.map(|role| format!("flotilla:instance:{}", role.name())));
    for (namespace, role) in &access.namespaces {
        groups.push(format!("flotilla:namespace:{namespace}:{}", role.name()));
    }
    groups.push(AUTHENTICATED_GROUP.to_owned());
    User { name, uid: user.uid.clone(), groups, extra: Default::default() }
}

#[cfg(test)]
mod tests {
    use manager_kinds::grants::InstanceRole;

    use super::*;

    #[test]
    fn rights_on_the_manager_grant_none_on_an_instance() {
        let access = InstanceAccess { role: Some(InstanceRole::View), ..InstanceAccess::default() };
        let check = |user: User, name: &str, groups: &[&str]| {
            let found = in_instance(&user, &access);
            assert_eq!((found.name.as_str(), found.groups.as_slice()), (name, &groups.map_owned()[..]));
        };
        check(
            User::new("ann", &["dev", "system:masters"]),
            "ann",
            &["dev", "flotilla:instance:view", "system:authenticated"],
        );
        check(
            User::new("ann", &["flotilla:instance:admin"]),
            "ann",
            &["flotilla:instance:view", "system:authenticated"],
        );
        let account = "system:serviceaccount:kube-system:root";
        check(
            User::new(account, &[]),
            "manager:system:serviceaccount:kube-system:root",
            &["flotilla:instance:view", "system:authenticated"],
        );
    }

    trait Owned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl Owned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }
}
