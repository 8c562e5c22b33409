//! The objects a command works on: `TYPE NAME…`, `TYPE/NAME…`, `TYPE -l SELECTOR`, or those in files.

use anyhow::{anyhow, bail};
use clap::Args;
use cluster_client::{ApiResource, ApiResources, ClusterClient, ListOptions, ResourceRef};
use object::Object;

use crate::console::Console;
use crate::files::{FileArgs, FileObject};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::resources::{self, RequestedObjects};

/// Selects objects by files or by type.
#[derive(Args, Clone, Debug, Default)]
pub struct SelectionArgs {
    #[command(flatten)]
    pub files: FileArgs,
    /// Selector (label query) to filter on, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Selector (field query) to filter on, such as metadata.name=web
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// All objects of the type in the namespace
    #[arg(long)]
    pub all: bool,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

/// Selects objects of the control plane that a command changes.
#[derive(Args, Clone, Debug)]
pub struct ObjectArgs {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE")]
    pub resources: Vec<String>,
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

/// An object to work on.
#[derive(Clone, Debug)]
pub struct Selected {
    pub resource: ApiResource,
    pub namespace: Option<String>,
    pub name: String,
    /// The file it comes from; empty for arguments.
    pub source: String,
    /// The object in the file or on the server; only its name where it was not read.
    pub object: Object,
}

/// The source of selected objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Objects on the server.
    Live,
    /// Objects as they are named, without asking for each.
    Named,
}

/// The namespace of a command, and whether it was given on the command line.
#[derive(Clone, Copy)]
pub struct Namespace<'a> {
    pub name: &'a str,
    pub is_given: bool,
}

impl Selected {
    pub fn target(&self) -> ResourceRef {
        match &self.namespace {
            Some(namespace) => ResourceRef::namespaced(&self.resource.gvr, namespace, &self.name),
            None => ResourceRef::cluster(&self.resource.gvr, &self.name),
        }
    }

    pub fn collection(&self) -> ResourceRef {
        ResourceRef { name: None, ..self.target() }
    }
}

impl ObjectArgs {
    /// Reads the objects from the control plane.
    pub async fn open(&self, console: &Console, command: &str) -> anyhow::Result<(PlaneClient, Vec<Selected>)> {
        let files = self.files.read(&console.program, command).await?;
        let plane = PlaneClient::open(&self.plane)?;
        let namespace = plane.namespace(&self.namespace);
        let namespace = Namespace { name: &namespace, is_given: self.namespace.namespace.is_some() };
        let selection = SelectionArgs { files: self.files.clone(), ..SelectionArgs::default() };
        let chosen = selection.select(&plane.client, &self.resources, files, namespace, Read::Live).await;
        let chosen = chosen.map_err(|error| plane.explain(error))?;
        Ok((plane, chosen))
    }
}

impl SelectionArgs {
    /// Returns the objects of the arguments or files, in their order.
    pub async fn select(
        &self,
        client: &ClusterClient,
        arguments: &[String],
        files: Vec<FileObject>,
        namespace: Namespace<'_>,
        read: Read,
    ) -> anyhow::Result<Vec<Selected>> {
        self.check(arguments)?;
        let known = ApiResources::discover(client).await?;
        let mut selected = from_files(files, &known, namespace)?;
        if arguments.is_empty() {
            if read == Read::Live {
                for one in &mut selected {
                    one.object = Object::clone(&*client.get(one.target()).await?);
                }
            }
            return Ok(selected);
        }
        for requested in resources::resolve(&resources::parse(arguments)?, &known)? {
            selected.extend(self.of_type(client, requested, namespace, read).await?);
        }
        Ok(selected)
    }

    fn check(&self, arguments: &[String]) -> anyhow::Result<()> {
        let has_filter = self.selector.is_some() || self.field_selector.is_some();
        if self.all && has_filter {
            let which = if self.selector.is_some() { "selector" } else { "field-selector" };
            bail!("cannot set --all and --{which} at the same time");
        }
        if !self.files.is_empty() && !arguments.is_empty() {
            bail!("when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well");
        }
        Ok(())
    }

    async fn of_type(
        &self,
        client: &ClusterClient,
        requested: RequestedObjects,
        namespace: Namespace<'_>,
        read: Read,
    ) -> anyhow::Result<Vec<Selected>> {
        let RequestedObjects { resource, names } = requested;
        let lists = self.all || self.selector.is_some() || self.field_selector.is_some();
        if lists && !names.is_empty() {
            bail!("name cannot be provided when a selector or --all is specified");
        }
        let of_namespace = resource.namespaced.then(|| namespace.name.to_owned());
        if lists {
            let place = match of_namespace.filter(|_| !self.all_namespaces) {
                Some(namespace) => ResourceRef::within(&resource.gvr, &namespace),
                None => ResourceRef::all(&resource.gvr),
            };
            let options = ListOptions {
                label_selector: self.selector.clone(),
                field_selector: self.field_selector.clone(),
                ..ListOptions::default()
            };
            let list = client.list_all(place, options).await?;
            let found = list.items.iter().map(|object| selected(&resource, Object::clone(object), ""));
            return Ok(found.collect());
        }
        if names.is_empty() {
            bail!("resource(s) were provided, but no name was specified");
        }
        if self.all_namespaces && resource.namespaced {
            bail!("a resource cannot be retrieved by name across all namespaces");
        }
        let mut found: Vec<Selected> = Vec::new();
        for name in names {
            let object = Object::new(&resource.gvk(), of_namespace.as_deref(), &name);
            let mut one = selected(&resource, object, "");
            if read == Read::Live {
                one.object = Object::clone(&*client.get(one.target()).await?);
            }
            found.push(one);
        }
        Ok(found)
    }
}

/// Resolves the objects of files; those without a namespace get that of the command.
pub fn from_files(
    files: Vec<FileObject>,
    known: &ApiResources,
    namespace: Namespace<'_>,
) -> anyhow::Result<Vec<Selected>> {
    files.into_iter().map(|file| from_file(file, known, namespace)).collect()
}

fn from_file(file: FileObject, known: &ApiResources, namespace: Namespace<'_>) -> anyhow::Result<Selected> {
    let FileObject { source, mut object } = file;
    let gvk = object.gvk();
    let Some(resource) = known.resources.iter().find(|resource| resource.gvk() == gvk) else {
        return Err(anyhow!(
            "resource mapping not found for name: {:?} namespace: {:?} from {source:?}: no matches for kind {:?} in \
             version {:?}\nensure CRDs are installed first",
            object.name(),
            object.namespace(),
            gvk.kind,
            gvk.api_version()
        ));
    };
    if !resource.namespaced {
        object.remove(&["metadata", "namespace"]);
    } else if object.namespace().is_empty() {
        object.set_namespace(namespace.name);
    } else if namespace.is_given && object.namespace() != namespace.name {
        bail!(
            "the namespace from the provided object {:?} does not match the namespace {:?}. You must pass \
             '--namespace={}' to perform this operation.",
            object.namespace(),
            namespace.name,
            object.namespace()
        );
    }
    Ok(selected(resource, object, &source))
}

fn selected(resource: &ApiResource, mut object: Object, source: &str) -> Selected {
    object.set_gvk(&resource.gvk());
    let namespace = (resource.namespaced && !object.namespace().is_empty()).then(|| object.namespace().to_owned());
    Selected {
        resource: resource.clone(),
        namespace,
        name: object.name().to_owned(),
        source: source.to_owned(),
        object,
    }
}

#[cfg(test)]
mod tests {
    use object::GroupVersionResource;
    use serde_json::json;

    use super::*;

    fn known() -> ApiResources {
        let resource = |group: &str, plural: &str, kind: &str, namespaced| ApiResource {
            gvr: GroupVersionResource::new(group, "v1", plural),
            kind: kind.into(),
            namespaced,
            ..ApiResource::default()
        };
        ApiResources {
            resources: vec![
                resource("", "configmaps", "ConfigMap", true),
                resource("", "namespaces", "Namespace", false),
            ],
            incomplete: Vec::new(),
        }
    }

    fn of_file(kind: &str, own: &str, given: Option<&str>) -> Result<Option<String>, String> {
        let value = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": own}});
        let file = FileObject { source: "f".into(), object: Object::from_value(value).unwrap() };
        let namespace = Namespace { name: given.unwrap_or("default"), is_given: given.is_some() };
        from_file(file, &known(), namespace).map(|found| found.namespace).map_err(|error| error.to_string())
    }

    #[test]
    fn objects_of_files_get_the_namespace_of_the_command() {
        assert_eq!(of_file("ConfigMap", "", None), Ok(Some("default".into())));
        assert_eq!(of_file("ConfigMap", "x", None), Ok(Some("x".into())));
        assert_eq!(of_file("ConfigMap", "", Some("y")), Ok(Some("y".into())));
        assert_eq!(of_file("Namespace", "", Some("y")), Ok(None));
        let error = of_file("ConfigMap", "x", Some("y")).unwrap_err();
        assert!(error.contains("You must pass '--namespace=x'"), "{error}");
        let error = of_file("Gizmo", "", None).unwrap_err();
        assert!(error.contains("no matches for kind \"Gizmo\" in version \"v1\""), "{error}");
    }
}
