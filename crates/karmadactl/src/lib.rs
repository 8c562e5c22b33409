//! The client commands of a control plane, compatible with karmadactl.

pub mod absent;
pub mod cluster_location;
mod cluster_taints;
pub mod console;
pub mod cordon;
pub mod describe;
pub mod durations;
pub mod failover;
pub mod get;
mod go_template;
pub mod interpret;
pub mod join;
pub mod kubectl;
mod manifests;
mod membership_progress;
mod output;
pub mod plane;
pub mod pod_problem;
pub mod program;
pub mod promote;
pub mod register;
mod resources;
pub mod restored;
mod scope;
mod table;
mod tabs;
pub mod taint;
pub mod token;
pub mod top;
pub mod unjoin;
pub mod unregister;
pub mod version;
pub mod web_console;
pub mod why;

use clap::Subcommand;
use object::yaml;

use crate::console::Console;
use crate::kubectl::{KubectlArgs, Targets};

/// The client commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    Get(Box<get::GetArgs>),
    Describe(Box<describe::DescribeArgs>),
    Why(Box<why::WhyArgs>),
    Plan(Box<why::PlanArgs>),
    Failover(Box<failover::FailoverArgs>),
    Console(web_console::ConsoleArgs),
    Join(Box<join::JoinArgs>),
    Unjoin(Box<unjoin::UnjoinArgs>),
    Token(Box<token::TokenArgs>),
    Register(Box<register::RegisterArgs>),
    Unregister(Box<unregister::UnregisterArgs>),
    Cordon(cordon::CordonArgs),
    Uncordon(cordon::UncordonArgs),
    Taint(taint::TaintArgs),
    Promote(Box<promote::PromoteArgs>),
    Interpret(Box<interpret::InterpretArgs>),
    /// Apply manifests to the control plane, and propagate them with -C or --all-clusters (kubectl).
    Apply(KubectlArgs),
    /// Create objects in the control plane (kubectl).
    Create(KubectlArgs),
    /// Delete objects of the control plane (kubectl).
    Delete(KubectlArgs),
    /// Edit an object of the control plane (kubectl).
    Edit(KubectlArgs),
    /// Change fields of an object of the control plane (kubectl).
    Patch(KubectlArgs),
    /// Change the labels of an object of the control plane (kubectl).
    Label(KubectlArgs),
    /// Change the annotations of an object of the control plane (kubectl).
    Annotate(KubectlArgs),
    /// Explain the fields of a resource of the control plane or a member (kubectl).
    Explain(KubectlArgs),
    /// Print the logs of a pod in a member (kubectl).
    Logs(KubectlArgs),
    /// Run a command in a pod of a member (kubectl).
    Exec(KubectlArgs),
    /// Attach to a container in a member (kubectl).
    Attach(KubectlArgs),
    /// List the resources the control plane or a member serves (kubectl).
    ApiResources(KubectlArgs),
    /// List the API versions the control plane or a member serves (kubectl).
    ApiVersions(KubectlArgs),
    Top(Box<top::TopArgs>),
    /// List the global options.
    Options,
    /// Not available: start a control plane with `server`, or a testbed with `up`.
    #[command(hide = true)]
    Init(absent::AbsentArgs),
    /// Not available: stop the control plane, and delete its data directory.
    #[command(hide = true)]
    Deinit(absent::AbsentArgs),
    /// Not available: the addons of Karmada are part of the control plane.
    #[command(hide = true)]
    Addons(absent::AbsentArgs),
    Version(version::VersionArgs),
}

pub async fn run(console: &Console, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Get(args) => get::run(console, *args).await,
        Command::Describe(args) => describe::run(console, *args).await,
        Command::Why(args) => why::why(console, *args).await,
        Command::Plan(args) => why::plan(console, *args).await,
        Command::Failover(args) => failover::run(console, *args).await,
        Command::Console(args) => web_console::run(console, args).await,
        Command::Join(args) => join::run(console, *args).await,
        Command::Unjoin(args) => unjoin::run(console, *args).await,
        Command::Token(args) => token::run(console, *args).await,
        Command::Register(args) => register::run(console, *args).await,
        Command::Unregister(args) => unregister::run(console, *args).await,
        Command::Cordon(args) => cordon::cordon(console, args).await,
        Command::Uncordon(args) => cordon::uncordon(console, args).await,
        Command::Taint(args) => taint::run(console, args).await,
        Command::Promote(args) => promote::run(console, *args).await,
        Command::Interpret(args) => interpret::run(console, &args),
        Command::Apply(args) => kubectl::run(console, "apply", Targets::Placed, args).await,
        Command::Create(args) => kubectl::run(console, "create", Targets::Plane, args).await,
        Command::Delete(args) => kubectl::run(console, "delete", Targets::Plane, args).await,
        Command::Edit(args) => kubectl::run(console, "edit", Targets::Plane, args).await,
        Command::Patch(args) => kubectl::run(console, "patch", Targets::Plane, args).await,
        Command::Label(args) => kubectl::run(console, "label", Targets::Plane, args).await,
        Command::Annotate(args) => kubectl::run(console, "annotate", Targets::Plane, args).await,
        Command::Explain(args) => kubectl::run(console, "explain", Targets::PlaneOrMember, args).await,
        Command::Logs(args) => kubectl::run(console, "logs", Targets::Member, args).await,
        Command::Exec(args) => kubectl::run(console, "exec", Targets::Member, args).await,
        Command::Attach(args) => kubectl::run(console, "attach", Targets::Member, args).await,
        Command::ApiResources(args) => kubectl::run(console, "api-resources", Targets::PlaneOrMember, args).await,
        Command::ApiVersions(args) => kubectl::run(console, "api-versions", Targets::PlaneOrMember, args).await,
        Command::Top(args) => top::run(console, *args).await,
        Command::Options => absent::options(console),
        Command::Init(_) => absent::init(console),
        Command::Deinit(_) => absent::deinit(console),
        Command::Addons(_) => absent::addons(console),
        Command::Version(args) => version::run(console, &args),
    }
}

/// An exit code without a message: the error has already been printed.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub struct Exit(pub u8);

/// Returns the exit code if the error is only that.
pub fn exit_code(error: &anyhow::Error) -> Option<u8> {
    error.downcast_ref::<Exit>().map(|exit| exit.0)
}
