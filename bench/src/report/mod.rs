//! What was measured, and which targets it meets.

mod rows;
pub mod text;

use serde::Serialize;

use crate::load::Figures;
use crate::machine::Machine;
use crate::options::{Options, Protocol};
use crate::process::Memory;
use crate::server::Side;

#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub versions: Vec<String>,
    pub clients: usize,
    pub protocol: &'static str,
    pub quick: bool,
    pub took_seconds: f64,
    pub started: Vec<Started>,
    pub create: Vec<Measured>,
    pub get: Vec<Measured>,
    pub patch: Vec<Measured>,
    pub list: Vec<Measured>,
    pub list_gzip: Vec<Measured>,
    pub watch: Vec<FannedOut>,
    pub growth: Vec<Grown>,
}

#[derive(Serialize)]
pub struct Started {
    pub side: Side,
    /// The median of all starts.
    pub ready_seconds: f64,
    pub starts: usize,
    pub idle_memory: Memory,
    pub idle_cpu_percent: f64,
}

#[derive(Serialize)]
pub struct Measured {
    pub side: Side,
    pub figures: Figures,
}

#[derive(Serialize)]
pub struct FannedOut {
    pub side: Side,
    pub bursts: usize,
    /// Watches the server closed for not keeping up, and that were opened again.
    pub reopened: usize,
    pub median_ms: f64,
    pub deliveries_per_second: f64,
    pub server_cpu_us: f64,
    pub client_cpu_us: f64,
}

#[derive(Serialize)]
pub struct Grown {
    pub side: Side,
    pub size: usize,
    pub operation: &'static str,
    pub figures: Figures,
}

impl Report {
    pub fn new(machine: Machine, versions: Vec<String>, options: &Options) -> Self {
        Self {
            machine,
            versions,
            clients: options.clients,
            protocol: match options.protocol {
                Protocol::Http1 => "HTTP/1.1",
                Protocol::Http2 => "HTTP/2",
            },
            quick: options.quick,
            took_seconds: 0.0,
            started: Vec::new(),
            create: Vec::new(),
            get: Vec::new(),
            patch: Vec::new(),
            list: Vec::new(),
            list_gzip: Vec::new(),
            watch: Vec::new(),
            growth: Vec::new(),
        }
    }

    /// Answers other than success, by measurement; they make its figures worthless.
    pub fn refusals(&self) -> Vec<String> {
        let measured = [("create", &self.create), ("get", &self.get), ("patch", &self.patch), ("list", &self.list)];
        let measured = measured.into_iter().chain([("list with gzip", &self.list_gzip)]);
        let mut refusals = Vec::new();
        for (name, sides) in measured {
            for Measured { side, figures } in sides.iter().filter(|m| m.figures.refused > 0) {
                refusals.push(format!("{name}: {side:?} refused {} of {}", figures.refused, figures.requests));
            }
        }
        for grown in self.growth.iter().filter(|grown| grown.figures.refused > 0) {
            let Grown { side, size, operation, figures } = grown;
            refusals.push(format!("{operation} beside {size}: {side:?} refused {}", figures.refused));
        }
        refusals
    }
}
