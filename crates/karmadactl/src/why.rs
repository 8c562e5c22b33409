//! `why` and `plan`: explains the placement of an object, and previews the effect of manifests.

mod commands;
mod pods;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use cluster_client::{ApiResources, ClusterClient, ResourceRef, escape};
use http::{Request, header};
use object::{Object, Status};
use serde_json::Value;

use crate::console::Console;
use crate::get::ask;
use crate::output::Format;
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::{Exit, manifests, resources};

const WHY: &str = "/flotilla/v1alpha1/why";
const PLAN: &str = "/flotilla/v1alpha1/plan";

/// Exit code if the answer reports a problem that needs a change.
pub(crate) const EXIT_PROBLEM: u8 = 3;
/// Exit code if the object is not running yet, which may resolve by itself.
const EXIT_WAITING: u8 = 4;

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
  flotilla why deployment/nginx -o json

Exit codes: 0 it runs as it should; 1 the question could not be answered; 3 it is blocked until something is changed;
4 it is not running yet.")]
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
  kustomize build overlays/prod | flotilla plan -f -

Exit codes: 0 everything would be accepted and placed; 1 the plan could not be made; 3 a manifest would be rejected,
cannot be placed, or an override fails.")]
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
    let plane = PlaneClient::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let mut answer = ask_why(&plane, &args.resources, &namespace).await.map_err(|error| plane.explain(error))?;
    commands::complete(&mut answer, &console.program, &args.plane.flags());
    show(console, &answer, args.output.as_ref())?;
    match answer["state"].as_str() {
        Some("Failed") => Err(Exit(EXIT_PROBLEM).into()),
        Some("Waiting" | "Ahead") => Err(Exit(EXIT_WAITING).into()),
        _ => Ok(()),
    }
}

async fn ask_why(plane: &PlaneClient, typed: &[String], namespace: &str) -> anyhow::Result<Value> {
    let client = &plane.client;
    let known = ApiResources::discover(client).await?;
    let wanted = resources::resolve(&resources::parse(typed)?, &known)?;
    let (resource, name) = match &wanted[..] {
        [one] if one.names.len() == 1 => (&one.resource, &one.names[0]),
        _ => bail!("specify one object, as TYPE/NAME"),
    };
    let gvk = resource.gvk();
    let namespace = if resource.namespaced { namespace } else { "" };
    let target = match resource.namespaced {
        true => ResourceRef::namespaced(&resource.gvr, namespace, name),
        false => ResourceRef::cluster(&resource.gvr, name),
    };
    let parameters = [
        ("apiVersion", gvk.api_version()),
        ("kind", gvk.kind),
        ("namespace", namespace.to_owned()),
        ("name", name.clone()),
    ];
    let query: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
    let mut answer =
        ask(client, &format!("{WHY}?{}", query.join("&")), "application/json").await.map_err(unknown_path)?;
    pods::add(plane, target, &mut answer).await;
    Ok(answer)
}

pub async fn plan(console: &Console, args: PlanArgs) -> anyhow::Result<()> {
    if args.filename.is_empty() {
        bail!("must specify -f FILE: the manifests to plan");
    }
    let objects = manifests::read_objects(&args.filename, args.recursive).await?;
    if objects.is_empty() {
        bail!("no objects in {}", args.filename.join(", "));
    }
    let plane = PlaneClient::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let answer = ask_plan(&plane.client, objects, &namespace).await.map_err(|error| plane.explain(error))?;
    show(console, &answer, args.output.as_ref())?;
    check_ok(&answer)
}

/// Exits with an error code if the answer reports a problem.
pub(crate) fn check_ok(answer: &Value) -> anyhow::Result<()> {
    if answer["ok"] == false { Err(Exit(EXIT_PROBLEM).into()) } else { Ok(()) }
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
    fn results_are_printed_as_text_or_data() {
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

    #[test]
    fn a_plan_with_problems_has_its_own_exit_code() {
        for (answer, expected) in [(json!({"ok": true}), None), (json!({}), None), (json!({"ok": false}), Some(3))] {
            let code = check_ok(&answer).err().as_ref().and_then(crate::exit_code);
            assert_eq!(code, expected, "{answer}");
        }
    }
}
