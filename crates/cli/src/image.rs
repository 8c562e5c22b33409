//! `flotilla image`: copies images to registries and to the image stores of members.

mod members;
mod progress;
mod stored;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::karmadactl::console::Console;
use ::oci_registry::build::BuildOptions;
use ::oci_registry::client::{Client, ClientOptions};
use ::oci_registry::copy::endpoints::{LayoutEndpoint, RegistryEndpoint};
use ::oci_registry::copy::{CopyOptions, Destination, Source, copy};
use ::oci_registry::distribute::{DistributionStep, ImportOutcome, import_all, prepare, push_all};
use ::oci_registry::image::archive::pack;
use ::oci_registry::image::layout::Layout;
use ::oci_registry::manifest::Platform;
use ::oci_registry::name::Reference;
use ::oci_registry::preload::{ImageSource, open, preload};
use ::oci_registry::scratch::Scratch;
use ::testbed::hint::Hint;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use self::members::MembersArgs;
use self::progress::Shown;
use crate::testbed::TestbedArgs;

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Pull images, push them to a registry under its name, and verify them.
    Preload(PreloadArgs),
    /// Build or load an image, push it to the registry, and import it into every member's image store.
    Distribute(DistributeArgs),
    /// Copy an image between registries, OCI layouts and archives.
    Copy(CopyArgs),
    /// Build an image and save it as an archive.
    Build(BuildArgs),
    /// List the images of a registry.
    List(stored::ListArgs),
    /// Remove images from a registry.
    Remove(stored::RemoveArgs),
}

#[derive(Args)]
struct ConnectionArgs {
    /// Additional registries to access over plain HTTP; those on this machine always are.
    #[arg(long, value_name = "HOST[:PORT]")]
    plain_http: Vec<String>,
    /// CA certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

#[derive(Args)]
struct PlatformArgs {
    /// Platform of multi-platform images [default: this machine's].
    #[arg(long, value_name = "OS/ARCH", value_parser = platform)]
    platform: Option<Platform>,
}

#[derive(Args)]
pub struct PreloadArgs {
    /// Images, archives (docker save, OCI) or OCI layouts.
    #[arg(value_name = "FILE|IMAGE")]
    sources: Vec<String>,
    /// Images, as a flag.
    #[arg(long, num_args = 1.., value_name = "FILE|IMAGE")]
    from: Vec<String>,
    /// Target registry [default: the testbed's, else 127.0.0.1:32000].
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<String>,
    #[command(flatten)]
    testbed: TestbedArgs,
    /// Name of an image whose archive has none.
    #[arg(long, short = 't', value_name = "NAME")]
    tag: Option<Reference>,
    /// Copy the images of all platforms.
    #[arg(long, conflicts_with = "platform")]
    all_platforms: bool,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Args)]
struct RecipeArgs {
    /// Name of the image [default: the directory's name, or the name in the archive].
    #[arg(long, short = 't', value_name = "NAME")]
    tag: Option<Reference>,
    /// Dockerfile [default: Dockerfile in the context].
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Value of an ARG (can be repeated).
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    build_arg: Vec<(String, String)>,
    /// Do not compress layers: faster, for images that stay on this machine.
    #[arg(long)]
    uncompressed: bool,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Args)]
pub struct DistributeArgs {
    /// An archive, an OCI layout, or a directory with a Dockerfile.
    #[arg(value_name = "FILE|DIR")]
    what: PathBuf,
    /// Target registry [default: the testbed's, else 127.0.0.1:32000].
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<String>,
    /// Do not push to a registry.
    #[arg(long, conflicts_with = "to")]
    no_push: bool,
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    members: MembersArgs,
}

#[derive(Args)]
pub struct CopyArgs {
    /// IMAGE, docker://IMAGE, oci:DIR[:NAME], or a FILE that is an archive.
    source: String,
    /// IMAGE, docker://IMAGE, oci:DIR[:NAME], or oci-archive:FILE[:NAME].
    destination: String,
    /// Copy the images of all platforms.
    #[arg(long, conflicts_with = "platform")]
    all_platforms: bool,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Args)]
pub struct BuildArgs {
    /// Directory with a Dockerfile.
    context: PathBuf,
    /// Archive to write.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    recipe: RecipeArgs,
}

pub async fn run(console: Arc<Console>, command: ImageCommand) -> anyhow::Result<()> {
    match command {
        ImageCommand::Preload(args) => run_preload(&console, args).await,
        ImageCommand::Distribute(args) => run_distribute(&console, args).await,
        ImageCommand::Copy(args) => run_copy(&console, args).await,
        ImageCommand::Build(args) => run_build(&console, args).await,
        ImageCommand::List(args) => stored::list(&console, &args).await,
        ImageCommand::Remove(args) => stored::remove(&console, &args).await,
    }
}

async fn run_preload(console: &Arc<Console>, args: PreloadArgs) -> anyhow::Result<()> {
    let sources: Vec<&String> = args.sources.iter().chain(&args.from).collect();
    if sources.is_empty() {
        bail!(
            "no images given; for example: `flotilla image preload nginx:1.27 registry.k8s.io/pause:3.10`, or archive files"
        );
    }
    let client = args.connection.client()?;
    let to = match args.to {
        Some(to) => to,
        None => members::registry_of(&args.testbed.place()?)?,
    };
    let options = CopyOptions { platform: args.platform.unless(args.all_platforms), ..CopyOptions::default() };
    let scratch = Scratch::new().context("cannot create a temporary directory")?;
    let shown = Shown::new(console);
    for text in sources {
        let from =
            ImageSource::find(text).with_context(|| format!("{text} is neither a file nor an image reference"))?;
        console.note(format_args!("{from} → {to}"));
        let tag = args.tag.as_ref();
        let loaded = preload(&client, &from, tag, &to, &options, scratch.path(), &shown).await;
        for image in loaded.with_context(|| format!("cannot preload {from}"))? {
            console.line(format_args!("{}@{}", image.name, image.digest))?;
        }
    }
    Ok(())
}

async fn run_distribute(console: &Arc<Console>, args: DistributeArgs) -> anyhow::Result<()> {
    let client = args.recipe.connection.client()?;
    // Checked first: a long build for members that do not exist is a waste of time.
    let (sinks, testbed_registry) = args.members.sinks().await?;
    let to = args.to.or(testbed_registry).unwrap_or_else(|| members::DEFAULT_REGISTRY.to_owned());
    let options = args.recipe.options(&args.what, (!args.no_push).then(|| to.clone()))?;
    let scratch = Scratch::new().context("cannot create a temporary directory")?;
    let shown = Shown::new(console);
    let is_context = args.what.is_dir() && !Layout::is_one(&args.what);
    console.note(format_args!("{} {}", if is_context { "building" } else { "reading" }, args.what.display()));
    let said = args.recipe.tag.as_ref();
    let prepared = prepare(&args.what, said, &options, &client, scratch.path(), &shown).await?;
    if !args.no_push {
        console.note(format_args!("pushing to {to}"));
        let pushed = push_all(&prepared, &client, &to, &shown).await;
        let up = args.members.place()?.hint(&Hint::Up);
        for image in
            pushed.with_context(|| format!("cannot push to the registry: `{up}` starts one, --no-push skips it"))?
        {
            console.line(format_args!("{}@{}", image.name, image.digest))?;
        }
    }
    let imports = import_all(&prepared, &sinks, &|step| console.note(describe(&step))).await;
    if !imports.failed.is_empty() {
        bail!("not imported into {}", imports.failed.join(", "));
    }
    if !imports.stored.is_empty() {
        for name in &prepared.names {
            console.line(format_args!("{name} is in the image store of {}", imports.stored.join(", ")))?;
        }
    }
    Ok(())
}

async fn run_copy(console: &Arc<Console>, args: CopyArgs) -> anyhow::Result<()> {
    let client = args.connection.client()?;
    let scratch = Scratch::new().context("cannot create a temporary directory")?;
    let options = CopyOptions { platform: args.platform.unless(args.all_platforms), ..CopyOptions::default() };
    let source = open_source(&client, &args.source, scratch.path()).await?;
    let shown = Shown::new(console);
    let split = |text: &str| match text.split_once(':') {
        Some((path, name)) => name.parse().map(|name| (PathBuf::from(path), Some(name))),
        None => Ok((PathBuf::from(text), None)),
    };
    let (destination, archive): (Box<dyn Destination>, _) = match args.destination.split_once(':') {
        Some(("oci", rest)) => {
            let (path, name) = split(rest)?;
            (Box::new(LayoutEndpoint::new(Layout::create(&path)?, name)), None)
        }
        Some(("oci-archive", rest)) => {
            let (path, name) = split(rest)?;
            let layout = Layout::create(&scratch.path().join("packed"))?;
            (Box::new(LayoutEndpoint::new(layout.clone(), name)), Some((layout, path)))
        }
        _ => {
            let name: Reference = image_name(&args.destination)?;
            (Box::new(RegistryEndpoint { remote: client.remote(&name).await?, selector: name.selector() }), None)
        }
    };
    let manifest = copy(source.as_ref(), destination.as_ref(), &options, &shown).await?;
    if let Some((layout, path)) = archive {
        pack(&layout, &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    console.line(&manifest.digest)?;
    Ok(())
}

async fn run_build(console: &Arc<Console>, args: BuildArgs) -> anyhow::Result<()> {
    let client = args.recipe.connection.client()?;
    let scratch = Scratch::new().context("cannot create a temporary directory")?;
    let options = args.recipe.options(&args.context, None)?;
    let layout = Layout::create(scratch.path()).context("cannot create an OCI layout")?;
    let image = ::oci_registry::build::build(&options, &client, &layout, &Shown::new(console)).await?;
    pack(&layout, &args.output).with_context(|| format!("cannot write {}", args.output.display()))?;
    console.line(format_args!("{}@{} in {}", options.name, image.digest, args.output.display()))?;
    Ok(())
}

/// Loads the single image of a source.
async fn open_source(client: &Arc<Client>, text: &str, scratch: &Path) -> anyhow::Result<Box<dyn Source>> {
    if let Some(rest) = text.strip_prefix("oci:") {
        let (path, name) = rest.split_once(':').map_or((rest, None), |(path, name)| (path, Some(name)));
        return Ok(Box::new(LayoutEndpoint::open(Layout::open(Path::new(path))?, name)?));
    }
    let file = ["oci-archive:", "docker-archive:"].iter().find_map(|prefix| text.strip_prefix(prefix));
    let from = match file {
        Some(file) => ImageSource::Archive(file.into()),
        None => ImageSource::find(text.strip_prefix("docker://").unwrap_or(text))?,
    };
    let mut images = open(client, &from, scratch).await?;
    match images.len() {
        1 => Ok(images.remove(0).0),
        n => bail!("{from} has {n} images; use `flotilla image preload` to copy all of them"),
    }
}

fn image_name(text: &str) -> anyhow::Result<Reference> {
    Ok(text.strip_prefix("docker://").unwrap_or(text).parse()?)
}

impl ConnectionArgs {
    fn client(&self) -> anyhow::Result<Arc<Client>> {
        Ok(Client::new(&ClientOptions {
            plain_http: self.plain_http.clone(),
            ca_file: self.ca_file.clone(),
            insecure: self.insecure_skip_tls_verify,
        })?)
    }
}

impl PlatformArgs {
    fn unless(&self, all: bool) -> Option<Platform> {
        if all { None } else { Some(self.wanted()) }
    }

    fn wanted(&self) -> Platform {
        self.platform.clone().unwrap_or_else(Platform::host)
    }
}

impl RecipeArgs {
    fn options(&self, context: &Path, mirror: Option<String>) -> anyhow::Result<BuildOptions> {
        if !context.exists() {
            bail!("{} does not exist", context.display());
        }
        let name = match &self.tag {
            Some(name) => name.clone(),
            None => name_after(context)?,
        };
        Ok(BuildOptions {
            context: context.to_owned(),
            dockerfile: self.file.clone(),
            name,
            arguments: self.build_arg.clone(),
            platform: self.platform.wanted(),
            mirror,
            compresses: !self.uncompressed,
        })
    }
}

/// Returns the default name of an image: the name of its build directory.
fn name_after(context: &Path) -> anyhow::Result<Reference> {
    let full = context.canonicalize().with_context(|| format!("cannot read {}", context.display()))?;
    let name = full.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    name.parse().with_context(|| format!("{} is not a valid image name: use --tag NAME", context.display()))
}

fn describe(step: &DistributionStep) -> String {
    match step {
        DistributionStep::Saved { archive, len } => format!("saved {} ({})", archive.display(), progress::size(*len)),
        DistributionStep::Importing { member } => format!("{member}: importing"),
        DistributionStep::Imported { member, outcome: ImportOutcome::Stored } => format!("{member}: imported"),
        DistributionStep::Imported { member, outcome: ImportOutcome::NotNeeded(why) } => format!("{member}: {why}"),
        DistributionStep::Failed { member, why } => format!("{member}: failed: {why}"),
    }
}

fn platform(text: &str) -> Result<Platform, String> {
    Platform::parse(text).ok_or_else(|| "expected OS/ARCH[/VARIANT], as in linux/arm64".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_after_their_directory() {
        let directory = std::env::temp_dir().join("Flotilla App_1.d");
        std::fs::create_dir_all(&directory).unwrap();
        let name = name_after(&directory).unwrap().to_string();
        std::fs::remove_dir(&directory).unwrap();
        assert_eq!(name, "docker.io/library/flotilla-app-1:latest");
    }
}
