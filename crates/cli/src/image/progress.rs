//! Progress of image copies: a bar per blob on a terminal, otherwise a line per blob.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use ::karmadactl::console::Console;
use ::oci_registry::copy::{CopyMethod, CopyProgress, Event};
use ::oci_registry::digest::Digest;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

pub struct Shown {
    console: Arc<Console>,
    /// Set only if standard error is a terminal.
    live: Option<MultiProgress>,
    bars: Mutex<HashMap<Digest, ProgressBar>>,
    sizes: Mutex<HashMap<Digest, u64>>,
}

impl Shown {
    pub fn new(console: &Arc<Console>) -> Self {
        let live = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { console: console.clone(), live, bars: Mutex::default(), sizes: Mutex::default() }
    }

    fn begin(&self, blob: Digest, len: u64) {
        lock(&self.sizes).insert(blob.clone(), len);
        let Some(live) = &self.live else { return };
        let bar = live.add(ProgressBar::new(len));
        let style =
            ProgressStyle::with_template("  {prefix} {bar:30} {bytes:>10} of {total_bytes} {binary_bytes_per_sec}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(blob.short().to_owned());
        lock(&self.bars).insert(blob, bar);
    }

    fn end(&self, blob: &Digest, how: CopyMethod) {
        if let Some(bar) = lock(&self.bars).remove(blob) {
            bar.finish_and_clear();
        }
        let len = lock(&self.sizes).remove(blob);
        let how = match how {
            CopyMethod::Copied => "copied",
            CopyMethod::TakenOver => "mounted from another repository",
            CopyMethod::WasThere => "already exists",
        };
        let len = len.map(|len| format!(" ({})", size(len))).unwrap_or_default();
        let line = format!("  {} {how}{len}", blob.short());
        match &self.live {
            Some(live) => drop(live.println(line)),
            None => self.console.note(line),
        }
    }
}

impl CopyProgress for Shown {
    fn event(&self, event: Event) {
        match event {
            Event::Started { blob, len } => self.begin(blob, len),
            Event::Advanced { blob, bytes } => {
                if let Some(bar) = lock(&self.bars).get(&blob) {
                    bar.inc(bytes);
                }
            }
            Event::Done { blob, how } => self.end(&blob, how),
            Event::Manifest { .. } => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
