//! The kinds that the manager serves: names, schemas, columns and rules, without looking anything up.

pub mod access_rules;
pub mod annotations;
pub mod grants;
pub mod instance;
mod karmada;
pub mod permissions;
mod rows;
pub mod spec;

pub use rows::kinds;

use api::Resource;

pub const OPERATOR_GROUP: &str = "operator.karmada.io";
pub const MANAGER_GROUP: &str = "manager.flotilla.dev";
const VERSION: &str = "v1alpha1";

pub const KARMADAS: Resource = Resource::namespaced(OPERATOR_GROUP, VERSION, "Karmada", "karmadas");
pub const MANAGED_CLUSTERS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "ManagedCluster", "managedclusters");
pub const WORKSPACES: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Workspace", "workspaces");
pub const FOLDERS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Folder", "folders");
pub const USERS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "User", "users");
pub const GROUPS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Group", "groups");
pub const ROLES: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Role", "roles");
pub const BINDINGS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Binding", "bindings");
pub const REGISTRATIONS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Registration", "registrations");
pub const WEBHOOKS: Resource = Resource::cluster(MANAGER_GROUP, VERSION, "Webhook", "webhooks");

/// Namespace of instances that are created through the manager's API.
pub const INSTANCE_NAMESPACE: &str = "karmada-system";
