//! `expose`, `forwards` and `unexpose`: local ports forwarded to pods.

use ::karmadactl::console::Console;
use ::testbed::clusters;
use ::testbed::expose::{self, Exposure, ExposureReport, PodChoice};
use ::testbed::spec::Spec;
use ::testbed::supervisor::client::SupervisorClient;
use anyhow::{Context, bail};
use clap::Args;
use provisioners::process::forward::NetworkFault;

use super::{Format, TestbedArgs};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # http://127.0.0.1:9091 is Prometheus in member1, also after its pod is replaced
  flotilla expose prometheus1 -C member1 -n monitoring --pod app.kubernetes.io/name=prometheus --port 9091:9090

  # The pods of a Deployment, for all who reach this host
  flotilla expose web -C member2 --pod deploy/web --port 8080:80 --bind 0.0.0.0

  flotilla forwards
  flotilla unexpose prometheus1")]
pub struct ExposeArgs {
    /// Name of the forward
    #[arg(value_name = "FORWARD")]
    forward: String,
    #[command(flatten)]
    place: TestbedArgs,
    /// Member the pod runs in
    #[arg(short = 'C', long, value_name = "MEMBER")]
    cluster: String,
    /// Name of the pod, labels such as app=web, or deploy/NAME, sts/NAME, ds/NAME, svc/NAME
    #[arg(long, value_name = "POD")]
    pod: String,
    /// Namespace of the pod
    #[arg(short, long, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    /// Local port and port of the pod, such as 9091:9090, or one port for both
    #[arg(long, value_name = "PORT:PORT")]
    port: String,
    /// Address of this host to listen on; 0.0.0.0 for all
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    bind: std::net::IpAddr,
}

#[derive(Args, Debug)]
pub struct ForwardsArgs {
    #[command(flatten)]
    place: TestbedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Args, Debug)]
pub struct UnexposeArgs {
    /// Name of the forward
    #[arg(value_name = "FORWARD")]
    forward: String,
    #[command(flatten)]
    place: TestbedArgs,
}

pub async fn expose(console: &Console, args: &ExposeArgs) -> anyhow::Result<()> {
    let place = args.place.place()?;
    let (listen, port) = ports(&args.port)?;
    let problems = object::names::dns1123_label(&args.forward);
    if !problems.is_empty() {
        bail!("{:?} is not a valid name for a forward: {}", args.forward, problems.join("; "));
    }
    let member = Spec::existing(&place)?.member(&args.cluster)?.name.clone();
    let supervisor = SupervisorClient::running(&place).await?;
    let kubeconfig = place.member_config(&member);
    let client = clusters::open(&kubeconfig)?;
    let pod = expose::pod::understand(&client, &args.namespace, &args.pod).await?;
    let exposure = Exposure {
        name: args.forward.clone(),
        cluster: member,
        kubeconfig,
        namespace: args.namespace.clone(),
        pod,
        listen,
        bind: args.bind,
        port,
    };
    supervisor.expose(exposure).await?;
    let reports = supervisor.exposures().await?;
    let report = reports.iter().find(|report| report.exposure.name == args.forward);
    let report = report.context("the forward was closed")?;
    console.line(format!("forwarding {} to {}", report.exposure.address(), destination(report)))?;
    Ok(())
}

pub async fn forwards(console: &Console, args: &ForwardsArgs) -> anyhow::Result<()> {
    let supervisor = SupervisorClient::running(&args.place.place()?).await?;
    let machines = supervisor.reports().await?;
    let exposures = supervisor.exposures().await?;
    if args.output == Format::Json {
        let clusters: Vec<_> = machines.iter().filter(|machine| !machine.forwards.is_empty()).collect();
        let all = serde_json::json!({"clusters": clusters, "pods": exposures});
        console.line(serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let mut rows = vec![["NAME", "CLUSTER", "LISTEN", "TARGET"].map(str::to_owned)];
    for machine in &machines {
        for led in &machine.forwards {
            let forward = &led.forward;
            let to = match led.wire {
                NetworkFault::Pass => forward.target.clone(),
                NetworkFault::Delay { millis } => format!("{} (delayed by {millis}ms)", forward.target),
                NetworkFault::Swallow => format!("{} (partitioned)", forward.target),
            };
            rows.push([forward.name.clone(), machine.name.clone(), forward.listen.to_string(), to]);
        }
    }
    for report in &exposures {
        let listen = report.exposure.address().to_string();
        rows.push([report.exposure.name.clone(), report.exposure.cluster.clone(), listen, destination(report)]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    for [name, cluster, listen, to] in &rows {
        let [first, second, third] = widths;
        console.line(format!("{name:first$}   {cluster:second$}   {listen:third$}   {to}"))?;
    }
    Ok(())
}

pub async fn unexpose(console: &Console, args: &UnexposeArgs) -> anyhow::Result<()> {
    SupervisorClient::running(&args.place.place()?).await?.unexpose(&args.forward).await?;
    console.line(format!("{} is closed", args.forward))?;
    Ok(())
}

fn destination(report: &ExposureReport) -> String {
    let wanted = match &report.exposure.pod {
        PodChoice::Selector(labels) => labels,
        PodChoice::Name(name) => name,
    };
    match (&report.leads_to, &report.problem) {
        (Some(to), _) => to.clone(),
        (None, Some(problem)) => format!("no target: {problem}"),
        (None, None) => format!("no target: {wanted}"),
    }
}

/// `9091:9090`, or one port for both.
fn ports(text: &str) -> anyhow::Result<(u16, u16)> {
    let (listen, port) = text.split_once(':').unwrap_or((text, text));
    let read = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    match (read(listen), read(port)) {
        (Some(listen), Some(port)) => Ok((listen, port)),
        _ => bail!("--port {text}: use LOCAL:POD, such as 9091:9090"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_two() {
        assert_eq!(ports("9091:9090").ok(), Some((9091, 9090)));
        assert_eq!(ports("80").ok(), Some((80, 80)));
        for text in ["", "0:80", "a:b", "80:", "1:2:3", "70000"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }
}
