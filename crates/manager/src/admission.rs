//! Admission rules of the manager that need more than the object.

use std::sync::Arc;

use access::ResourceAction;
use apiserver::admission::{Admission, AdmissionScope, Attributes, Operation};
use apiserver::cache::Filter;
use apiserver::context::Context;
use apiserver::resources::Resources;
use async_trait::async_trait;
use instances::etcd_location::{self, Compared, EtcdLocation};
use instances::plane::PlaneFactory;
use manager_kinds::{BINDINGS, GROUPS, KARMADAS, MANAGED_CLUSTERS, MANAGER_GROUP, ROLES, annotations, spec};
use object::{FieldError, FieldPath, Object, Status};

/// Refuses instances whose flags no server accepts, those whose data would be in the place of other data, and the deletion of
/// protected instances.
pub struct InstanceRules {
    pub factory: Arc<dyn PlaneFactory>,
    /// The data of the manager itself, if it is in an etcd.
    pub own: Option<EtcdLocation>,
}

#[async_trait]
impl Admission for InstanceRules {
    fn name(&self) -> &'static str {
        "InstanceRules"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        if kind.gvk != KARMADAS.gvk() || attributes.subresource.is_some() {
            return Ok(());
        }
        if attributes.operation == Operation::Delete {
            return refuse_protected(attributes);
        }
        let Some(object) = object.filter(|object| !object.is_deleting()) else { return Ok(()) };
        let flags = spec::read(object, annotations::read(object).0.mode).plane.flags;
        let invalid = |error| Status::invalid(&kind.group_kind(), attributes.name_in_refusals(Some(object)), &[error]);
        self.factory
            .check(&flags)
            .map_err(|problem| invalid(FieldError::invalid(FieldPath::new("spec"), flags.join(" "), problem)))?;
        match self.taken_place(scope.resources, attributes, object).await? {
            Some(error) => Err(invalid(error)),
            None => Ok(()),
        }
    }
}

impl InstanceRules {
    /// Returns the field that asks for a place in an etcd which has other data. A stored instance is checked when it moves.
    async fn taken_place(
        &self,
        resources: Resources<'_>,
        attributes: &Attributes<'_>,
        object: &Object,
    ) -> Result<Option<FieldError>, Status> {
        let Some(place) = EtcdLocation::of(object) else { return Ok(None) };
        if attributes.old.and_then(EtcdLocation::of).as_ref() == Some(&place) {
            return Ok(None);
        }
        if self.own.as_ref().is_some_and(|own| own.overlaps(&place)) {
            return Ok(Some(etcd_location::refusal(object, &place, "the manager has its own data there")));
        }
        let Some(karmadas) = resources.registry.find(KARMADAS.group, KARMADAS.version, KARMADAS.plural) else {
            return Ok(None);
        };
        karmadas.cache.fresh().await?;
        let others: Vec<_> = karmadas.cache.entries(&Filter::default()).iter().map(|entry| entry.decode()).collect();
        Ok(etcd_location::conflict(object, &others, Compared::All))
    }
}

/// Refuses the deletion of clusters that are joined to instances, and credentials that the caller could not read and write:
/// the manager sends what is in the Secret of a cluster to its address, and writes new credentials to it.
pub struct InventoryRules;

#[async_trait]
impl Admission for InventoryRules {
    fn name(&self) -> &'static str {
        "InventoryRules"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        if kind.gvk != MANAGED_CLUSTERS.gvk() || attributes.subresource.is_some() {
            return Ok(());
        }
        if let Some(cluster) = attributes.written(object) {
            require_secret(scope, ctx, attributes.old, cluster).await?;
        }
        if attributes.operation != Operation::Delete {
            return Ok(());
        }
        let joined = attributes.old.map(|old| old.items(&["status", "joinedTo"])).unwrap_or_default();
        let names: Vec<&str> = joined.iter().filter_map(|entry| entry["instance"].as_str()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let why = format!("the cluster is joined to {}: empty spec.instances first", names.join(", "));
        Err(Status::forbidden(&kind.group_resource(), attributes.name, why))
    }
}

async fn require_secret(
    scope: AdmissionScope<'_>,
    ctx: &Context,
    old: Option<&Object>,
    cluster: &Object,
) -> Result<(), Status> {
    let is_same = |field: &str| old.is_some_and(|old| old.get(&["spec", field]) == cluster.get(&["spec", field]));
    if is_same("secretRef") && is_same("apiEndpoint") {
        return Ok(());
    }
    let reference = |field: &str| cluster.str_at(&["spec", "secretRef", field]);
    for verb in ["get", "update"] {
        let action = ResourceAction {
            verb,
            version: "v1",
            resource: "secrets",
            namespace: reference("namespace"),
            name: reference("name"),
            ..ResourceAction::default()
        };
        scope.auth.require(scope.resources, &ctx.user, &action.into()).await?;
    }
    Ok(())
}

/// Roles that only users with all permissions can grant.
const PRIVILEGED: &[&str] = &["platform-admin", "instance-owner"];

/// Refuses to give others more than the caller has: bindings, roles and group members with privileged roles, and the accounts
/// of users that have one, whose passwords could be set by who may create them.
pub struct GrantRules;

#[async_trait]
impl Admission for GrantRules {
    fn name(&self) -> &'static str {
        "GrantRules"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let object = object.or(attributes.old.filter(|old| old.kind() == "User"));
        let Some(object) = object.filter(|_| attributes.resource.kind.gvk.group == MANAGER_GROUP) else {
            return Ok(());
        };
        let is_privileged = match object.kind() {
            "Binding" => {
                let role = object.str_at(&["spec", "role"]);
                PRIVILEGED.contains(&role) || is_privileged_role(scope.resources, role).await?
            }
            "Role" => PRIVILEGED.contains(&object.str_at(&["spec", "grants"])),
            "Group" => {
                let name = attributes.name_in_refusals(Some(object));
                is_privileged_subject(scope.resources, &[("Group", name)]).await?
            }
            "User" => is_privileged_account(scope.resources, attributes, object).await?,
            _ => false,
        };
        if !is_privileged {
            return Ok(());
        }
        let everything = ResourceAction {
            verb: "bind",
            group: "rbac.authorization.k8s.io",
            resource: "clusterroles",
            name: "cluster-admin",
            ..ResourceAction::default()
        };
        scope.auth.require(scope.resources, &ctx.user, &everything.into()).await
    }
}

async fn is_privileged_role(resources: Resources<'_>, name: &str) -> Result<bool, Status> {
    let Some(roles) = resources.registry.find(ROLES.group, ROLES.version, ROLES.plural) else { return Ok(false) };
    let role = resources.objects.get(&roles.key("", name)).await?;
    Ok(role.is_some_and(|role| PRIVILEGED.contains(&role.object.str_at(&["spec", "grants"]))))
}

/// An account stands for its name and for its e-mail addresses, before and after the write.
async fn is_privileged_account(
    resources: Resources<'_>,
    attributes: &Attributes<'_>,
    user: &Object,
) -> Result<bool, Status> {
    let emails = [Some(user), attributes.old].into_iter().flatten().flat_map(|user| user.items(&["spec", "emails"]));
    let names = emails.filter_map(|email| email.as_str());
    for name in names.chain([attributes.name_in_refusals(Some(user))]) {
        if is_privileged_user(resources, name).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true for a user that a Binding gives a privileged role, directly or as a member of a local group.
async fn is_privileged_user(resources: Resources<'_>, name: &str) -> Result<bool, Status> {
    let Some(groups) = resources.registry.find(GROUPS.group, GROUPS.version, GROUPS.plural) else { return Ok(false) };
    groups.cache.fresh().await?;
    let all: Vec<_> = groups.cache.entries(&Filter::default()).iter().map(|entry| entry.decode()).collect();
    let own = all.iter().filter(|group| group.items(&["spec", "members"]).iter().any(|member| member == name));
    let subjects: Vec<(&str, &str)> = own.map(|group| ("Group", group.name())).chain([("User", name)]).collect();
    is_privileged_subject(resources, &subjects).await
}

/// Returns true if a Binding gives one of the subjects, by kind and name, a privileged role.
async fn is_privileged_subject(resources: Resources<'_>, subjects: &[(&str, &str)]) -> Result<bool, Status> {
    let Some(bindings) = resources.registry.find(BINDINGS.group, BINDINGS.version, BINDINGS.plural) else {
        return Ok(false);
    };
    bindings.cache.fresh().await?;
    for binding in bindings.cache.entries(&Filter::default()).iter().map(|entry| entry.decode()) {
        let field = |name: &str| binding.str_at(&["spec", "subject", name]);
        if !subjects.contains(&(field("kind"), field("name"))) {
            continue;
        }
        let role = binding.str_at(&["spec", "role"]);
        if PRIVILEGED.contains(&role) || is_privileged_role(resources, role).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refuse_protected(attributes: &Attributes<'_>) -> Result<(), Status> {
    let is_protected = attributes.old.is_some_and(|old| annotations::read(old).0.is_protected);
    if !is_protected {
        return Ok(());
    }
    let why = format!("the instance is protected: remove the annotation {} first", annotations::PROTECTED);
    Err(Status::forbidden(&attributes.resource.kind.group_resource(), attributes.name, why))
}
