//! Request bodies: read within a time and counted against the memory of their user.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use object::Status;
use object::request::User;

use crate::decode::BODY_BYTES_MAX;
use crate::limits::{Limits, Reservation};

/// Time a client may pause while it sends a body. The request's own time limit covers all of it.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The least a body counts while it arrives, so that many that never arrive are limited too.
const COUNTED_BYTES_MIN: usize = 16 << 10;

/// A request body that has yet to arrive, or one that is in memory already.
pub enum RequestBody {
    Incoming(hyper::body::Incoming),
    Whole(Bytes),
}

impl RequestBody {
    /// Reads all of it, or refuses with 413 as soon as it is too large.
    pub async fn read(self) -> Result<Bytes, Status> {
        match self {
            Self::Whole(bytes) => Ok(bytes),
            Self::Incoming(incoming) => collect(incoming, |_| Ok(())).await,
        }
    }

    /// Reads all of it and counts its bytes against the user's memory until the reservation is dropped.
    pub async fn read_counted(self, limits: &Limits, user: &Arc<User>) -> Result<(Bytes, Option<Reservation>), Status> {
        let incoming = match self {
            Self::Incoming(incoming) if !incoming.is_end_stream() => incoming,
            Self::Incoming(_) => return Ok((Bytes::new(), None)),
            Self::Whole(bytes) => return Ok((bytes, None)),
        };
        let mut reservation = limits.reserve(user, COUNTED_BYTES_MIN)?;
        let bytes = collect(incoming, |bytes| limits.grow(&mut reservation, bytes)).await?;
        Ok((bytes, Some(reservation)))
    }
}

/// Reads frame by frame; `grown` learns the size so far and may refuse it.
async fn collect(
    mut incoming: hyper::body::Incoming,
    mut grown: impl FnMut(usize) -> Result<(), Status>,
) -> Result<Bytes, Status> {
    let too_large = || Status::too_large(format!("limit is {BODY_BYTES_MAX} bytes"));
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    loop {
        let next = tokio::time::timeout(PAUSE_MAX, incoming.frame()).await;
        let next = next.map_err(|_| Status::new(408, "Timeout", "the request body did not arrive in time"))?;
        let Some(frame) = next else { break };
        let frame =
            frame.map_err(|error| Status::bad_request(format!("the request body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let size = first.len() + joined.len() + data.len();
        if size > BODY_BYTES_MAX {
            return Err(too_large());
        }
        grown(size)?;
        // Most bodies come in one frame and need no copy.
        if first.is_empty() && joined.is_empty() {
            first = data;
        } else {
            if joined.is_empty() {
                joined.extend_from_slice(&std::mem::take(&mut first));
            }
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}
