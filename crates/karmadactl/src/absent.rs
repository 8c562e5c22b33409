//! Commands of karmadactl that do not exist here, with their replacements, and the list of global options.

use std::ffi::OsString;

use anyhow::bail;
use clap::Args;

use crate::console::Console;

/// Arguments, which are ignored.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct AbsentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

pub fn addons(console: &Console) -> anyhow::Result<()> {
    let program = &console.program;
    bail!(
        "there are no addons: the estimator and the metrics are part of the control plane, and the descheduler is enabled \
         with `{program} server --descheduler`"
    )
}

pub fn options(console: &Console) -> anyhow::Result<()> {
    let program = &console.program;
    console.print(&format!(
        "The following options can be passed to any command:\n\n    \
         --log <FILTER>                    Log level: error, warn, info, debug, trace, or a filter (FLOTILLA_LOG)\n    \
         --log-format <text|json>          Log format\n    \
         -v, --v <LEVEL>                   Verbosity; 4 and above log API requests\n    \
         -h, --help                        Help of a command\n\n\
         Client commands also accept:\n\n    \
         --kubeconfig <FILE>               Kubeconfig of the control plane\n    \
         --karmada-context <CONTEXT>       Context in that kubeconfig\n    \
         -n, --namespace <NAMESPACE>       Namespace of the request\n\n\
         Use \"{program} <command> --help\" for all options of a command.\n"
    ))?;
    Ok(())
}
