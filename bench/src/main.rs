//! Measures `flotilla server` beside kube-apiserver on etcd: same machine, same run, same load.

mod load;
mod machine;
mod options;
mod process;
mod report;
mod run;
mod scenario;
mod server;
mod wire;

use std::io::Write;

use anyhow::Context;
use clap::Parser;

use crate::options::Options;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let report = run::run(&options).await?;
    let text = report::text::table(&report);
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the table")?;
    let folder = &options.out;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let json = serde_json::to_string_pretty(&report).context("cannot write the report as JSON")?;
    for (name, text) in [("report.md", report::text::markdown(&report)), ("report.json", json)] {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("written: {}", file.display());
    }
    Ok(())
}
