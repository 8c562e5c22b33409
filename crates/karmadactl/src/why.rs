//! `why` and `plan`: explains the placement of an object, and previews the effect of manifests.

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use cluster_client::{ApiResources, ClusterClient, escape};
use http::{Request, header};
use object::{Object, Status};
use serde_json::Value;

use crate::console::Console;
use crate::get::ask;
use crate::manifests;
use crate::output::Format;
use crate::plane::{NamespaceArgs, Plane, PlaneArgs};
use crate::resources;

const WHY: &str = "/flotilla/v1alpha1/why";
const PLAN: &str = "/flotilla/v1alpha1/plan";

/// Explain where an object is placed and why: policy, scheduling, overrides, and its status in every member.
///
/// For an object that is not placed, the stage that stops it is shown; if no policy selects it, the closest policies.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Why is this deployment where it is, or not where it should be?
  flotilla why deployment/nginx
  flotilla why deployment nginx -n default

  # The reasons as data
  flotilla why deployment/nginx -o json")]
pub struct WhyArgs {
    /// TYPE/NAME, or TYPE NAME
    #[arg(value_name = "TYPE/NAME")]
    resources: Vec<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Output format: json or yaml [default: text]
    #[arg(short, long, value_parser = document_format, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Preview what applying manifests would place, move, change or remove.
///
/// Manifests can be templates and policies together.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # What would this change do?
  flotilla plan -f deployment.yaml -f policy.yaml

  # A whole directory, as data
  flotilla plan -f manifests/ -R -o json

  # From another program
  kustomize build overlays/prod | flotilla plan -f -")]
pub struct PlanArgs {
    /// File, directory, or - for standard input (can be repeated)
    #[arg(short = 'f', long, value_name = "FILE")]
    filename: Vec<String>,
    /// Read directories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Output format: json or yaml [default: text]
    #[arg(short, long, value_parser = document_format, value_name = "FORMAT")]
    output: Option<Format>,
}

pub(crate) fn document_format(text: &str) -> Result<Format, String> {
    match text.parse()? {
        format @ (Format::Json | Format::Yaml | Format::JsonPath(_)) => Ok(format),
        _ => Err(format!("{text:?} is not a valid output format; use json, yaml or jsonpath=…")),
    }
}

pub async fn why(console: &Console, args: WhyArgs) -> anyhow::Result<()> {
    let plane = Plane::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let answer = ask_why(&plane.client, &args.resources, &namespace).await.map_err(|error| plane.explain(error))?;
    show(console, &answer, args.output.as_ref())
}

async fn ask_why(client: &ClusterClient, typed: &[String], namespace: &str) -> anyhow::Result<Value> {
    let known = ApiResources::discover(client).await?;
    let wanted = resources::resolve(&resources::parse(typed)?, &known)?;
    let (resource, name) = match &wanted[..] {
        [one] if one.names.len() == 1 => (&one.resource, &one.names[0]),
        _ => bail!("specify one object, as TYPE/NAME"),
    };
    let gvk = resource.gvk();
    let namespace = if resource.namespaced { namespace } else { "" };
    let parameters = [
        ("apiVersion", gvk.api_version()),
        ("kind", gvk.kind),
        ("namespace", namespace.to_owned()),
        ("name", name.clone()),
    ];
    let query: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
    Ok(ask(client, &format!("{WHY}?{}", query.join("&")), "application/json").await.map_err(unknown_path)?)
}

pub async fn plan(console: &Console, args: PlanArgs) -> anyhow::Result<()> {
    if args.filename.is_empty() {
        bail!("must specify -f FILE: the manifests to plan");
    }
    let objects = manifests::read_objects(&args.filename, args.recursive)?;
    if objects.is_empty() {
        bail!("no objects in {}", args.filename.join(", "));
    }
    let plane = Plane::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let answer = ask_plan(&plane.client, objects, &namespace).await.map_err(|error| plane.explain(error))?;
    show(console, &answer, args.output.as_ref())
}

async fn ask_plan(client: &ClusterClient, objects: Vec<Object>, namespace: &str) -> anyhow::Result<Value> {
    let known = ApiResources::discover(client).await?;
    let mut manifests: Vec<Value> = Vec::new();
    for mut object in objects {
        let gvk = object.gvk();
        let resource = known.resources.iter().find(|resource| resource.gvk() == gvk);
        let resource = resource.with_context(|| {
            format!(
                "no matches for kind {:?} in version {:?}; ensure CRDs are installed first",
                gvk.kind,
                gvk.api_version()
            )
        })?;
        if resource.namespaced && object.namespace().is_empty() {
            object.set_namespace(namespace);
        }
        manifests.push(object.into_value());
    }
    let body = Bytes::from(Value::Array(manifests).to_string());
    let request = Request::post(PLAN)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .context("cannot build the request")?;
    let response = client.raw(request).await?;
    if response.status().as_u16() >= 400 {
        let status = Status::from_response(response.status().as_u16(), response.body());
        return Err(unknown_path(status).into());
    }
    serde_json::from_slice(response.body()).context("the response is not JSON")
}

/// Explains a missing path: only Flotilla serves it.
pub(crate) fn unknown_path(status: Status) -> Status {
    if status.code == 404 && status.details.is_none() {
        let text = "the control plane does not serve /flotilla/v1alpha1: this command needs a Flotilla control plane";
        return Status::new(404, "NotFound", text);
    }
    status
}

/// Returns the text of the response, or the whole response in an output format.
pub(crate) fn show(console: &Console, answer: &Value, format: Option<&Format>) -> anyhow::Result<()> {
    let text = match (format, answer["text"].as_str()) {
        (Some(format), _) => format.print(answer)?,
        (None, Some(text)) => text.trim_end().to_owned() + "\n",
        (None, None) => Format::Yaml.print(answer)?,
    };
    console.print(&text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::testing;
    use serde_json::json;

    #[test]
    fn people_read_text_and_programs_data() {
        let answer = json!({"state": "Done", "text": "all is well\n\n"});
        let check = |format: Option<&str>, expected: &str| {
            let (console, out, _) = testing::console();
            let format = format.map(|text| document_format(text).unwrap());
            show(&console, &answer, format.as_ref()).unwrap();
            assert_eq!(out.text(), expected);
        };
        check(None, "all is well\n");
        check(Some("yaml"), "state: Done\ntext: |+\n  all is well\n\n");
        check(Some("jsonpath={.state}"), "Done");
        assert!(document_format("wide").is_err());
    }
}
