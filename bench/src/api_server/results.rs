//! Results of the API server benchmark.

use serde::{Deserialize, Serialize};

use crate::load::Figures;
use crate::process::Memory;
use crate::server::Side;

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub clients: usize,
    pub protocol: String,
    pub started: Vec<Started>,
    pub create: Vec<Measured>,
    pub get: Vec<Measured>,
    pub patch: Vec<Measured>,
    pub list: Vec<Measured>,
    pub list_gzip: Vec<Measured>,
    pub watch: Vec<FannedOut>,
    #[serde(default)]
    pub watchers: Vec<ManyWatched>,
    pub growth: Vec<Grown>,
}

#[derive(Serialize, Deserialize)]
pub struct Started {
    pub side: Side,
    /// The median of all starts.
    pub ready_seconds: f64,
    pub starts: usize,
    pub idle_memory: Memory,
    pub idle_cpu_percent: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub side: Side,
    pub figures: Figures,
}

#[derive(Serialize, Deserialize)]
pub struct FannedOut {
    pub side: Side,
    pub bursts: usize,
    /// Watches closed by the server for being too slow, and opened again.
    pub reopened: usize,
    pub median_ms: f64,
    pub deliveries_per_second: f64,
    pub server_cpu_us: f64,
    pub client_cpu_us: f64,
}

#[derive(Serialize, Deserialize)]
pub struct ManyWatched {
    pub side: Side,
    pub watchers: usize,
    /// Watches closed by the server for being too slow, and opened again.
    pub reopened: usize,
    /// Memory of the server for each idle watcher, without file pages.
    pub idle_kib: f64,
    /// From the first event until every watcher had all.
    pub seconds: f64,
    pub deliveries_per_second: f64,
    pub server_cpu_us: f64,
    pub client_cpu_us: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Grown {
    pub side: Side,
    pub size: usize,
    pub operation: String,
    pub figures: Figures,
}

impl Results {
    /// Failed responses by measurement; they make its figures invalid.
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
            refusals.push(format!("{operation} with {size} objects: {side:?} refused {}", figures.refused));
        }
        refusals
    }
}
