//! The manager of a testbed with two instances: the control plane of the testbed, imported, and a second control plane in the
//! manager's process with a member of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use cluster_client::{ClusterClient, ResourceRef};
use manager_kinds::annotations::{IMPORT_KUBECONFIG, MODE, Mode};
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS, MANAGED_CLUSTERS};
use membership::credentials::SECRETS;
use object::{Object, conditions};
use provisioners::Machine;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::bed::Testbed;
use crate::clusters::{check_ready, open, open_within, rewrite, write_if_changed};
use crate::display::ProgressLine;
use crate::place::{INSTANCE_MEMBER, MANAGER, SECOND_INSTANCE, TestbedDir};
use crate::spec::{ManagerSpec, Spec, command, loopback, machine};

/// The instance that is the control plane of the testbed.
const FIRST_INSTANCE: &str = "testbed";
const KUBECONFIG_KEY: &str = "kubeconfig";
const FIELD_MANAGER: &str = "flotilla-up";
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

impl Spec {
    fn manager_machine(&self, place: &TestbedDir, program: &Path, manager: &ManagerSpec) -> Machine {
        let data = place.machine_data(MANAGER);
        let bind = SocketAddr::new(self.bind, manager.port).to_string();
        // The control plane and the member are on this machine.
        let words = ["manager", "--allow-loopback-endpoints", "--bind", &bind, "--data-dir"];
        machine(MANAGER, command(program, &words, &[&data]))
    }

    fn instance_member_machine(&self, place: &TestbedDir, program: &Path, manager: &ManagerSpec) -> Machine {
        let data = place.machine_data(INSTANCE_MEMBER);
        let bind = loopback(manager.member_port).to_string();
        let words = ["member", "--cluster-name", INSTANCE_MEMBER, "--bind", &bind, "--data-dir"];
        machine(INSTANCE_MEMBER, command(program, &words, &[&data]))
    }
}

/// Starts the manager, its instances and the member of the second instance, and returns when all are ready.
pub async fn bring_up(
    bed: &Testbed,
    manager: &ManagerSpec,
    line: &ProgressLine,
    mut plane_is_up: watch::Receiver<bool>,
    deadline: Instant,
) -> anyhow::Result<()> {
    start(bed, manager, line, deadline).await?;
    let client = open(&bed.place.manager_config())?;
    line.say("creating its instances");
    apply(&client, karmada(SECOND_INSTANCE, &[])).await?;
    let kubeconfig = std::fs::read_to_string(bed.place.member_config(INSTANCE_MEMBER))?;
    apply(&client, secret(INSTANCE_MEMBER, &kubeconfig)).await?;
    apply(&client, managed_cluster()).await?;
    if plane_is_up.wait_for(|is_up| *is_up).await.is_err() {
        bail!("the control plane did not start");
    }
    let import = format!("{FIRST_INSTANCE}-import");
    apply(&client, secret(&import, &std::fs::read_to_string(bed.place.plane_config())?)).await?;
    let reference = format!("{import}/{KUBECONFIG_KEY}");
    let settings = [(MODE, Mode::Imported.name()), (IMPORT_KUBECONFIG, reference.as_str())];
    apply(&client, karmada(FIRST_INSTANCE, &settings)).await?;
    loop {
        let Err(problem) = check(&client).await else { return Ok(()) };
        line.say(&format!("waiting for its instances: {problem}"));
        if Instant::now() >= deadline {
            bail!("its instances are not ready before the timeout: {problem}");
        }
        bed.patience(&bed.supervisor, MANAGER, deadline).await?;
    }
}

/// Starts the processes and writes their kubeconfigs.
async fn start(bed: &Testbed, manager: &ManagerSpec, line: &ProgressLine, deadline: Instant) -> anyhow::Result<()> {
    let place = &bed.place;
    let machines = [
        bed.spec.instance_member_machine(place, &bed.program, manager),
        bed.spec.manager_machine(place, &bed.program, manager),
    ];
    for machine in &machines {
        bed.started(&bed.supervisor, machine, line).await?;
    }
    let url = format!("https://{}", loopback(manager.port));
    let written = [
        (INSTANCE_MEMBER, "member.config", place.member_config(INSTANCE_MEMBER), INSTANCE_MEMBER, manager.member_port),
        (MANAGER, "manager.config", place.manager_config(), MANAGER, manager.port),
    ];
    for (machine, file, config, context, port) in written {
        let source = place.machine_data(machine).join(file);
        loop {
            if let Ok(text) = std::fs::read_to_string(&source)
                && let Ok(text) = rewrite(&text, context, &format!("https://{}", loopback(port)))
            {
                write_if_changed(&config, &text)?;
                if check_ready(&config, CHECK_TIMEOUT).await.is_ok() {
                    break;
                }
            }
            bed.patience(&bed.supervisor, machine, deadline).await?;
        }
    }
    let text = std::fs::read_to_string(place.manager_config())?;
    let second = rewrite(&text, SECOND_INSTANCE, &format!("{url}/instances/{SECOND_INSTANCE}"))?;
    write_if_changed(&place.instance_config(), &second)
}

/// Returns what is not ready yet.
async fn check(client: &ClusterClient) -> Result<(), String> {
    let instance = |name: &str| ResourceRef::namespaced(&KARMADAS.gvr(), INSTANCE_NAMESPACE, name);
    let targets = [
        (FIRST_INSTANCE, instance(FIRST_INSTANCE)),
        (SECOND_INSTANCE, instance(SECOND_INSTANCE)),
        (INSTANCE_MEMBER, ResourceRef::cluster(&MANAGED_CLUSTERS.gvr(), INSTANCE_MEMBER)),
    ];
    for (name, target) in targets {
        let found = client.find(target).await.map_err(|status| status.to_string())?;
        let found = found.ok_or_else(|| format!("{name} does not exist"))?;
        if !conditions::is_true(&found, "Ready") {
            let ready = conditions::find(&found, "Ready");
            let why = ready.map_or("it has no status yet".to_owned(), |ready| ready.message().to_owned());
            return Err(format!("{name}: {why}"));
        }
    }
    Ok(())
}

/// Returns what is not ready in a running manager.
pub async fn readiness(place: &TestbedDir, timeout: Duration) -> Result<(), String> {
    let client = open_within(&place.manager_config(), timeout).map_err(|error| format!("{error:#}"))?;
    check(&client).await
}

fn karmada(name: &str, annotations: &[(&str, &str)]) -> Object {
    let mut instance = KARMADAS.object(INSTANCE_NAMESPACE, name);
    for (key, value) in annotations {
        instance.set_annotation(key, value);
    }
    instance.set(&["spec"], json!({}));
    instance
}

fn managed_cluster() -> Object {
    let mut cluster = MANAGED_CLUSTERS.object("", INSTANCE_MEMBER);
    cluster.set(&["spec", "instances"], json!([SECOND_INSTANCE]));
    cluster.set(&["spec", "secretRef"], json!({"namespace": INSTANCE_NAMESPACE, "name": INSTANCE_MEMBER}));
    cluster
}

fn secret(name: &str, kubeconfig: &str) -> Object {
    let mut secret = SECRETS.object(INSTANCE_NAMESPACE, name);
    let data = base64::engine::general_purpose::STANDARD.encode(kubeconfig);
    secret.set(&["data", KUBECONFIG_KEY], data);
    secret
}

async fn apply(client: &ClusterClient, object: Object) -> anyhow::Result<()> {
    let resource = match object.kind() {
        "Karmada" => KARMADAS,
        "ManagedCluster" => MANAGED_CLUSTERS,
        _ => SECRETS,
    };
    let (target, name) = (ResourceRef::of(&resource.gvr(), &object), object.name().to_owned());
    let applied = client.apply(target, object, FIELD_MANAGER).await;
    applied.map(drop).with_context(|| format!("cannot write {} {name}", resource.kind))
}
