//! `curl` in the image, which has no other client: one GET request, so that checks of guides can be run in its pods.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use clap::Parser;
use cluster_client::remote::config::Pem;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};

/// Exit codes of the original.
const CANNOT_CONNECT: u8 = 7;
const HTTP_ERROR: u8 = 22;

/// Print the answer to a GET request. A part of flotilla with a few flags of curl.
#[derive(Parser)]
#[command(name = "curl", version)]
struct CurlArgs {
    /// Accept any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// No effect: nothing but the answer and errors is printed
    #[arg(short, long)]
    silent: bool,
    /// No effect: errors are always printed
    #[arg(short = 'S', long)]
    show_error: bool,
    /// Exit with an error if the status is 400 or above
    #[arg(short, long)]
    fail: bool,
    /// Trusted certificates [default: the system's]
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Timeout in seconds
    #[arg(short, long, default_value_t = 30, value_name = "SECONDS")]
    max_time: u64,
    /// Address with https://
    #[arg(value_name = "URL")]
    url: http::Uri,
}

/// Returns true if the program was called by this name.
pub fn is_name(called: Option<&OsStr>) -> bool {
    called.map(Path::new).and_then(Path::file_stem) == Some(OsStr::new("curl"))
}

pub fn run() -> ExitCode {
    match get(&CurlArgs::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "curl: {error:#}");
            ExitCode::from(CANNOT_CONNECT)
        }
    }
}

fn get(args: &CurlArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let response = runtime.block_on(request(args))?;
    if args.fail && response.status().as_u16() >= 400 {
        let _ = writeln!(std::io::stderr(), "curl: the requested URL returned error: {}", response.status().as_u16());
        return Ok(ExitCode::from(HTTP_ERROR));
    }
    std::io::stdout().write_all(response.body()).context("cannot write the answer")?;
    Ok(ExitCode::SUCCESS)
}

async fn request(args: &CurlArgs) -> anyhow::Result<http::Response<Bytes>> {
    let scheme = args.url.scheme_str().context("the URL needs https://")?;
    let host = args.url.authority().context("the URL has no host")?;
    let config = RemoteConfig {
        ca: args.cacert.clone().map(Pem::File),
        insecure_skip_tls_verify: args.insecure,
        request_timeout: Duration::from_secs(args.max_time),
        ..RemoteConfig::new(format!("{scheme}://{host}"))
    };
    let client = ClusterClient::connect(Endpoint::Remote(config))?;
    let path = args.url.path_and_query().map_or("/", |path| path.as_str());
    Ok(client.raw(http::Request::get(path).body(Bytes::new())?).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_link() {
        for (called, expected) in [("curl", true), ("/usr/bin/curl", true), ("flotilla", false), ("curling", false)] {
            assert_eq!(is_name(Some(OsStr::new(called))), expected, "{called}");
        }
        assert!(!is_name(None));
    }

    #[test]
    fn flags_of_guides_are_known() {
        let args = CurlArgs::try_parse_from(["curl", "-sSk", "-m", "5", "https://a.example.net:5443/healthz?x=1"]);
        let args = args.expect("flags");
        assert!(args.insecure && args.silent && args.show_error && !args.fail && args.max_time == 5);
        assert_eq!(args.url.path_and_query().map(|path| path.as_str()), Some("/healthz?x=1"));
    }
}
