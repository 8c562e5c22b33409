//! Who owns which field: managed fields of plain writes and of server-side apply.

use object::Object;

use crate::context::Context;
use crate::request::WriteOptions;
use crate::server::Server;
use crate::verbs::Target;

/// Attributes what `new` changes against `live` to the request's manager.
pub fn on_write(
    _server: &Server,
    _ctx: &Context,
    _target: &Target,
    _live: Option<&Object>,
    _new: &mut Object,
    _options: &WriteOptions,
) {
}
