//! `console`: prints a link that opens the web console, signed in.

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use cluster_client::ClusterClient;
use http::{Request, header};
use object::Status;
use serde_json::Value;

use crate::console::Console;
use crate::plane::{PlaneArgs, PlaneClient};
use crate::why::unknown_path;

const TICKETS: &str = "/flotilla/v1alpha1/console/tickets";

/// Print a link that opens the web console in a browser, signed in as you.
///
/// The link works once and expires after ten minutes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # A link for the user of the current context
  flotilla console

  # For another control plane
  flotilla console --kubeconfig ~/.flotilla/default/karmada-apiserver.config")]
pub struct ConsoleArgs {
    #[command(flatten)]
    plane: PlaneArgs,
}

pub async fn run(console: &Console, args: ConsoleArgs) -> anyhow::Result<()> {
    let plane = PlaneClient::open(&args.plane)?;
    let path = sign_in_path(&plane.client).await.map_err(|error| plane.explain(error))?;
    let server = plane.server().unwrap_or_default();
    console.line(format!("{}{path}", server.trim_end_matches('/')))?;
    Ok(())
}

/// Requests a ticket and returns the path of the console with it.
pub async fn sign_in_path(client: &ClusterClient) -> anyhow::Result<String> {
    let request = Request::post(TICKETS)
        .header(header::ACCEPT, "application/json")
        .body(Bytes::new())
        .context("cannot build the request")?;
    let response = client.raw(request).await?;
    if response.status().as_u16() >= 400 {
        return Err(unknown_path(Status::from_response(response.status().as_u16(), response.body())).into());
    }
    let ticket: Value = serde_json::from_slice(response.body()).context("the response is not JSON")?;
    if ticket["built"] == false {
        bail!(
            "the control plane was built without the console: install Node 20.19 or later and build it with `make up`"
        );
    }
    ticket["path"].as_str().map(str::to_owned).context("the response has no path")
}
