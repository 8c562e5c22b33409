//! Responses on the wire: content negotiation, and the encoding of objects, lists, tables and watch frames.

mod body;
mod compressed_parts;
mod foreign;
mod list;
mod list_gzip;
mod list_stream;
mod negotiate;
mod object;
pub(crate) mod table;
mod watch;

pub use body::{Body, add_warnings, counted, json, no_such_page, not_modified, status, text, value};
pub use compressed_parts::CompressedParts;
pub use foreign::{ForeignEvent, foreign_object, foreign_watch};
pub use list::{ListHead, foreign_list, list_response, objects_response};
pub use list_stream::counted_bytes;
pub use negotiate::{Encoding, Format, Shape};
pub use object::{encoded, finish, object_response, status_response};
pub use watch::watch_response;
