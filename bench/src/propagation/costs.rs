//! Countable costs of one Deployment in a control plane: writes by resource, reconciles by controller.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::fleet::plane::{BenchPlane, Which};
use crate::wire::Call;

const WRITES: &str = "flotilla_storage_writes_total";
const RECONCILES: &str = "controller_runtime_reconcile_total";
/// Steps that a run has too few of to say something about one Deployment, such as those of heartbeats.
const SHOWN_FROM: f64 = 0.05;

/// Steps per Deployment, by name.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Costs {
    pub writes: BTreeMap<String, f64>,
    pub reconciles: BTreeMap<String, f64>,
}

impl Costs {
    pub fn writes_in_all(&self) -> f64 {
        self.writes.values().sum()
    }

    /// Writes of objects that are not events.
    pub fn object_writes(&self) -> f64 {
        self.writes.iter().filter(|(name, _)| !name.starts_with("events ")).map(|(_, count)| count).sum()
    }
}

/// The counters of a control plane at one time.
#[derive(Default)]
pub struct Counters {
    writes: BTreeMap<String, f64>,
    reconciles: BTreeMap<String, f64>,
}

impl Counters {
    /// Reads the metrics of flotilla; Karmada is spread over processes that count otherwise.
    pub async fn read(plane: &BenchPlane) -> anyhow::Result<Self> {
        if plane.which() != Which::Flotilla {
            return Ok(Self::default());
        }
        let mut connection = plane.target().connect().await?;
        let text = connection.read(Call::get("/metrics".to_owned())).await?;
        Ok(Self::of(&String::from_utf8_lossy(&text)))
    }

    fn of(text: &str) -> Self {
        let mut counters = Self::default();
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let (Some((name, labels)), Ok(value)) = (series.split_once('{'), value.parse::<f64>()) else { continue };
            let label = |name: &str| {
                let found = labels.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
                found.unwrap_or_default().to_owned()
            };
            match name {
                WRITES => {
                    let step = format!("{} {}", label("resource"), label("operation"));
                    *counters.writes.entry(step).or_default() += value;
                }
                RECONCILES => *counters.reconciles.entry(label("controller")).or_default() += value,
                _ => {}
            }
        }
        counters
    }

    /// The steps since an earlier time, divided by the Deployments.
    pub fn since(&self, before: &Self, deployments: usize) -> Costs {
        let each = |now: &BTreeMap<String, f64>, before: &BTreeMap<String, f64>| {
            let steps = now.iter().map(|(name, count)| {
                let since = count - before.get(name).copied().unwrap_or_default();
                (name.clone(), since / deployments.max(1) as f64)
            });
            steps.filter(|(_, each)| *each >= SHOWN_FROM).collect()
        };
        Costs { writes: each(&self.writes, &before.writes), reconciles: each(&self.reconciles, &before.reconciles) }
    }
}

pub fn table(costs: &Costs) -> String {
    if costs.writes.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nWhat one Deployment of the flat-out run costs flotilla in steps: {:.1} writes, {:.1} of them without events, and \
         {:.1} reconciles.\n\n| write | per Deployment |\n|---|---:|\n",
        costs.writes_in_all(),
        costs.object_writes(),
        costs.reconciles.values().sum::<f64>()
    );
    for (name, each) in &costs.writes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {each:.2} |");
    }
    text.push_str("\n| reconciles of | per Deployment |\n|---|---:|\n");
    for (name, each) in &costs.reconciles {
        let _ = writeln!(text, "| {name} | {each:.2} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Counters, table};

    #[test]
    fn steps_are_counted_from_metrics() {
        let metrics = |works: u32, events: u32, reconciles: u32| {
            Counters::of(&format!(
                "# TYPE flotilla_storage_writes_total counter\n\
                 flotilla_storage_writes_total{{group=\"work.karmada.io\",resource=\"works\",operation=\"create\"}} {works}\n\
                 flotilla_storage_writes_total{{group=\"\",resource=\"events\",operation=\"create\"}} {events}\n\
                 controller_runtime_reconcile_total{{controller=\"binding\",result=\"success\"}} {reconciles}\n\
                 controller_runtime_reconcile_total{{controller=\"binding\",result=\"error\"}} 10\n\
                 process_cpu_seconds_total 5\n"
            ))
        };
        let costs = metrics(40, 12, 20).since(&metrics(10, 12, 0), 10);
        assert_eq!(costs.writes.get("works create"), Some(&3.0));
        assert_eq!((costs.writes_in_all(), costs.object_writes()), (3.0, 3.0), "no event was written");
        assert_eq!(costs.reconciles.get("binding"), Some(&2.0), "failed ones count too");
        assert!(table(&costs).contains("| works create | 3.00 |"));
    }
}
