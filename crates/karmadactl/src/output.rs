//! `-o`: output formats.

use std::str::FromStr;

use anyhow::{Context, bail};
use object::Object;
use object::jsonpath::{JsonPath, Template, text_of};
use serde_json::{Value, json};

use crate::go_template::GoTemplate;
use crate::{tabs, yaml};

/// An output format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    Wide,
    Name,
    Json,
    Yaml,
    JsonPath(String),
    JsonPathAsJson(String),
    JsonPathFile(std::path::PathBuf),
    /// The template; empty if it is given with `--template`.
    GoTemplate(String),
    GoTemplateFile(std::path::PathBuf),
    CustomColumns(String),
    CustomColumnsFile(std::path::PathBuf),
}

const KNOWN: &str = "json, yaml, name, wide, custom-columns=SPEC, custom-columns-file=FILE, jsonpath=TEMPLATE, \
                     jsonpath-as-json=TEMPLATE, jsonpath-file=FILE, go-template=TEMPLATE, go-template-file=FILE";

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, argument) = match text.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        let need = || {
            argument.filter(|a| !a.is_empty()).map(str::to_owned).ok_or(format!("{name} requires a value: {name}=…"))
        };
        match (name, argument) {
            ("wide", None) => Ok(Self::Wide),
            ("name", None) => Ok(Self::Name),
            ("json", None) => Ok(Self::Json),
            ("yaml", None) => Ok(Self::Yaml),
            ("jsonpath", _) => need().map(Self::JsonPath),
            ("jsonpath-as-json", _) => need().map(Self::JsonPathAsJson),
            ("jsonpath-file", _) => Ok(Self::JsonPathFile(need()?.into())),
            ("custom-columns", _) => need().map(Self::CustomColumns),
            ("custom-columns-file", _) => Ok(Self::CustomColumnsFile(need()?.into())),
            ("template" | "go-template", None) => Ok(Self::GoTemplate(String::new())),
            ("template" | "go-template", _) => need().map(Self::GoTemplate),
            ("templatefile" | "go-template-file", None) => Ok(Self::GoTemplateFile(std::path::PathBuf::new())),
            ("templatefile" | "go-template-file", _) => Ok(Self::GoTemplateFile(need()?.into())),
            _ => Err(format!(
                "unable to match a printer suitable for the output format {text:?}, allowed formats are: {KNOWN}"
            )),
        }
    }
}

impl Format {
    /// Adds the template or template file of `--template`.
    pub fn with_template(format: Option<Self>, template: Option<&str>) -> anyhow::Result<Option<Self>> {
        match (format, template) {
            (Some(Self::GoTemplate(own)), None) if own.is_empty() => {
                bail!("template format specified but no template given")
            }
            (Some(Self::GoTemplateFile(own)), None) if own.as_os_str().is_empty() => {
                bail!("template format specified but no template given")
            }
            (None, Some(template)) => Ok(Some(Self::GoTemplate(template.to_owned()))),
            (Some(Self::GoTemplate(own)), Some(template)) if own.is_empty() => {
                Ok(Some(Self::GoTemplate(template.to_owned())))
            }
            (Some(Self::GoTemplateFile(own)), Some(path)) if own.as_os_str().is_empty() => {
                Ok(Some(Self::GoTemplateFile(path.into())))
            }
            (format, _) => Ok(format),
        }
    }

    /// Returns true if the server is asked for a table.
    pub fn is_table(format: Option<&Self>) -> bool {
        matches!(format, None | Some(Self::Wide))
    }

    /// Prints an object or a `List` in this format.
    pub fn print(&self, value: &Value) -> anyhow::Result<String> {
        match self {
            Self::Json => Ok(pretty_json(value)),
            Self::Yaml => Ok(yaml::to_string(value)),
            Self::Name => Ok(objects_of(value).map(|object| name_of(object) + "\n").collect()),
            Self::JsonPath(template) => render(template, value),
            Self::JsonPathAsJson(template) => {
                let found: Vec<Value> = JsonPath::parse_relaxed(template)?.find(value)?.into_iter().cloned().collect();
                Ok(pretty_json(&found.into()))
            }
            Self::JsonPathFile(path) => render(&read(path)?, value),
            Self::GoTemplate(template) => GoTemplate::parse(template)?.render(value),
            Self::GoTemplateFile(path) => GoTemplate::parse(&read(path)?)?.render(value),
            Self::CustomColumns(spec) => custom_columns(&Columns::parse(spec)?, value),
            Self::CustomColumnsFile(path) => custom_columns(&Columns::parse_file(&read(path)?)?, value),
            Self::Wide => bail!("tables are printed by the caller"),
        }
    }
}

fn read(path: &std::path::Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn render(template: &str, value: &Value) -> anyhow::Result<String> {
    let template = Template::parse(template)?;
    template.render(value).context("error executing jsonpath")
}

/// Prints JSON as kubectl: indented by four, with sorted keys.
pub fn pretty_json(value: &Value) -> String {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    let sorted = sort_keys(value);
    match serde::Serialize::serialize(&sorted, &mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned() + "\n",
        Err(_) => format!("{value}\n"),
    }
}

/// Sorts the keys of all maps.
pub fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect())
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        other => other.clone(),
    }
}

/// `deployment.apps/nginx`.
pub fn name_of(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map(|(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match group {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn objects_of(value: &Value) -> impl Iterator<Item = &Value> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && value["items"].is_array();
    let items = if is_list { value["items"].as_array() } else { None };
    let single = if is_list { None } else { Some(value) };
    items.into_iter().flatten().chain(single)
}

/// Returns one object unchanged, several as a `List`.
pub fn as_list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "", "selfLink": ""}, "items": items})
}

/// Removes managed fields.
pub fn without_managed_fields(mut object: Object) -> Object {
    object.remove(&["metadata", "managedFields"]);
    object
}

struct Columns(Vec<(String, JsonPath)>);

impl Columns {
    /// `NAME:.metadata.name,RSRC:.metadata.resourceVersion`
    fn parse(spec: &str) -> anyhow::Result<Self> {
        let columns = spec.split(',').map(|column| match column.split_once(':') {
            Some((header, path)) => Ok((header.to_owned(), JsonPath::parse_relaxed(path)?)),
            None => bail!("unexpected custom-columns spec: {column}, expected <header>:<json-path-expr>"),
        });
        Ok(Self(columns.collect::<anyhow::Result<_>>()?))
    }

    /// Reads headers from the first line and paths from the second.
    fn parse_file(text: &str) -> anyhow::Result<Self> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let (Some(headers), Some(paths)) = (lines.next(), lines.next()) else {
            bail!("the file of custom columns must have two lines: headers and paths");
        };
        let (headers, paths): (Vec<&str>, Vec<&str>) =
            (headers.split_whitespace().collect(), paths.split_whitespace().collect());
        if headers.len() != paths.len() {
            bail!("number of headers ({}) and field specifications ({}) don't match", headers.len(), paths.len());
        }
        let columns = headers
            .into_iter()
            .zip(paths)
            .map(|(header, path)| Ok((header.to_owned(), JsonPath::parse_relaxed(path)?)));
        Ok(Self(columns.collect::<anyhow::Result<_>>()?))
    }
}

fn custom_columns(columns: &Columns, value: &Value) -> anyhow::Result<String> {
    let headers: Vec<&str> = columns.0.iter().map(|(header, _)| header.as_str()).collect();
    let mut text = headers.join("\t") + "\n";
    for object in objects_of(value) {
        let cells = columns.0.iter().map(|(_, path)| Ok(cell(&path.find(object)?)));
        let cells: Vec<String> = cells.collect::<anyhow::Result<_>>()?;
        text += &(cells.join("\t") + "\n");
    }
    Ok(tabs::align(&text, tabs::TABLE))
}

fn cell(found: &[&Value]) -> String {
    let texts: Vec<String> = found.iter().filter(|value| !value.is_null()).map(|value| text_of(value)).collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_format_prints_the_same_objects() {
        let object = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 2}});
        let list = as_list(vec![object("a"), object("b")]);
        let cases = [
            ("name", "deployment.apps/a\ndeployment.apps/b\n"),
            ("jsonpath={.items[*].metadata.name}", "a b"),
            ("go-template={{range .items}}{{.metadata.name}}={{.spec.replicas}},{{end}}", "a=2,b=2,"),
            (
                "custom-columns=NAME:.metadata.name,R:.spec.replicas,X:.spec.x",
                "NAME   R     X\na      2     <none>\nb      2     <none>\n",
            ),
            ("jsonpath-as-json={.items[*].spec.replicas}", "[\n    2,\n    2\n]\n"),
        ];
        for (format, expected) in cases {
            assert_eq!(format.parse::<Format>().unwrap().print(&list).unwrap(), expected, "{format}");
        }
        let yaml = "yaml".parse::<Format>().unwrap().print(&object("a")).unwrap();
        assert_eq!(yaml, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  replicas: 2\n");
        assert_eq!("name".parse::<Format>().unwrap().print(&object("a")).unwrap(), "deployment.apps/a\n");
    }

    #[test]
    fn unknown_output_formats_are_refused_with_the_known_ones() {
        assert!("xml".parse::<Format>().unwrap_err().contains("allowed formats are: json, yaml"));
        let template = |format: &str, template| Format::with_template(format.parse().ok(), template);
        assert!(template("go-template", None).is_err());
        assert_eq!(template("go-template", Some("{{.a}}")).unwrap(), Some(Format::GoTemplate("{{.a}}".into())));
        assert_eq!(template("", Some("{{.a}}")).unwrap(), Some(Format::GoTemplate("{{.a}}".into())));
        assert!("jsonpath".parse::<Format>().is_err());
    }
}
