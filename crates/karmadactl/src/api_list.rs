//! `api-resources` and `api-versions`: what the control plane or a member serves.

use anyhow::{Context, bail};
use clap::Args;
use cluster_client::{ApiResource, ApiResources};
use serde_json::{Value, json};

use crate::console::Console;
use crate::member_target::MemberTargetArgs;
use crate::output::Format;
use crate::tabs;

/// Print the supported API resources on the control plane or a member.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The resources of the control plane, with their verbs
  flotilla api-resources -o wide

  # The resources of a member in one group
  flotilla api-resources -s members -C member1 --api-group=apps")]
pub struct ApiResourcesArgs {
    #[command(flatten)]
    target: MemberTargetArgs,
    /// Only this API group; empty for the core group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,
    /// Only namespaced, or only cluster-scoped resources
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    namespaced: Option<bool>,
    /// Only resources that support these verbs
    #[arg(long, value_delimiter = ',', value_name = "VERB")]
    verbs: Vec<String>,
    /// Only resources in these categories
    #[arg(long, value_delimiter = ',', value_name = "CATEGORY")]
    categories: Vec<String>,
    /// Sort by name or kind [default: by group]
    #[arg(long, value_name = "FIELD")]
    sort_by: Option<String>,
    /// Accepted for compatibility: nothing is cached
    #[arg(long, hide = true)]
    cached: bool,
    /// Print no header
    #[arg(long)]
    no_headers: bool,
    /// Output format: wide, name, json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Print the supported API versions on the control plane or a member, in the form "group/version".
#[derive(Args, Debug)]
pub struct ApiVersionsArgs {
    #[command(flatten)]
    target: MemberTargetArgs,
}

pub async fn resources(console: &Console, args: ApiResourcesArgs) -> anyhow::Result<()> {
    if let Some(field) = args.sort_by.as_deref().filter(|field| !["", "name", "kind"].contains(field)) {
        bail!("--sort-by accepts only name or kind, not {field:?}");
    }
    let target = args.target.open().await?;
    let known = ApiResources::discover(&target.client).await.map_err(|status| target.plane.explain(status.into()))?;
    for version in &known.incomplete {
        console.warn(format_args!("the resources of {version} are not available"));
    }
    console.print(&args.print(&args.pick(known.resources))?)?;
    Ok(())
}

pub async fn versions(console: &Console, args: ApiVersionsArgs) -> anyhow::Result<()> {
    let target = args.target.open().await?;
    let work = async {
        let core = target.client.get_json("/api").await?;
        let groups = target.client.get_json("/apis").await?;
        anyhow::Ok((core, groups))
    };
    let (core, groups) = work
        .await
        .context("couldn't get available api versions from server")
        .map_err(|error| target.plane.explain(error))?;
    for version in group_versions(&core, &groups) {
        console.line(version)?;
    }
    Ok(())
}

fn group_versions(core: &Value, groups: &Value) -> Vec<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let core = items(&core["versions"]).into_iter().filter_map(|version| version.as_str().map(str::to_owned));
    let of_groups = items(&groups["groups"]).into_iter().flat_map(|group| items(&group["versions"]));
    let of_groups = of_groups.filter_map(|version| version["groupVersion"].as_str().map(str::to_owned));
    let mut versions: Vec<String> = core.chain(of_groups).collect();
    versions.sort();
    versions
}

impl ApiResourcesArgs {
    /// Returns the resources that are asked for, each in its preferred version, in the order of printing.
    fn pick(&self, all: Vec<ApiResource>) -> Vec<ApiResource> {
        let mut picked: Vec<ApiResource> = Vec::new();
        for resource in all {
            let is_known = picked.iter().any(|other| other.gvr.group_resource() == resource.gvr.group_resource());
            if !is_known && !resource.verbs.is_empty() && self.is_wanted(&resource) {
                picked.push(resource);
            }
        }
        let key = |resource: &ApiResource| match self.sort_by.as_deref() {
            Some("name") => resource.gvr.resource.clone(),
            Some("kind") => resource.kind.clone(),
            _ => resource.gvr.group.clone(),
        };
        picked.sort_by(|a, b| (key(a), &a.gvr.resource).cmp(&(key(b), &b.gvr.resource)));
        picked
    }

    fn is_wanted(&self, resource: &ApiResource) -> bool {
        let has_all = |wanted: &[String], all: &[String]| wanted.iter().all(|one| all.contains(one));
        self.api_group.as_ref().is_none_or(|group| *group == resource.gvr.group)
            && self.namespaced.is_none_or(|namespaced| namespaced == resource.namespaced)
            && has_all(&self.verbs, &resource.verbs)
            && has_all(&self.categories, &resource.categories)
    }

    fn print(&self, resources: &[ApiResource]) -> anyhow::Result<String> {
        let is_wide = match &self.output {
            None => false,
            Some(Format::Wide) => true,
            Some(Format::Name) => {
                return Ok(resources.iter().map(|resource| format!("{}\n", resource.gvr.group_resource())).collect());
            }
            Some(format) => {
                let items: Vec<Value> = resources.iter().map(as_value).collect();
                return format.print(
                    &json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "", "resources": items}),
                );
            }
        };
        let mut text = String::new();
        if !self.no_headers {
            text.push_str("NAME\tSHORTNAMES\tAPIVERSION\tNAMESPACED\tKIND");
            text.push_str(if is_wide { "\tVERBS\tCATEGORIES\n" } else { "\n" });
        }
        for resource in resources {
            let (names, version) = (resource.short_names.join(","), resource.gvr.group_version());
            let name = &resource.gvr.resource;
            text += &format!("{name}\t{names}\t{version}\t{}\t{}", resource.namespaced, resource.kind);
            if is_wide {
                text += &format!("\t{}\t{}", resource.verbs.join(","), resource.categories.join(","));
            }
            text.push('\n');
        }
        Ok(tabs::align(&text, tabs::TABLE))
    }
}

fn as_value(resource: &ApiResource) -> Value {
    let mut value = json!({
        "name": resource.gvr.resource, "singularName": resource.singular, "namespaced": resource.namespaced,
        "version": resource.gvr.version, "kind": resource.kind, "verbs": resource.verbs,
    });
    let optional = [("shortNames", &resource.short_names), ("categories", &resource.categories)];
    for (field, values) in optional.into_iter().filter(|(_, values)| !values.is_empty()) {
        value[field] = json!(values);
    }
    if !resource.gvr.group.is_empty() {
        value["group"] = resource.gvr.group.as_str().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use object::GroupVersionResource;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ApiResourcesArgs,
    }

    fn check(line: &str, expected: &str) {
        let resource = |group: &str, version: &str, plural: &str, kind: &str, short: &[&str], namespaced| ApiResource {
            gvr: GroupVersionResource::new(group, version, plural),
            kind: kind.into(),
            namespaced,
            verbs: vec!["get".into(), "list".into()],
            short_names: short.iter().map(|name| (*name).to_owned()).collect(),
            ..ApiResource::default()
        };
        let all = vec![
            resource("", "v1", "pods", "Pod", &["po"], true),
            resource("", "v1", "namespaces", "Namespace", &["ns"], false),
            resource("apps", "v1", "deployments", "Deployment", &["deploy"], true),
            resource("apps", "v1beta1", "deployments", "Deployment", &["deploy"], true),
        ];
        let args = Line::parse_from(["x"].into_iter().chain(line.split_whitespace())).args;
        assert_eq!(args.print(&args.pick(all)).unwrap(), expected, "{line}");
    }

    #[test]
    fn resources_are_listed_once_in_their_preferred_version() {
        check("-o name", "namespaces\npods\ndeployments.apps\n");
        check("-o name --namespaced=true --sort-by name", "deployments.apps\npods\n");
        check("-o name --api-group=apps --verbs=list", "deployments.apps\n");
        check("-o name --verbs=watch", "");
        check(
            "--namespaced=false",
            "NAME         SHORTNAMES   APIVERSION   NAMESPACED   KIND\nnamespaces   ns           v1           false        Namespace\n",
        );
    }

    #[test]
    fn versions_are_sorted() {
        let groups = json!({"groups": [{"versions": [{"groupVersion": "b/v1"}, {"groupVersion": "a/v1"}]}]});
        assert_eq!(group_versions(&json!({"versions": ["v1"]}), &groups), ["a/v1", "b/v1", "v1"]);
    }
}
