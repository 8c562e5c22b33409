//! The parts of a server that reads and writes work with, so that no verb sees the whole server.

use std::sync::Arc;

use access::Action;
use object::request::User;
use object::{Object, Status};
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::admission::{AdmissionScope, Attributes, Chain};
use crate::audit::Audit;
use crate::auth::Auth;
use crate::context::Context;
use crate::health::HealthCheck;
use crate::limits::Limits;
use crate::resources::Resources;
use crate::respond::CompressedParts;
use crate::served_resources::{Resource, ServedResources};
use crate::storage::{EventLeases, Objects};

/// The parts that lists and watches use.
#[derive(Clone, Copy)]
pub struct ReadScope<'a> {
    pub(crate) resources: Resources<'a>,
    pub(crate) limits: &'a Limits,
    pub(crate) parts: &'a Arc<CompressedParts>,
    /// Ends watches when the server stops.
    pub(crate) stop: &'a CancellationToken,
}

/// The parts that health checks look at.
pub struct HealthScope<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) audit: &'a Audit,
    pub(crate) checks: &'a [Box<dyn HealthCheck>],
    pub(crate) is_ready: bool,
    pub(crate) is_stopping: bool,
}

/// The parts that writes use.
#[derive(Clone, Copy)]
pub struct WriteScope<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) registry: &'a ServedResources,
    pub(crate) auth: &'a Auth,
    pub(crate) admission: &'a Chain,
    pub(crate) event_leases: &'a EventLeases,
}

impl<'a> WriteScope<'a> {
    pub fn resources(self) -> Resources<'a> {
        Resources { objects: self.objects, registry: self.registry }
    }

    pub(crate) async fn mutate(self, ctx: &Context, asked: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
        self.admission.mutate(self.admission_scope(), ctx, asked, object).await
    }

    pub(crate) async fn validate(
        self,
        ctx: &Context,
        asked: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        self.admission.validate(self.admission_scope(), ctx, asked, object).await
    }

    /// 403 unless the user may do this, for questions that are not the request itself.
    pub(crate) async fn require(self, user: &User, action: &Action<'_>) -> Result<(), Status> {
        self.auth.require(self.resources(), user, action).await
    }

    /// The lease a new object lives under; only events have one.
    pub(crate) async fn lease_for(self, resource: &Resource) -> Result<Option<i64>, Status> {
        let is_event = resource.kind.storage.kind == "Event" && resource.kind.storage.group.is_empty();
        if !is_event {
            return Ok(None);
        }
        self.event_leases.lease(self.objects.store()).await.map(Some)
    }

    fn admission_scope(self) -> AdmissionScope<'a> {
        AdmissionScope { resources: self.resources(), auth: self.auth, chain: self.admission }
    }
}
