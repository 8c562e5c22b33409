//! Semantics of lists, watches, versions and preconditions that clients rely on, for our server and a real one.

#[path = "wire/overload.rs"]
mod overload;
#[path = "wire/restarts.rs"]
mod restarts;
#[path = "wire/scenarios.rs"]
mod scenarios;
mod wire;

use e2e::flotilla::Flotilla;
use e2e::kube_apiserver::KubeApiServer;
use wire::Endpoint;

#[test]
fn our_server_follows_api_semantics() {
    let server = Flotilla::start();
    run_all(&Endpoint::of_kubeconfig(&server.kubeconfig));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Validates the scenarios: they must also hold for a real server.
#[test]
fn a_real_server_follows_the_same_semantics() {
    let Some(server) = KubeApiServer::start() else { return };
    run_all(&Endpoint::of_kubeconfig(&server.kubeconfig));
}

fn run_all(endpoint: &Endpoint) {
    for (name, scenario) in scenarios::ALL {
        eprintln!("{name}");
        scenario(&scenarios::TestNamespace::new(endpoint, &name.replace('_', "-")));
    }
}
