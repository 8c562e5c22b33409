//! A certificate from the control plane: a key made here, a request, and patience until it is approved and signed.

use std::time::Duration;

use agent::renewal::{GROUP, REQUESTS, signing_request};
use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use pki::csr::create_csr;
use pki::key::PrivateKey;
use pki::subject::{AlternativeNames, Subject};
use tokio::time::Instant;

use crate::console::Console;

const POLL: Duration = Duration::from_millis(500);
/// After this long a person is probably needed.
const APPROVAL_USUAL: Duration = Duration::from_secs(5);

/// What is asked for.
pub struct Requested {
    /// Name of the request.
    pub csr: String,
    pub user: String,
    pub seconds: i32,
    pub deadline: Instant,
}

/// A certificate and its key, in PEM.
pub struct Keyed {
    pub certificate: Vec<u8>,
    pub key: String,
}

pub async fn certificate(console: &Console, plane: &ClusterClient, asked: Requested) -> anyhow::Result<Keyed> {
    let Requested { csr, user, seconds, deadline } = asked;
    let key = PrivateKey::generate()?;
    let subject = Subject::new(&user, &[GROUP.to_owned()]);
    let text = create_csr(&key, &subject, &AlternativeNames::default())?;
    let request = signing_request(&csr, &text, seconds);
    let created = plane.create(ResourceRef::all(&REQUESTS.gvr()), request, WriteOptions::default()).await;
    created.with_context(|| format!("the certificate {csr} could not be asked for"))?;
    let hint_at = Instant::now() + APPROVAL_USUAL;
    let mut is_hinted = false;
    loop {
        let request = plane.get(ResourceRef::cluster(&REQUESTS.gvr(), &csr)).await?;
        let signed = request.str_at(&["status", "certificate"]);
        if !signed.is_empty() {
            let certificate = STANDARD.decode(signed).context("the certificate is not base64")?;
            return Ok(Keyed { certificate, key: key.to_pem() });
        }
        if let Some(end) = request.items(&["status", "conditions"]).iter().find(|c| c["type"] != "Approved") {
            return Err(anyhow!("the certificate {csr} was refused: {}", end["message"].as_str().unwrap_or_default()));
        }
        let now = Instant::now();
        if now >= deadline {
            bail!("the certificate {csr} was not issued in time");
        }
        if now >= hint_at && !is_hinted {
            console.note(format!(
                "waiting for {csr}: approve it with `kubectl certificate approve {csr}` on the control plane"
            ));
            is_hinted = true;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A request nobody will look at again goes.
pub async fn forget(console: &Console, plane: &ClusterClient, csr: &str) {
    if let Err(status) = plane.delete(ResourceRef::cluster(&REQUESTS.gvr(), csr), DeleteOptions::default()).await {
        console.warn(format!("the request {csr} stays in the control plane: {status}"));
    }
}
