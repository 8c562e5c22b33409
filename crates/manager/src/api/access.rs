//! `AccessService`: users, groups, roles, bindings, workspaces and folders.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use manager_api::*;
use manager_kinds::grants::PlatformRole;
use manager_kinds::permissions::{PERMISSIONS, Verdict};
use manager_kinds::{BINDINGS, FOLDERS, GROUPS, ROLES, USERS, WORKSPACES};
use object::{Object, Status, request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::convert::{from_known_spec, to_spec};
use super::lists::{ListRequest, Page, page};
use super::{ApiCaller, ManagerApi};
use crate::accounts::check_password;

const FIELD_MANAGER: &str = "flotilla";
const INSTANCE_ROLES: [&str; 3] = ["admin", "edit", "view"];
const USER_FIELDS: [&str; 3] = ["displayName", "emails", "disabled"];
const BINDING_FIELDS: [&str; 4] = ["subject", "role", "target", "expiresAt"];
const WEBHOOK_FIELDS: [&str; 7] =
    ["url", "events", "secretRef", "disabled", "caBundle", "acceptsBindings", "grantsPlatformRoles"];
const WORKSPACE_FIELDS: [&str; 3] = ["folder", "instances", "namespaces"];

fn known(resource: &api::Resource) -> &'static [&'static str] {
    match resource.kind {
        "User" => &USER_FIELDS,
        "Group" => &["members"],
        "Role" => &["grants"],
        "Binding" => &BINDING_FIELDS,
        "Workspace" => &WORKSPACE_FIELDS,
        "Webhook" => &WEBHOOK_FIELDS,
        _ => &["parent"],
    }
}

pub fn message<T: DeserializeOwned>(resource: &api::Resource, object: &Object) -> Result<T, Status> {
    from_known_spec(object, known(resource))
}

/// A page of a list.
pub struct AccessPage<T> {
    pub items: Vec<T>,
    pub next_page_token: String,
    pub total: i64,
    pub version: String,
}

impl ManagerApi {
    fn as_caller(&self, caller: &ApiCaller) -> Result<ClusterClient, Status> {
        self.operations.client_as(&caller.user).map_err(Status::internal)
    }

    pub(super) async fn list_access<T: DeserializeOwned>(
        &self,
        caller: &ApiCaller,
        resource: &api::Resource,
        request: &AccessListRequest,
    ) -> Result<AccessPage<T>, Status> {
        let list = self.system.list_all(ResourceRef::all(&resource.gvr()), ListOptions::default()).await?;
        let visible: Vec<Arc<Object>> =
            list.items.into_iter().filter(|object| self.sees_access(caller, resource, object)).collect();
        let list_request = ListRequest {
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
            page: request.page,
            include_total: request.include_total,
            scope: format!("kindless {} {}", resource.plural, caller.user.name),
        };
        let Page { items, next_page_token, total } = page(&self.page_key, visible, &list_request)?;
        let items = items.iter().map(|object| message(resource, object)).collect::<Result<_, _>>()?;
        Ok(AccessPage { items, next_page_token, total, version: format!("manager:{}", list.resource_version) })
    }

    /// Administrators of an instance see and change the bindings on it; all else needs a role on the platform.
    fn sees_access(&self, caller: &ApiCaller, resource: &api::Resource, object: &Object) -> bool {
        resource.kind != "Binding" || self.may_bind(caller, object.get(&["spec"]).unwrap_or(&Value::Null))
    }

    fn may_bind(&self, caller: &ApiCaller, spec: &Value) -> bool {
        if self.verdict(&caller.user, "iam.manage", None) == Verdict::Allowed {
            return true;
        }
        let instance = spec["target"]["instance"].as_str().unwrap_or_default();
        let role = spec["role"].as_str().unwrap_or_default();
        !instance.is_empty() && INSTANCE_ROLES.contains(&role) && self.administers(caller, instance)
    }

    /// A client for writes: the caller's own for user managers, the manager's for administrators of an instance.
    fn access_client(&self, caller: &ApiCaller) -> Result<ClusterClient, Status> {
        match self.verdict(&caller.user, "iam.manage", None) {
            Verdict::Allowed => self.as_caller(caller),
            _ => Ok(self.system.clone()),
        }
    }

    pub(super) async fn get_access(
        &self,
        caller: &ApiCaller,
        resource: &api::Resource,
        name: &str,
    ) -> Result<Arc<Object>, Status> {
        let missing = || Status::not_found(&resource.gvr().group_resource(), name);
        let found = self.system.find(ResourceRef::cluster(&resource.gvr(), name)).await?;
        found.filter(|object| self.sees_access(caller, resource, object)).ok_or_else(missing)
    }

    pub(super) async fn create_access<T: Serialize + DeserializeOwned>(
        &self,
        caller: &ApiCaller,
        resource: &api::Resource,
        wanted: Option<T>,
        dry_run: bool,
    ) -> Result<T, Status> {
        let wanted = wanted.ok_or_else(|| Status::bad_request("the request body is required"))?;
        let (name, _, spec) = to_spec(&wanted)?;
        if resource.kind == "Binding" && !self.may_bind(caller, &spec) {
            let text = "bindings on the platform, on workspaces and on other instances need the permission iam.manage";
            return Err(Status::new(403, "Forbidden", text));
        }
        let mut object = resource.object("", &name);
        object.set(&["spec"], spec);
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let client = self.access_client(caller)?;
        let created = client.create(ResourceRef::all(&resource.gvr()), object, options).await?;
        message(resource, &created)
    }

    pub(super) async fn replace_access<T: Serialize + DeserializeOwned>(
        &self,
        caller: &ApiCaller,
        resource: &api::Resource,
        wanted: Option<T>,
        dry_run: bool,
    ) -> Result<T, Status> {
        let wanted = wanted.ok_or_else(|| Status::bad_request("the request body is required"))?;
        let (name, etag, spec) = to_spec(&wanted)?;
        let mut object = (*self.get_access(caller, resource, &name).await?).clone();
        for field in known(resource) {
            object.remove(&["spec", field]);
        }
        for (field, value) in spec.as_object().into_iter().flatten() {
            object.set(&["spec", field], value.clone());
        }
        if !etag.is_empty() {
            object.set(&["metadata", "resourceVersion"], etag);
        }
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let target = ResourceRef::cluster(&resource.gvr(), &name);
        let written = self.access_client(caller)?.update(target, object, options).await?;
        message(resource, &written)
    }

    pub(super) async fn delete_access(
        &self,
        caller: &ApiCaller,
        resource: &api::Resource,
        request: &AccessDeleteRequest,
    ) -> Result<(), Status> {
        let found = self.get_access(caller, resource, &request.name).await?;
        if !request.etag.is_empty() && request.etag != found.resource_version() {
            return Err(Status::stale(&resource.gvr().group_resource(), &request.name));
        }
        let options = DeleteOptions { dry_run: request.validate_only, ..DeleteOptions::default() };
        let target = ResourceRef::cluster(&resource.gvr(), &request.name);
        self.access_client(caller)?.delete(target, options).await.map(drop)
    }

    async fn change_workspace(
        &self,
        caller: &ApiCaller,
        (name, etag): (&str, &str),
        spec: Value,
        dry_run: bool,
    ) -> Result<Workspace, Status> {
        let client = self.as_caller(caller)?;
        let target = ResourceRef::cluster(&WORKSPACES.gvr(), name);
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let mut patch = json!({"spec": spec});
        if !etag.is_empty() {
            patch["metadata"]["resourceVersion"] = etag.into();
        }
        let patched = client.patch(target, Patch::merge(patch), options).await?;
        message(&WORKSPACES, &patched)
    }
}

#[async_trait]
impl AccessService<ApiCaller> for ManagerApi {
    async fn list_users(&self, caller: &ApiCaller, request: AccessListRequest) -> Result<ListUsersResponse, Status> {
        let AccessPage { items, next_page_token, total, version } = self.list_access(caller, &USERS, &request).await?;
        Ok(ListUsersResponse { users: items, next_page_token, total, version })
    }

    async fn get_user(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<User, Status> {
        message(&USERS, &*self.get_access(caller, &USERS, &request.name).await?)
    }

    async fn create_user(&self, caller: &ApiCaller, request: CreateUserRequest) -> Result<User, Status> {
        self.create_access(caller, &USERS, request.user, request.validate_only).await
    }

    async fn update_user(&self, caller: &ApiCaller, request: UpdateUserRequest) -> Result<User, Status> {
        self.replace_access(caller, &USERS, request.user, request.validate_only).await
    }

    async fn delete_user(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &USERS, &request).await
    }

    async fn list_groups(&self, caller: &ApiCaller, request: AccessListRequest) -> Result<ListGroupsResponse, Status> {
        let AccessPage { items, next_page_token, total, version } = self.list_access(caller, &GROUPS, &request).await?;
        Ok(ListGroupsResponse { groups: items, next_page_token, total, version })
    }

    async fn get_group(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<Group, Status> {
        message(&GROUPS, &*self.get_access(caller, &GROUPS, &request.name).await?)
    }

    async fn create_group(&self, caller: &ApiCaller, request: CreateGroupRequest) -> Result<Group, Status> {
        self.create_access(caller, &GROUPS, request.group, request.validate_only).await
    }

    async fn update_group(&self, caller: &ApiCaller, request: UpdateGroupRequest) -> Result<Group, Status> {
        self.replace_access(caller, &GROUPS, request.group, request.validate_only).await
    }

    async fn delete_group(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &GROUPS, &request).await
    }

    async fn list_roles(&self, caller: &ApiCaller, request: AccessListRequest) -> Result<ListRolesResponse, Status> {
        let AccessPage { items, next_page_token, total, version } = self.list_access(caller, &ROLES, &request).await?;
        Ok(ListRolesResponse { roles: items, next_page_token, total, version })
    }

    async fn get_role(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<Role, Status> {
        message(&ROLES, &*self.get_access(caller, &ROLES, &request.name).await?)
    }

    async fn create_role(&self, caller: &ApiCaller, request: CreateRoleRequest) -> Result<Role, Status> {
        self.create_access(caller, &ROLES, request.role, request.validate_only).await
    }

    async fn update_role(&self, caller: &ApiCaller, request: UpdateRoleRequest) -> Result<Role, Status> {
        self.replace_access(caller, &ROLES, request.role, request.validate_only).await
    }

    async fn delete_role(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &ROLES, &request).await
    }

    async fn list_workspaces(
        &self,
        caller: &ApiCaller,
        request: AccessListRequest,
    ) -> Result<ListWorkspacesResponse, Status> {
        let AccessPage { items, next_page_token, total, version } =
            self.list_access(caller, &WORKSPACES, &request).await?;
        Ok(ListWorkspacesResponse { workspaces: items, next_page_token, total, version })
    }

    async fn get_workspace(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<Workspace, Status> {
        message(&WORKSPACES, &*self.get_access(caller, &WORKSPACES, &request.name).await?)
    }

    async fn create_workspace(&self, caller: &ApiCaller, request: CreateWorkspaceRequest) -> Result<Workspace, Status> {
        self.create_access(caller, &WORKSPACES, request.workspace, request.validate_only).await
    }

    async fn update_workspace(&self, caller: &ApiCaller, request: UpdateWorkspaceRequest) -> Result<Workspace, Status> {
        self.replace_access(caller, &WORKSPACES, request.workspace, request.validate_only).await
    }

    async fn delete_workspace(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &WORKSPACES, &request).await
    }

    async fn list_folders(
        &self,
        caller: &ApiCaller,
        request: AccessListRequest,
    ) -> Result<ListFoldersResponse, Status> {
        let AccessPage { items, next_page_token, total, version } =
            self.list_access(caller, &FOLDERS, &request).await?;
        Ok(ListFoldersResponse { folders: items, next_page_token, total, version })
    }

    async fn get_folder(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<Folder, Status> {
        message(&FOLDERS, &*self.get_access(caller, &FOLDERS, &request.name).await?)
    }

    async fn create_folder(&self, caller: &ApiCaller, request: CreateFolderRequest) -> Result<Folder, Status> {
        self.create_access(caller, &FOLDERS, request.folder, request.validate_only).await
    }

    async fn update_folder(&self, caller: &ApiCaller, request: UpdateFolderRequest) -> Result<Folder, Status> {
        self.replace_access(caller, &FOLDERS, request.folder, request.validate_only).await
    }

    async fn delete_folder(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &FOLDERS, &request).await
    }

    async fn list_bindings(
        &self,
        caller: &ApiCaller,
        request: AccessListRequest,
    ) -> Result<ListBindingsResponse, Status> {
        let AccessPage { items, next_page_token, total, version } =
            self.list_access(caller, &BINDINGS, &request).await?;
        Ok(ListBindingsResponse { bindings: items, next_page_token, total, version })
    }

    async fn get_binding(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<Binding, Status> {
        message(&BINDINGS, &*self.get_access(caller, &BINDINGS, &request.name).await?)
    }

    async fn create_binding(&self, caller: &ApiCaller, request: CreateBindingRequest) -> Result<Binding, Status> {
        self.create_access(caller, &BINDINGS, request.binding, request.validate_only).await
    }

    async fn delete_binding(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &BINDINGS, &request).await
    }

    async fn set_password(&self, caller: &ApiCaller, request: SetPasswordRequest) -> Result<(), Status> {
        // The password of a user is everything the user may do.
        let roles = self.operations.rights.platform_roles(&request::User::new(&request.name, &[]));
        let is_privileged = roles.contains(&PlatformRole::Admin) || roles.contains(&PlatformRole::InstanceOwner);
        if is_privileged && !self.operations.is_platform_admin(&caller.user) {
            let text = format!(
                "the user {:?} has more rights than the caller: only administrators set its password",
                request.name
            );
            return Err(Status::new(403, "Forbidden", text));
        }
        if request.validate_only {
            self.get_access(caller, &USERS, &request.name).await?;
            return check_password(&request.password);
        }
        self.accounts.set_password(&request.name, &request.password).await
    }

    async fn bind_resources(&self, caller: &ApiCaller, request: BindResourcesRequest) -> Result<Workspace, Status> {
        let all = self.system.list_all(ResourceRef::all(&WORKSPACES.gvr()), ListOptions::default()).await?;
        let current: Workspace =
            message(&WORKSPACES, &*self.get_access(caller, &WORKSPACES, &request.workspace).await?)?;
        for other in all.items.iter().filter(|other| other.name() != request.workspace) {
            let other: Workspace = message(&WORKSPACES, other)?;
            let taken = request.instances.iter().find(|name| other.instances.contains(name));
            let namespace = request.namespaces.iter().find(|namespace| other.namespaces.contains(namespace));
            if let Some(name) = taken.or(namespace.map(|namespace| &namespace.namespace)) {
                let text = format!("{name} belongs to the workspace {} already", other.name);
                return Err(transcode::errors::failed_precondition(text));
            }
        }
        let (mut instances, mut namespaces) = (current.instances, current.namespaces);
        let new: Vec<String> = request.instances.into_iter().filter(|name| !instances.contains(name)).collect();
        instances.extend(new);
        let new: Vec<_> = request.namespaces.into_iter().filter(|found| !namespaces.contains(found)).collect();
        namespaces.extend(new);
        let spec = json!({"instances": instances, "namespaces": namespaces});
        let target = (request.workspace.as_str(), request.etag.as_str());
        self.change_workspace(caller, target, spec, request.validate_only).await
    }

    async fn unbind_resources(&self, caller: &ApiCaller, request: UnbindResourcesRequest) -> Result<Workspace, Status> {
        let current: Workspace =
            message(&WORKSPACES, &*self.get_access(caller, &WORKSPACES, &request.workspace).await?)?;
        let (mut instances, mut namespaces) = (current.instances, current.namespaces);
        instances.retain(|name| !request.instances.contains(name));
        namespaces.retain(|found| !request.namespaces.contains(found));
        let spec = json!({"instances": instances, "namespaces": namespaces});
        let target = (request.workspace.as_str(), request.etag.as_str());
        self.change_workspace(caller, target, spec, request.validate_only).await
    }

    async fn check_permission(
        &self,
        caller: &ApiCaller,
        request: CheckPermissionRequest,
    ) -> Result<CheckPermissionResponse, Status> {
        if manager_kinds::permissions::find(&request.permission).is_none() {
            return Err(Status::bad_request(format!("permission: {:?} is not known", request.permission)));
        }
        let instance = Some(request.instance.as_str()).filter(|name| !name.is_empty());
        let allowed = self.verdict(&caller.user, &request.permission, instance) == Verdict::Allowed;
        let access = instance.map(|name| self.operations.rights.instance_access(&caller.user, name));
        let because = access.map(|access| access.because.join(", ")).filter(|text| !text.is_empty());
        let reason = match (allowed, because) {
            (true, Some(because)) => format!("granted by {because}"),
            (true, None) => "granted by a role on the platform, or to every user".to_owned(),
            (false, Some(because)) => format!("{because} does not include it"),
            (false, None) => "no binding grants it".to_owned(),
        };
        Ok(CheckPermissionResponse { allowed, reason })
    }

    async fn list_permissions(
        &self,
        _: &ApiCaller,
        _: ListPermissionsRequest,
    ) -> Result<ListPermissionsResponse, Status> {
        let permissions = PERMISSIONS.iter().map(|permission| PermissionEntry {
            name: permission.name.to_owned(),
            roles: permission.roles().into_iter().map(str::to_owned).collect(),
        });
        Ok(ListPermissionsResponse { permissions: permissions.collect() })
    }

    async fn update_binding(&self, caller: &ApiCaller, request: UpdateBindingRequest) -> Result<Binding, Status> {
        self.replace_access(caller, &BINDINGS, request.binding, request.validate_only).await
    }

    async fn list_my_permissions(
        &self,
        caller: &ApiCaller,
        request: ListMyPermissionsRequest,
    ) -> Result<ListMyPermissionsResponse, Status> {
        let instance = Some(request.instance.as_str()).filter(|name| !name.is_empty());
        let has = |name: &str| self.verdict(&caller.user, name, instance) == Verdict::Allowed;
        let own = PERMISSIONS.iter().filter(|permission| has(permission.name));
        Ok(ListMyPermissionsResponse { permissions: own.map(|permission| permission.name.to_owned()).collect() })
    }

    async fn list_workspace_resources(
        &self,
        caller: &ApiCaller,
        request: ListWorkspaceResourcesRequest,
    ) -> Result<ListWorkspaceResourcesResponse, Status> {
        let workspace = self.get_access(caller, &WORKSPACES, &request.workspace).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let instances = workspace.items(&["spec", "instances"]).iter().map(|name| (text(name), String::new()));
        let namespaces = workspace.items(&["spec", "namespaces"]).iter();
        let namespaces = namespaces.map(|entry| (text(&entry["instance"]), text(&entry["namespace"])));
        let resources = instances.chain(namespaces).map(|(instance, namespace)| {
            let found = self.operations.directory.find(&instance);
            let state = found.map_or("Missing".to_owned(), |entry| entry.phase().to_owned());
            WorkspaceResource { instance, namespace, state }
        });
        Ok(ListWorkspaceResourcesResponse { resources: resources.collect() })
    }
}

#[cfg(test)]
mod tests {
    use manager_kinds::WEBHOOKS;

    use super::*;

    /// A field without a schema would be dropped when it is written.
    #[test]
    fn every_field_of_a_message_is_a_field_of_its_kind() {
        let kinds = manager_kinds::kinds();
        for resource in [USERS, GROUPS, ROLES, BINDINGS, WORKSPACES, FOLDERS, WEBHOOKS] {
            let kind = kinds.iter().find(|kind| kind.plural == resource.plural).expect("a kind");
            let spec = kind.schema.root().property("spec").expect("a spec");
            for field in known(&resource) {
                assert!(spec.property(field).is_some(), "{} has no field spec.{field}", resource.kind);
            }
        }
    }
}
