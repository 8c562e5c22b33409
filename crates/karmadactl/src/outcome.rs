//! The results of commands that change objects: `--dry-run`, `-o`, and the line per object that kubectl prints.

use anyhow::bail;
use clap::{Args, ValueEnum};
use cluster_client::{ApiRequest, ClusterClient, Reply, ResourceRef, WriteOptions};
use object::{Object, Status};

use crate::console::Console;
use crate::output::{self, Format};
use crate::plane;

/// The point at which a change stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    #[default]
    #[value(alias = "false")]
    None,
    // The object is only printed.
    #[value(alias = "true")]
    Client,
    // The server handles the request, but stores nothing.
    Server,
}

/// Options of the result.
#[derive(Args, Clone, Debug, Default)]
pub struct OutcomeArgs {
    /// `client` prints what would be sent, `server` sends it without storing it
    #[arg(long, value_enum, default_value_t = DryRun::None, num_args = 0..=1, require_equals = true,
          default_missing_value = "client", value_name = "MODE")]
    pub dry_run: DryRun,
    /// Output format: json, yaml, name, jsonpath=TEMPLATE, go-template=TEMPLATE, …
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Template or template file of -o go-template and -o go-template-file
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<String>,
    /// Show managedFields in JSON and YAML
    #[arg(long)]
    pub show_managed_fields: bool,
}

impl DryRun {
    /// Returns the options of a write by this field manager.
    pub fn write_options(self, field_manager: &str) -> WriteOptions {
        WriteOptions { dry_run: self == Self::Server, ..WriteOptions::managed_by(field_manager) }
    }

    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// Prints objects with the operation that was done to them.
pub struct Printer<'a> {
    console: &'a Console,
    args: &'a OutcomeArgs,
    format: Option<Format>,
    printed: usize,
}

impl<'a> Printer<'a> {
    pub fn new(console: &'a Console, args: &'a OutcomeArgs) -> anyhow::Result<Self> {
        let format = Format::with_template(args.output.clone(), args.template.as_deref())?;
        if format == Some(Format::Wide) {
            bail!("unable to match a printer suitable for the output format \"wide\": this command prints no table");
        }
        Ok(Self { console, args, format, printed: 0 })
    }

    /// Returns true if whole objects are printed instead of a line for each.
    pub fn shows_objects(&self) -> bool {
        !matches!(self.format, None | Some(Format::Name))
    }

    pub fn print(&mut self, object: &Object, operation: &str) -> anyhow::Result<()> {
        let name = output::name_of(object.as_value());
        let text = match &self.format {
            None => format!("{name} {operation}{}\n", self.args.dry_run.suffix()),
            Some(Format::Name) => format!("{name}\n"),
            Some(format) => {
                let separator = if *format == Format::Yaml && self.printed > 0 { "---\n" } else { "" };
                format!("{separator}{}", format.print(self.shown(object).as_value())?)
            }
        };
        self.printed += 1;
        Ok(self.console.print(&text)?)
    }

    /// Prints several objects as one list.
    pub fn print_list(&mut self, objects: &[Object]) -> anyhow::Result<()> {
        let Some(format) = &self.format else { return Ok(()) };
        let shown = objects.iter().map(|object| self.shown(object).into_value()).collect();
        Ok(self.console.print(&format.print(&output::as_list(shown))?)?)
    }

    fn shown(&self, object: &Object) -> Object {
        match self.args.show_managed_fields {
            true => object.clone(),
            false => output::without_managed_fields(object.clone()),
        }
    }
}

/// Sends a request, and prints the warnings of the server.
pub async fn send(
    console: &Console,
    client: &ClusterClient,
    target: ResourceRef,
    request: ApiRequest,
) -> Result<Reply, Status> {
    let reply = client.call(target, request).await?;
    for warning in &reply.warnings {
        console.warn(warning);
    }
    Ok(reply)
}

/// Adds what was being done to the message of a server's error, as kubectl does.
pub fn when(error: Status, doing: &str, source: &str) -> Status {
    if error.reason == "Invalid" || source.is_empty() {
        return error;
    }
    Status { message: format!("error when {doing} {source:?}: {}", error.message), ..error }
}

/// Prints all errors; several objects of one command fail independently.
pub fn finish(console: &Console, errors: &[anyhow::Error]) -> anyhow::Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    for error in errors {
        console.note(plane::report(error));
    }
    Err(crate::Exit(1).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::console::testing;

    fn check(args: &OutcomeArgs, expected: &str) {
        let (console, out, _) = testing::console();
        let mut printer = Printer::new(&console, args).unwrap();
        let object = |name: &str| {
            let metadata = json!({"name": name, "managedFields": []});
            Object::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})).unwrap()
        };
        printer.print(&object("a"), "created").unwrap();
        printer.print(&object("b"), "created").unwrap();
        assert_eq!(out.text(), expected);
    }

    #[test]
    fn results_are_printed_as_by_kubectl() {
        let output = |format: &str| Some(format.parse::<Format>().unwrap());
        check(&OutcomeArgs::default(), "deployment.apps/a created\ndeployment.apps/b created\n");
        check(
            &OutcomeArgs { dry_run: DryRun::Server, ..OutcomeArgs::default() },
            "deployment.apps/a created (server dry run)\ndeployment.apps/b created (server dry run)\n",
        );
        check(
            &OutcomeArgs { output: output("name"), dry_run: DryRun::Client, ..OutcomeArgs::default() },
            "deployment.apps/a\ndeployment.apps/b\n",
        );
        let yaml = |name: &str| format!("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n");
        check(
            &OutcomeArgs { output: output("yaml"), ..OutcomeArgs::default() },
            &format!("{}---\n{}", yaml("a"), yaml("b")),
        );
    }

    #[test]
    fn errors_name_the_file_they_come_from() {
        let error = Status::new(403, "Forbidden", "no");
        assert_eq!(when(error.clone(), "creating", "a.yaml").message, "error when creating \"a.yaml\": no");
        assert_eq!(when(error, "creating", "").message, "no");
    }
}
