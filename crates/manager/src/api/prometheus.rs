//! Metrics of an instance and its clusters as text, and queries to the Prometheus of an instance.

use std::time::Duration;

use apiserver::forwarding;
use bytes::Bytes;
use cluster_client::RemoteConfig;
use cluster_client::remote::connect::open_http1_over;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Limited};
use instances::import::EndpointPolicy;
use manager_api::*;
use manager_kinds::annotations;
use object::Status;
use object::percent::encode;
use serde_json::Value;
use transcode::Raw;
use transcode::errors::failed_precondition;

use super::resources::send;
use super::{ApiCaller, ManagerApi};

const TEXT_FORMAT: &str = "text/plain; version=0.0.4";
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Larger answers of a Prometheus are refused.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const QUERY_BYTES_MAX: usize = 16 << 10;

/// Returns the path and query of a request to a Prometheus.
fn query_path(request: &QueryPrometheusRequest) -> Result<String, Status> {
    let QueryPrometheusRequest { query, time, start, end, step, .. } = request;
    if query.is_empty() || query.len() > QUERY_BYTES_MAX {
        return Err(Status::bad_request(format!("query: must have 1 to {QUERY_BYTES_MAX} bytes")));
    }
    let (path, parameters) = match (start.is_empty(), end.is_empty()) {
        (true, true) => ("query", vec![("query", query), ("time", time)]),
        (false, false) => ("query_range", vec![("query", query), ("start", start), ("end", end), ("step", step)]),
        _ => return Err(Status::bad_request("start and end belong together")),
    };
    let given = parameters.into_iter().filter(|(_, value)| !value.is_empty());
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={}", encode(value))).collect();
    Ok(format!("/api/v1/{path}?{}", given.join("&")))
}

/// Sends a query. The server is not followed to other addresses, and only answers of a Prometheus are returned.
async fn ask(policy: EndpointPolicy, url: &str, path: &str) -> Result<Bytes, String> {
    let addresses = policy.resolve(url).await?;
    let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
    let failed = |error: &dyn std::fmt::Display| format!("it cannot be reached: {error}");
    let stream = tokio::net::TcpStream::connect(&addresses[..]).await.map_err(|error| failed(&error))?;
    let stream = open_http1_over(&RemoteConfig::new(url), Box::new(stream)).await.map_err(|error| failed(&error))?;
    let request = Request::builder()
        .method(Method::GET)
        .uri(format!("{}{path}", uri.path().trim_end_matches('/')))
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .body(forwarding::whole(Bytes::new()))
        .map_err(|error| failed(&error))?;
    let response = forwarding::exchange(stream, request).await.map_err(|error| failed(&error))?;
    let code = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body =
        body.map_err(|_| format!("its answer has more than {ANSWER_BYTES_MAX} bytes or was cut off"))?.to_bytes();
    answer(code.as_u16(), &body).map(|()| body)
}

/// Checks that an answer is one of a Prometheus. Nothing else is shown, so that the URL cannot be used to read other servers.
fn answer(code: u16, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    match value["status"].as_str() {
        Some("success") if value["data"].is_object() => Ok(()),
        Some("error") if value["errorType"].is_string() => {
            Err(format!("it refused the query: {}", value["error"].as_str().unwrap_or_default()))
        }
        _ => Err(format!("it answered {code} and not as a Prometheus does")),
    }
}

impl ManagerApi {
    pub(super) async fn scrape(&self, caller: &ApiCaller, request: &ScrapeMetricsRequest) -> Result<Raw, Status> {
        if request.cluster.is_empty() {
            let entry = self.entry(&request.instance)?;
            let stopped = || Status::unavailable(format!("the instance {} is not running", request.instance));
            let running = self.operations.directory.connect(&entry).await.ok_or_else(stopped)?;
            // Sums over the control plane, without objects of users.
            return Ok(Raw::text(TEXT_FORMAT, send(&running.admin, "GET", "/metrics", None).await?));
        }
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        self.operations.prepare_member_user(&caller.user, &request.instance).await?;
        let cluster = encode(&request.cluster);
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy/metrics");
        Ok(Raw::text(TEXT_FORMAT, send(&client, "GET", &path, None).await?))
    }

    pub(super) async fn prometheus(&self, request: &QueryPrometheusRequest) -> Result<Raw, Status> {
        let path = query_path(request)?;
        let entry = self.entry(&request.instance)?;
        let url = annotations::read(&entry.object).0.prometheus.ok_or_else(|| {
            failed_precondition("the instance has no Prometheus: set the annotation flotilla.dev/prometheus-url")
        })?;
        let asked = tokio::time::timeout(QUERY_TIMEOUT, ask(self.operations.endpoints, &url, &path)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("it did not answer within {QUERY_TIMEOUT:?}")));
        let name = &request.instance;
        asked.map(Raw::json).map_err(|problem| failed_precondition(format!("the Prometheus of {name}: {problem}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, (time, start, end): (&str, &str, &str), expected: Option<&str>) {
        let request = QueryPrometheusRequest {
            query: query.to_owned(),
            time: time.to_owned(),
            start: start.to_owned(),
            end: end.to_owned(),
            step: "30s".to_owned(),
            ..QueryPrometheusRequest::default()
        };
        assert_eq!(query_path(&request).ok().as_deref(), expected, "{query}");
    }

    #[test]
    fn a_query_reaches_only_the_query_paths() {
        check("up", ("", "", ""), Some("/api/v1/query?query=up"));
        check("a&b=c/../x", ("5", "", ""), Some("/api/v1/query?query=a%26b%3Dc%2F..%2Fx&time=5"));
        check("up", ("", "1", "2"), Some("/api/v1/query_range?query=up&start=1&end=2&step=30s"));
        check("up", ("", "1", ""), None);
        check("", ("", "", ""), None);
    }

    #[test]
    fn only_answers_of_a_prometheus_are_passed_on() {
        for (body, is_shown) in [
            (r#"{"status": "success", "data": {"result": []}}"#, true),
            (r#"{"status": "error", "errorType": "bad_data", "error": "x"}"#, false),
            (r#"{"secret": "x"}"#, false),
            ("<html>", false),
        ] {
            assert_eq!(answer(200, body.as_bytes()).is_ok(), is_shown, "{body}");
        }
        let refused = answer(200, br#"{"secret": "x"}"#).unwrap_err();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
