//! Progress of a testbed: a live line per part on a terminal, otherwise plain lines.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use karmadactl::console::{Console, in_red, shows_colors};

const TICK: Duration = Duration::from_millis(80);

pub struct Display {
    console: Arc<Console>,
    /// Set only if standard error is a terminal.
    live: Option<MultiProgress>,
    started: Instant,
    name_width: usize,
}

/// The progress of one part.
pub struct ProgressLine {
    console: Arc<Console>,
    bar: Option<ProgressBar>,
    name: String,
    started: Instant,
    name_width: usize,
    shown: Mutex<String>,
}

impl Display {
    pub fn new(console: Arc<Console>, name_width: usize) -> Self {
        let live = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { console, live, started: Instant::now(), name_width }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn line(&self, name: &str) -> Arc<ProgressLine> {
        let bar = self.live.as_ref().map(|live| {
            let bar = live.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {prefix} {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(format!("{name:width$}", width = self.name_width));
            bar.enable_steady_tick(TICK);
            bar
        });
        Arc::new(ProgressLine {
            console: Arc::clone(&self.console),
            bar,
            name: name.to_owned(),
            started: self.started,
            name_width: self.name_width,
            shown: Mutex::default(),
        })
    }
}

impl ProgressLine {
    /// Creates a line that prints nothing.
    pub fn silent() -> Self {
        let console = Console::new("flotilla", Box::new(std::io::sink()), Box::new(std::io::sink()));
        Self {
            console: Arc::new(console),
            bar: None,
            name: String::new(),
            started: Instant::now(),
            name_width: 0,
            shown: Mutex::default(),
        }
    }

    /// Shows the current step; a repeated text is shown once.
    pub fn say(&self, text: &str) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown == text {
            return;
        }
        text.clone_into(&mut shown);
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => self.plain(text),
        }
    }

    pub fn done(&self, text: &str) {
        self.end("✔", text);
    }

    pub fn failed(&self, text: &str) {
        let sign = if shows_colors(&std::io::stderr()) { in_red("✘") } else { "✘".to_owned() };
        self.end(&sign, text);
    }

    fn end(&self, sign: &str, text: &str) {
        match &self.bar {
            Some(bar) => {
                if let Ok(style) = ProgressStyle::with_template(&format!("{sign} {{prefix}} {{msg}}")) {
                    bar.set_style(style);
                }
                bar.finish_with_message(format!("{text} ({:.1}s)", self.started.elapsed().as_secs_f32()));
            }
            None => self.plain(text),
        }
    }

    fn plain(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs_f32();
        self.console.note(format!("{seconds:5.1}s {:width$} {text}", self.name, width = self.name_width));
    }
}
