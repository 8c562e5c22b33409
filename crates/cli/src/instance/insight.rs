//! `flotilla instance diagnose`, `components` and `metrics`: how an instance is doing.

use ::karmadactl::Exit;
use ::karmadactl::console::Console;
use clap::Args;
use cluster_client::{ClusterClient, escape};
use http::Method;
use object::Status;
use serde_json::Value;

use super::connection::send;
use super::{path_of, print_columns};

#[derive(Args)]
pub struct DiagnoseArgs {
    /// Name of the instance
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct MetricsArgs {
    /// Name of the instance
    name: String,
    /// Print the metrics of this cluster, with your own rights there.
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with = "query")]
    cluster: Option<String>,
    /// Send this PromQL query to the Prometheus of the instance (annotation flotilla.dev/prometheus-url).
    #[arg(long, value_name = "PROMQL")]
    query: Option<String>,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The exit code is 1 if there is an error.
pub async fn diagnose(console: &Console, client: &ClusterClient, args: DiagnoseArgs) -> anyhow::Result<()> {
    let diagnosis = send(client, Method::GET, &format!("{}/diagnosis", path_of(&args.name)), None).await?;
    if args.json {
        console.line(serde_json::to_string_pretty(&diagnosis)?)?;
    } else {
        print_diagnosis(console, &args.name, &diagnosis)?;
    }
    if diagnosis["healthy"].as_bool() == Some(true) { Ok(()) } else { Err(Exit(1).into()) }
}

fn print_diagnosis(console: &Console, name: &str, diagnosis: &Value) -> anyhow::Result<()> {
    let findings = diagnosis["findings"].as_array().cloned().unwrap_or_default();
    if findings.is_empty() {
        console.line(format_args!("no problem was found in instance {name}"))?;
    }
    for finding in &findings {
        let (severity, subject) = (text(finding, "severity"), text(finding, "subject"));
        console.line(format_args!("{severity}: {subject}: {}", text(finding, "problem")))?;
        console.line(format_args!("  {}", text(finding, "advice")))?;
    }
    for unknown in diagnosis["unknown"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        console.line(format_args!("not checked: {unknown}"))?;
    }
    Ok(())
}

pub async fn components(console: &Console, client: &ClusterClient, name: &str) -> anyhow::Result<()> {
    let found = send(client, Method::GET, &format!("{}/components", path_of(name)), None).await?;
    let mut rows = vec![["NAME", "TYPE", "READY", "QUEUE", "ACTIVE", "RETRIES"].map(str::to_owned)];
    for component in found["components"].as_array().into_iter().flatten() {
        let number = |field: &str| match text(component, "type") {
            "controller" => text(component, field).to_owned(),
            _ => String::new(),
        };
        let ready = component["ready"].as_bool() == Some(true);
        let (name, kind) = (text(component, "name").to_owned(), text(component, "type").to_owned());
        rows.push([name, kind, ready.to_string(), number("queueDepth"), number("active"), number("retries")]);
    }
    print_columns(console, &rows)
}

pub async fn metrics(console: &Console, client: &ClusterClient, args: MetricsArgs) -> anyhow::Result<()> {
    let instance = path_of(&args.name);
    if let Some(query) = &args.query {
        let answer = send(client, Method::GET, &format!("{instance}/prometheus?query={}", escape(query)), None).await?;
        return Ok(console.line(serde_json::to_string_pretty(&answer)?)?);
    }
    let cluster = args.cluster.map(|cluster| format!("?cluster={}", escape(&cluster))).unwrap_or_default();
    let request = http::Request::get(format!("{instance}/metrics:scrape{cluster}")).body(Default::default())?;
    let answer = client.raw(request).await?;
    match answer.status().as_u16() {
        code if code >= 400 => Err(Status::from_response(code, answer.body()).into()),
        _ => Ok(console.print(&String::from_utf8_lossy(answer.body()))?),
    }
}
