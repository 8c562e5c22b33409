//! Lists, watches, versions and preconditions mean what clients rely on, at our server and at a real one alike.

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
fn our_server_means_what_clients_rely_on() {
    let server = Flotilla::start();
    run_all(&Endpoint::of_kubeconfig(&server.kubeconfig));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Keeps the scenarios honest: what they ask of us must hold of a real server.
#[test]
fn a_real_server_means_the_same() {
    let Some(server) = KubeApiServer::start() else { return };
    run_all(&Endpoint::of_kubeconfig(&server.kubeconfig));
}

fn run_all(endpoint: &Endpoint) {
    for (name, scenario) in scenarios::ALL {
        eprintln!("{name}");
        scenario(&scenarios::Space::new(endpoint, &name.replace('_', "-")));
    }
}
