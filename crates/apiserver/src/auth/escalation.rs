//! Admission of roles and bindings: refuses to grant rights that the caller does not have.

use access::escalation::{RBAC_GROUP, check_binding_write, check_role_write};
use async_trait::async_trait;
use object::{Object, Status};

use crate::admission::{Admission, AdmissionScope, Attributes};
use crate::context::Context;

/// The escalation check. It only refuses, so it comes after the steps that change objects.
pub struct EscalationCheck;

#[async_trait]
impl Admission for EscalationCheck {
    fn name(&self) -> &'static str {
        "RBACEscalation"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(object) = attributes.written(object) else { return Ok(()) };
        let gvk = &attributes.resource.kind.gvk;
        let check = match gvk.kind.as_str() {
            _ if gvk.group != RBAC_GROUP || ctx.user.is_master() => return Ok(()),
            "Role" | "ClusterRole" => check_role_write,
            "RoleBinding" | "ClusterRoleBinding" => check_binding_write,
            _ => return Ok(()),
        };
        scope.auth.policy().read(scope.resources, |index| check(index, &ctx.user, object, attributes.old)).await?
    }
}
