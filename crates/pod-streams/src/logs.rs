//! Logs: a streamed response that lasts as long as the container writes and the client reads.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderValue, Response, header};

use crate::backend::{LogStream, PodBackend, PodRef, Refusal};
use crate::query::{log_options, query_of};
use crate::upgrade::StreamRequest;

/// Responds with the log of the container. Enforces the byte limit regardless of the backend.
pub async fn serve_logs(
    request: StreamRequest,
    backend: &dyn PodBackend,
    pod: &PodRef,
) -> Result<Response<LogStream>, Refusal> {
    let options = log_options(&query_of(&request.uri))?;
    let limit = options.limit_bytes;
    let lines = backend.logs(pod, options).await?;
    let lines: LogStream = match limit {
        Some(limit) => Box::pin(limited(lines, limit)),
        None => lines,
    };
    let stop = request.stop;
    let lines: LogStream = Box::pin(lines.take_until(async move { stop.cancelled().await }));
    let mut response = Response::new(lines);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

fn limited(lines: LogStream, limit: u64) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    futures::stream::unfold((lines, limit), |(mut lines, left)| async move {
        if left == 0 {
            return None;
        }
        let mut piece = lines.next().await?;
        if let Ok(bytes) = &mut piece {
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let used = piece.as_ref().map_or(0, Bytes::len) as u64;
        Some((piece, (lines, left - used)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_cuts_in_the_middle_of_a_line() {
        for (limit, expected) in [(0, ""), (3, "one"), (5, "onetw"), (99, "onetwo")] {
            let lines: LogStream = Box::pin(futures::stream::iter(["one", "two"].map(|s| Ok(Bytes::from(s)))));
            let got: Vec<Bytes> = limited(lines, limit).map(|piece| piece.expect("no error")).collect().await;
            assert_eq!(got.concat(), expected.as_bytes(), "{limit}");
        }
    }
}
