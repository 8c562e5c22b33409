//! Runs the control plane as a pod of the host cluster, as `flotilla init` installs it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use api::names::SYSTEM_NAMESPACE;
use karmadactl::init::hosting;
use membership::credentials::NAMESPACES;
use membership::plane_manifests::{HostPort, PLANE_RESOURCES, PlaneInstallation, PlaneStorage};
use tokio::time::Instant;

use super::{HOST, HostSpec, apply, image};
use crate::bed::Testbed;
use crate::clusters::{check_ready, open, rewrite, write_if_changed};
use crate::display::ProgressLine;
use crate::place::{PLANE, PLANE_CONTEXT};
use crate::spec::{PLANE_INTERVALS, loopback};

/// Label `app` of the pod: guides of Karmada select pods of the control plane by it for the log of the controllers.
pub const CONTROLLERS: &str = "karmada-controller-manager";

const POLL: Duration = Duration::from_millis(50);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the host cluster and the pod of the control plane, and returns when its API is ready.
pub async fn start_plane(bed: &Testbed, host: &HostSpec, line: &ProgressLine, deadline: Instant) -> anyhow::Result<()> {
    bed.start_member(&host.cluster, line, deadline).await?;
    let image = image::publish(bed, line, deadline).await?;
    line.say("starting its pod");
    let installation = installation(bed, host, image)?;
    let client = open(&bed.place.member_config(HOST))?;
    for mut object in installation.objects() {
        if object.kind() == installation.workload_resource().kind {
            object.set(&["spec", "template", "metadata", "labels", "app"], CONTROLLERS);
        }
        let resource = PLANE_RESOURCES.iter().chain([&NAMESPACES]).find(|known| known.kind == object.kind());
        apply(&client, resource.copied(), object).await?;
    }
    hosting::wait_until_ready(&client, &installation, Some(deadline)).await?;
    line.say("waiting for its API");
    let written = bed.place.machine_data(PLANE).join("karmada-apiserver.config");
    let server = format!("https://{}", loopback(bed.spec.plane_port));
    loop {
        if let Ok(text) = std::fs::read_to_string(&written)
            && let Ok(text) = rewrite(&text, PLANE_CONTEXT, &server)
        {
            write_if_changed(&bed.place.plane_config(), &text)?;
        }
        let checked = check_ready(&bed.place.plane_config(), CHECK_TIMEOUT).await;
        match checked {
            Ok(()) => return Ok(()),
            Err(reason) if Instant::now() >= deadline => {
                bail!("the control plane is not ready at {server} before the timeout: {reason}")
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

fn installation(bed: &Testbed, host: &HostSpec, image: String) -> anyhow::Result<PlaneInstallation> {
    let inside = host.plane_address()?;
    Ok(PlaneInstallation {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        image,
        image_pull_policy: "IfNotPresent".to_owned(),
        image_pull_secrets: Vec::new(),
        // In the directory of the testbed, so that `down --delete` removes it.
        storage: PlaneStorage::HostPath(bed.place.machine_data(PLANE).display().to_string()),
        node_port: None,
        host_port: Some(HostPort { address: inside.ip(), port: inside.port() }),
        advertise_url: Some(format!("https://{}", loopback(bed.spec.plane_port))),
        domain: "cluster.local".to_owned(),
        tls_names: vec!["localhost".to_owned(), "127.0.0.1".to_owned(), inside.ip().to_string()],
        authority: None,
        encryption: None,
        priority_class: None,
        node_selector: BTreeMap::new(),
        arguments: PLANE_INTERVALS.map(str::to_owned).to_vec(),
    })
}
