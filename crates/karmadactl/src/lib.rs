//! The client commands of a control plane, compatible with karmadactl.

pub mod absent;
pub mod api_list;
pub mod apply;
pub mod cluster_location;
mod cluster_taints;
pub mod completion;
pub mod console;
pub mod cordon;
pub mod create;
mod deinit;
pub mod delete;
pub mod describe;
mod download;
pub mod durations;
pub mod edit;
mod editor;
pub mod exec;
pub mod explain;
pub mod failover;
mod files;
pub mod get;
pub mod go_template;
pub mod init;
pub mod interpret;
pub mod join;
mod locate;
mod log_body;
pub mod logs;
mod manifests;
mod member_target;
mod membership_progress;
pub mod metadata;
mod openapi;
mod outcome;
mod output;
pub mod patch;
pub mod plane;
pub mod pod_problem;
pub mod program;
pub mod promote;
pub mod register;
mod resources;
pub mod restored;
mod scope;
mod selection;
mod table;
mod tabs;
pub mod taint;
mod terminal;
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
    Apply(Box<apply::ApplyArgs>),
    Create(Box<create::CreateArgs>),
    Delete(Box<delete::DeleteArgs>),
    Edit(Box<edit::EditArgs>),
    Patch(Box<patch::PatchArgs>),
    Label(Box<metadata::LabelArgs>),
    Annotate(Box<metadata::AnnotateArgs>),
    Explain(Box<explain::ExplainArgs>),
    Logs(Box<logs::LogsArgs>),
    Exec(Box<exec::ExecArgs>),
    Attach(Box<exec::AttachArgs>),
    ApiResources(Box<api_list::ApiResourcesArgs>),
    ApiVersions(Box<api_list::ApiVersionsArgs>),
    Top(Box<top::TopArgs>),
    /// List the global options.
    Options,
    Init(Box<init::InitArgs>),
    Deinit(deinit::DeinitArgs),
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
        Command::Interpret(args) => interpret::run(console, &args).await,
        Command::Apply(args) => apply::run(console, *args).await,
        Command::Create(args) => create::run(console, *args).await,
        Command::Delete(args) => delete::run(console, *args).await,
        Command::Edit(args) => edit::run(console, *args).await,
        Command::Patch(args) => patch::run(console, *args).await,
        Command::Label(args) => metadata::label(console, *args).await,
        Command::Annotate(args) => metadata::annotate(console, *args).await,
        Command::Explain(args) => explain::run(console, *args).await,
        Command::Logs(args) => logs::run(console, *args).await,
        Command::Exec(args) => exec::exec(console, *args).await,
        Command::Attach(args) => exec::attach(console, *args).await,
        Command::ApiResources(args) => api_list::resources(console, *args).await,
        Command::ApiVersions(args) => api_list::versions(console, *args).await,
        Command::Top(args) => top::run(console, *args).await,
        Command::Options => absent::options(console),
        Command::Init(args) => init::run(console, *args).await,
        Command::Deinit(args) => deinit::run(console, args).await,
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
