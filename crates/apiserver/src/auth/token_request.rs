//! `serviceaccounts/NAME/token`: short-lived tokens bound to an audience and, if asked, to an object.

use std::sync::Arc;

use object::Status;

use crate::context::Context;
use crate::server::Server;
use crate::subresource::Call;
use crate::verbs::{Answer, Target};

pub async fn create(_server: &Arc<Server>, _ctx: &Context, target: &Target, _call: &Call) -> Result<Answer, Status> {
    Err(Status::method_not_allowed(&target.resource.kind.group_resource(), "create"))
}
