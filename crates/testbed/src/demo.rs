//! Scenarios to watch: each shows every command it runs, checks what came of it, and cleans up behind itself.

mod failover;
mod images;
mod placement;
mod stage;

use anyhow::{Context, bail};
use karmadactl::console::Console;

use crate::bed::Bed;
use crate::demo::stage::Stage;
use crate::place::Place;

struct Scenario {
    name: &'static str,
    about: &'static str,
}

const SCENARIOS: [Scenario; 7] = [
    Scenario { name: "nginx", about: "a Deployment in every member" },
    Scenario { name: "overrides", about: "the same Deployment, different in one member" },
    Scenario { name: "spread", about: "replicas divided by weight, and a limit on clusters" },
    Scenario { name: "dependencies", about: "what a Deployment mentions goes where it goes" },
    Scenario { name: "failover", about: "a member dies, and its workload moves to another" },
    Scenario { name: "flask", about: "an image of your own in every member (needs --runtime containerd)" },
    Scenario {
        name: "prometheus",
        about: "Prometheus in every member, each on a port of its own (needs --runtime containerd)",
    },
];

pub async fn run(console: &Console, place: &Place, scenario: &str, keep: bool) -> anyhow::Result<()> {
    if scenario == "list" {
        for scenario in SCENARIOS {
            console.line(format!("{:14}{}", scenario.name, scenario.about))?;
        }
        return Ok(());
    }
    let Some(known) = SCENARIOS.iter().find(|known| known.name == scenario) else {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        bail!("there is no scenario {scenario}; there are {}", names.join(", "));
    };
    let bed = Bed::running(place).await?;
    let mut stage = Stage::new(console, &bed)?;
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
    stage.say(format!("{} has shown what it should.", known.name))
}
