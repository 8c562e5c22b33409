//! Demos: each prints the commands it runs, checks their results, and cleans up.

mod failover;
mod images;
mod placement;
mod stage;

use anyhow::{Context, bail};
use karmadactl::console::Console;

use crate::bed::Testbed;
use crate::demo::stage::DemoContext;
use crate::place::TestbedDir;

struct Scenario {
    name: &'static str,
    about: &'static str,
}

static SCENARIOS: [Scenario; 7] = [
    Scenario { name: "nginx", about: "a Deployment in every member" },
    Scenario { name: "overrides", about: "the same Deployment, different in one member" },
    Scenario { name: "spread", about: "replicas divided by weight, and a limit on clusters" },
    Scenario { name: "dependencies", about: "a ConfigMap follows the Deployment that uses it" },
    Scenario { name: "failover", about: "a member crashes, and its workload moves to another" },
    Scenario { name: "flask", about: "a custom image in every member, each on its own port" },
    Scenario { name: "prometheus", about: "Prometheus in every member, each on its own port" },
];

/// Returns the names of the demos.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name)
}

pub async fn run(console: &Console, place: &TestbedDir, scenario: &str, keep: bool) -> anyhow::Result<()> {
    if scenario == "list" {
        for scenario in &SCENARIOS {
            console.line(format!("{:14}{}", scenario.name, scenario.about))?;
        }
        return Ok(());
    }
    let Some(known) = SCENARIOS.iter().find(|known| known.name == scenario) else {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        bail!("demo {scenario} not found; available: {}", names.join(", "));
    };
    let bed = Testbed::running(place).await?;
    if bed.spec.members.is_empty() {
        bail!("the testbed {} has no members to run a demo in", place.name());
    }
    let mut stage = DemoContext::new(console, &bed)?;
    stage.say(format!("{}: {}", known.name, known.about))?;
    let played = match known.name {
        "nginx" => placement::nginx(&mut stage).await,
        "overrides" => placement::overrides(&mut stage).await,
        "spread" => placement::spread(&mut stage).await,
        "dependencies" => placement::dependencies(&mut stage).await,
        "failover" => failover::play(&mut stage).await,
        "flask" => images::flask(&mut stage).await,
        _ => images::prometheus(&mut stage).await,
    };
    let cleaned = if keep { Ok(()) } else { stage.clean_up().await.context("cannot clean up") };
    played?;
    cleaned?;
    stage.say(format!("demo {} is complete.", known.name))
}
