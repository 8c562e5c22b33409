//! "Distance to the limit": what the hot paths cost, what they cannot cost less than, and where the rest goes.
//!
//! A floor counts the steps that no design avoids and takes the cost of each from the same figures: a write is what a
//! create costs the API server beyond a get, which pays for connection, authentication and response alone.

use std::fmt::Write;

use crate::api_server::results::{Measured, Results as Api};
use crate::fleet::plane::Which;
use crate::propagation::Results as Propagation;
use crate::propagation::measure::PropagationMeasured;
use crate::report::rows::number;
use crate::server::Side;

/// Writes without which a Deployment does not get into three members and back: itself, its claim, its binding, the
/// placement, three Works, their three states, and the state of binding and template.
const WRITES: f64 = 12.0;
/// Requests to members: three creates.
const REQUESTS: f64 = 3.0;
/// Events of members: each creates an object and changes its status once.
const DELIVERIES: f64 = 6.0;

struct Path {
    name: String,
    unit: &'static str,
    measured: f64,
    floor: f64,
    rest: String,
}

/// The section; empty without the figures it needs.
pub fn section(api: Option<&Api>, propagation: Option<&Propagation>) -> String {
    let mut paths = Vec::new();
    if let Some(api) = api {
        paths.extend(of_requests(api));
    }
    if let (Some(api), Some(propagation)) = (api, propagation) {
        paths.extend(of_propagation(api, propagation));
    }
    if paths.is_empty() {
        return String::new();
    }
    let mut text = "\n## Distance to the limit\n\n| hot path | measured | floor | times | where the rest goes |\n\
                    |---|---:|---:|---:|---|\n"
        .to_owned();
    for Path { name, unit, measured, floor, rest } in paths {
        let times = measured / floor.max(f64::EPSILON);
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "| {name} | {} {unit} | {} {unit} | {times:.1} | {rest} |", number(measured), number(floor));
    }
    text.push_str(
        "\nA floor is an estimate from figures of the same machine: a write costs what a create costs the API server beyond a \
         get; a request to a member what the load generator pays for one; an event what it pays for a delivery.\n",
    );
    text
}

fn cpu(measured: &[Measured], side: Side) -> Option<(f64, f64)> {
    let found = measured.iter().find(|measured| measured.side == side)?;
    Some((found.figures.server_cpu_us, found.figures.client_cpu_us))
}

fn of_requests(api: &Api) -> Vec<Path> {
    let (Some((get, get_client)), Some((create, _))) =
        (cpu(&api.get, Side::Flotilla), cpu(&api.create, Side::Flotilla))
    else {
        return Vec::new();
    };
    let path = |name: &str, measured, floor, rest: &str| Path {
        name: name.to_owned(),
        unit: "µs",
        measured,
        floor,
        rest: rest.to_owned(),
    };
    // Both ends of a connection encrypt, frame and parse the same bytes.
    let wire = get_client;
    let mut paths = vec![
        path("API server: get", get, wire, "authorization, flow control, response"),
        path("API server: create", create, 2.0 * wire, "shape, admission, validation, field ownership, store"),
    ];
    if let Some((patch, _)) = cpu(&api.patch, Side::Flotilla) {
        paths.push(path(
            "API server: merge patch",
            patch,
            2.0 * wire,
            "the same on a tree that is read, merged and compared",
        ));
    }
    paths
}

fn of_propagation(api: &Api, propagation: &Propagation) -> Option<Path> {
    let ours: &PropagationMeasured = propagation.flat_out.iter().find(|run| run.plane == Which::Flotilla)?;
    let ((get, _), (create, _)) = (cpu(&api.get, Side::Flotilla)?, cpu(&api.create, Side::Flotilla)?);
    let (_, request) = cpu(&api.create, Side::Kube)?;
    let delivery = api.watch.iter().find(|watch| watch.side == Side::Kube)?.client_cpu_us;
    let write = (create - get).max(0.0);
    let floor = (create + (WRITES - 1.0) * write + REQUESTS * request + DELIVERIES * delivery) / 1000.0;
    let costs = &ours.costs;
    let further = ((costs.writes_in_all() - WRITES) * write / 1000.0).max(0.0);
    let others = (ours.cpu_ms_per_object - floor - further).max(0.0);
    let reconciles: f64 = costs.reconciles.values().sum();
    Some(Path {
        name: "a Deployment in three members".to_owned(),
        unit: "ms",
        measured: ours.cpu_ms_per_object,
        floor,
        rest: format!(
            "{:.1} further writes, {:.1} of them events: {further:.1} ms; {reconciles:.1} reconciles, mirrors, objects larger than \
             the ConfigMaps of the API figures: {others:.1} ms",
            (costs.writes_in_all() - WRITES).max(0.0),
            costs.writes_in_all() - costs.object_writes(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Figures;

    fn measured(side: Side, server: f64, client: f64) -> Measured {
        let figures = Figures {
            requests: 1,
            refused: 0,
            per_second: 1.0,
            p50_ms: 1.0,
            p99_ms: 1.0,
            server_cpu_us: server,
            client_cpu_us: client,
            mib_per_answer: 0.0,
        };
        Measured { side, figures }
    }

    #[test]
    fn a_path_is_compared_with_its_floor() {
        let api = Api {
            get: vec![measured(Side::Flotilla, 30.0, 15.0)],
            create: vec![measured(Side::Flotilla, 150.0, 40.0), measured(Side::Kube, 1000.0, 90.0)],
            ..Api::default()
        };
        let text = section(Some(&api), None);
        assert!(text.contains("| API server: get | 30.0 µs | 15.0 µs | 2.0 |"), "{text}");
        assert!(text.contains("| API server: create | 150 µs | 30.0 µs | 5.0 |"), "{text}");
        assert_eq!(section(None, None), "", "without figures there is no section");
    }
}
