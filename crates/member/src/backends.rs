//! The pod backend of a member: simulated nodes, or one node with real containers.

use std::sync::{Arc, OnceLock};

use kubelet::Kubelet;
use object::Status;
use pod_streams::PodBackend;
use simulated_nodes::Simulation;

/// Set once the member's nodes are up; the API server needs a reference before that.
#[derive(Clone, Default)]
pub struct Backends {
    runner: Arc<OnceLock<Runner>>,
}

/// Runs the pods.
#[derive(Clone)]
pub enum Runner {
    Simulated(Simulation),
    Containers(Kubelet),
}

impl Backends {
    pub fn run_by(&self, runner: Runner) {
        // A member keeps one kind of nodes.
        let _ = self.runner.set(runner);
    }

    pub fn runner(&self) -> Result<&Runner, Status> {
        self.runner.get().ok_or_else(|| Status::unavailable("the nodes of this member are not ready yet"))
    }

    pub fn pods(&self) -> Result<Arc<dyn PodBackend>, Status> {
        Ok(match self.runner()? {
            Runner::Simulated(simulation) => Arc::new(simulation.clone()),
            Runner::Containers(kubelet) => Arc::new(kubelet.clone()),
        })
    }
}
