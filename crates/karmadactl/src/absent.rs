//! Commands of karmadactl that have no place here, and what to do instead; and the list of options it prints.

use std::ffi::OsString;

use anyhow::bail;
use clap::Args;

use crate::console::Console;

/// Whatever stands behind the command is not looked at.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct AbsentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

pub fn init(console: &Console) -> anyhow::Result<()> {
    let program = &console.program;
    bail!(
        "a control plane needs no host cluster here and is not installed into one. Start it with `{program} server`; \
         for one with three members to try things on, `{program} up`; in a cluster, use the Helm chart in charts/"
    )
}

pub fn deinit(console: &Console) -> anyhow::Result<()> {
    let program = &console.program;
    bail!(
        "nothing was installed into a host cluster. Stop `{program} server` and delete its data directory (--data-dir, \
         ~/.flotilla by default); a testbed goes with `{program} down`"
    )
}

pub fn addons(console: &Console) -> anyhow::Result<()> {
    let program = &console.program;
    bail!(
        "there are no addons: the estimator and the metrics are part of the control plane, and the descheduler is switched \
         on with `{program} server --descheduler`"
    )
}

pub fn options(console: &Console) -> anyhow::Result<()> {
    let program = &console.program;
    console.print(&format!(
        "The following options can be passed to any command:\n\n    \
         --log <FILTER>                    What to log: error, warn, info, debug, trace, or a filter (FLOTILLA_LOG)\n    \
         --log-format <text|json>          How log lines look\n    \
         -v, --v <LEVEL>                   4 and above log what is asked of servers\n    \
         -h, --help                        What a command does and takes\n\n\
         Commands that talk to a control plane also take:\n\n    \
         --kubeconfig <FILE>               Which control plane\n    \
         --karmada-context <CONTEXT>       Which context of that kubeconfig\n    \
         -n, --namespace <NAMESPACE>       Where namespaced objects are\n\n\
         Use \"{program} <command> --help\" for all options of a command.\n"
    ))?;
    Ok(())
}
