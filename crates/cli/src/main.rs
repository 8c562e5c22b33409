//! The `flotilla` command: reads what was typed and hands it to the command it names.

mod commands;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Huge pages make a small server look and be large: two megabytes held for every few kilobytes in use. A kernel
    // that does not know the setting has no huge pages to avoid.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let cli = commands::Cli::parse();
    match commands::run(cli) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
