//! `explain`: documentation of resources and their fields, from the OpenAPI document of the server.

mod print;

use anyhow::{anyhow, bail};
use clap::Args;
use cluster_client::{ApiResource, ApiResources};
use object::GroupVersion;

use crate::console::Console;
use crate::member_target::MemberTargetArgs;
use crate::openapi::Document;
use crate::resources;

/// Get documentation for a resource of the control plane or a member.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The fields of a resource
  flotilla explain propagationpolicies

  # One field, with everything below it
  flotilla explain propagationpolicies.spec.placement --recursive

  # A resource of a member
  flotilla explain pods -s members -C member1")]
pub struct ExplainArgs {
    /// TYPE[.FIELD...]
    #[arg(value_name = "TYPE")]
    resources: Vec<String>,
    #[command(flatten)]
    target: MemberTargetArgs,
    /// Print the names of all fields below at once, without descriptions
    #[arg(long)]
    recursive: bool,
    /// Use this API version of the resource (GROUP/VERSION)
    #[arg(long, value_name = "VERSION")]
    api_version: Option<String>,
    /// Output format; only plaintext
    #[arg(short, long, default_value = "plaintext", value_name = "FORMAT")]
    output: String,
}

pub async fn run(console: &Console, args: ExplainArgs) -> anyhow::Result<()> {
    let [text] = &args.resources[..] else {
        let all = format!("Use \"{} api-resources\" for a complete list of supported resources.", console.program);
        match args.resources.len() {
            0 => bail!("You must specify the type of resource to explain. {all}"),
            _ => bail!("We accept only this format: explain RESOURCE"),
        }
    };
    if args.output != "plaintext" {
        bail!("-o {} is not supported; use plaintext, or `kubectl explain -o {}`", args.output, args.output);
    }
    let target = args.target.open().await?;
    let work = async {
        let known = ApiResources::discover(&target.client).await?;
        let (resource, path) = split(text, &known)?;
        let resource = in_version(resource, args.api_version.as_deref(), &known)?;
        let gvk = resource.gvk();
        let document = Document::read(&target.client, &gvk.group_version()).await?;
        let schema = document.schema(&gvk).ok_or_else(|| anyhow!("GVK {gvk} not found in OpenAPI schema"))?;
        print::explain(&gvk, schema, &path, args.recursive)
    };
    let text = work.await.map_err(|error| target.plane.explain(error))?;
    console.print(&text)?;
    Ok(())
}

/// Splits `TYPE[.VERSION][.GROUP][.FIELD…]`: the longest beginning that names a resource is the type.
fn split<'a>(text: &str, known: &'a ApiResources) -> anyhow::Result<(&'a ApiResource, Vec<String>)> {
    let words: Vec<&str> = text.split('.').filter(|word| !word.is_empty()).collect();
    for count in (2..=words.len()).rev() {
        // Only whole groups: `pods.spec` must not match a group that starts with "spec".
        let found = resources::find(&words[..count].join("."), known);
        let rest = words[1..count].join(".");
        let is_whole = |resource: &&ApiResource| {
            let (group, version) = (&resource.gvr.group, &resource.gvr.version);
            rest == *group || rest == format!("{version}.{group}")
        };
        if let Some(resource) = found.filter(is_whole) {
            return Ok((resource, words[count..].iter().map(|word| (*word).to_owned()).collect()));
        }
    }
    let first = words.first().copied().unwrap_or_default();
    match resources::find(first, known) {
        Some(resource) => Ok((resource, words[1..].iter().map(|word| (*word).to_owned()).collect())),
        None => bail!("the server doesn't have a resource type {first:?}"),
    }
}

fn in_version<'a>(
    resource: &'a ApiResource,
    version: Option<&str>,
    known: &'a ApiResources,
) -> anyhow::Result<&'a ApiResource> {
    let Some(text) = version.filter(|version| !version.is_empty()) else { return Ok(resource) };
    let version = GroupVersion::parse(text).ok_or_else(|| anyhow!("--api-version {text:?} is not GROUP/VERSION"))?;
    let is_it = |other: &&ApiResource| other.gvr.group_version() == version && other.kind == resource.kind;
    known
        .resources
        .iter()
        .find(is_it)
        .ok_or_else(|| anyhow!("couldn't find resource for \"{text}, Kind={}\"", resource.kind))
}

#[cfg(test)]
mod tests {
    use object::GroupVersionResource;

    use super::*;

    #[test]
    fn the_type_is_followed_by_fields() {
        let resource = |group: &str, plural: &str, kind: &str| ApiResource {
            gvr: GroupVersionResource::new(group, "v1", plural),
            kind: kind.into(),
            singular: kind.to_lowercase(),
            ..ApiResource::default()
        };
        let known = ApiResources {
            resources: vec![
                resource("", "pods", "Pod"),
                resource("spec.io", "pods", "Pod"),
                resource("a.io", "bs", "B"),
            ],
            incomplete: Vec::new(),
        };
        for (text, group, path) in [
            ("pods", "", ""),
            ("pod.spec.nodeName", "", "spec.nodeName"),
            ("pods.spec.io", "spec.io", ""),
            ("bs.a.io.spec", "a.io", "spec"),
            ("bs.v1.a.io.spec", "a.io", "spec"),
        ] {
            let (found, rest) = split(text, &known).unwrap();
            assert_eq!((found.gvr.group.as_str(), rest.join(".").as_str()), (group, path), "{text}");
        }
        assert!(split("gizmos.spec", &known).unwrap_err().to_string().contains("\"gizmos\""));
    }
}
