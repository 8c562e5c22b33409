//! Profiles of this process at `/debug/pprof/`, as kube-apiserver serves them to `go tool pprof`.

mod cpu;
mod format;

use std::sync::Arc;
use std::time::Duration;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response, header};
use object::Status;

const INDEX: &str = "/debug/pprof";
const CPU: &str = "/debug/pprof/profile";
const HEAP: [&str; 2] = ["/debug/pprof/heap", "/debug/pprof/allocs"];

const SECONDS_DEFAULT: u64 = 30;
/// Bounds the memory of a profile and the time for which others wait for theirs.
const SECONDS_MAX: u64 = 300;

const INDEX_TEXT: &str = "\
/debug/pprof/

profile   CPU profile; ?seconds=N sets the duration (default 30, at most 300)
heap      not available: the allocator of this program records no stacks

Read a profile with: go tool pprof FILE
";

/// Serves profiles to callers with the right `get` on the path.
pub struct ProfileEndpoint;

#[async_trait]
impl Extension for ProfileEndpoint {
    fn handles(&self, path: &str) -> bool {
        path == INDEX || path.strip_prefix(INDEX).is_some_and(|rest| rest.starts_with('/'))
    }

    fn is_long_running(&self, path: &str) -> bool {
        path == CPU
    }

    async fn serve(&self, _: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read profiles with GET")?;
        match request.incoming.info.path.trim_end_matches('/') {
            INDEX => Ok(respond::text(200, "text/plain; charset=utf-8", INDEX_TEXT)),
            CPU => cpu_profile(duration(request.incoming.query.get("seconds"))?).await,
            path if HEAP.contains(&path) => Err(Status::new(501, "NotImplemented", NO_HEAP_PROFILE)),
            _ => Ok(respond::no_such_page()),
        }
    }
}

const NO_HEAP_PROFILE: &str = "this program uses the allocator mimalloc, which records no stacks of allocations; build it with \
                               `--features system-allocator` and use a heap profiler for the allocator of the system, such as heaptrack";

async fn cpu_profile(duration: Duration) -> Result<Response<Body>, Status> {
    let profile = cpu::record(duration).await.map_err(|error| match error {
        cpu::ProfileError::Running => Status::new(409, "Conflict", error.to_string()),
        error => Status::internal(error),
    })?;
    let mut response = respond::text(200, "application/octet-stream", profile);
    let name = http::HeaderValue::from_static("attachment; filename=\"profile\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    Ok(response)
}

fn duration(seconds: Option<&str>) -> Result<Duration, Status> {
    let seconds = match seconds.unwrap_or_default() {
        "" => SECONDS_DEFAULT,
        text => text.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds)).ok_or_else(|| {
            Status::bad_request(format!("seconds must be a number from 1 to {SECONDS_MAX}, not {text:?}"))
        })?,
    };
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_bounded() {
        let check = |text: Option<&str>, expected: Option<u64>| {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_secs), "{text:?}");
        };
        check(None, Some(30));
        check(Some(""), Some(30));
        check(Some("1"), Some(1));
        check(Some("300"), Some(300));
        for rejected in ["0", "301", "-1", "x", "99999999999999999999"] {
            check(Some(rejected), None);
        }
    }

    #[test]
    fn only_paths_of_profiles_are_handled() {
        let check = |path: &str, expected: bool| assert_eq!(ProfileEndpoint.handles(path), expected, "{path}");
        check("/debug/pprof", true);
        check("/debug/pprof/", true);
        check("/debug/pprof/profile", true);
        check("/debug/pprofile", false);
        check("/debug", false);
    }
}
