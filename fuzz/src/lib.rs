//! The functions of the programs that read untrusted bytes; each must return for every input.

mod images;
mod objects;
mod stored;
mod texts;
mod uploads;
mod wire;

/// A reader of untrusted bytes. The corpus is in `corpus/NAME`.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Short runs have a fraction of the inputs for those that write files or open connections.
    pub cost: u64,
}

pub const TARGETS: &[Target] = &[
    Target { name: "decode", run: objects::decode, cost: 1 },
    Target { name: "body", run: objects::body, cost: 1 },
    Target { name: "patch", run: objects::patch, cost: 1 },
    Target { name: "field_sets", run: objects::field_sets, cost: 1 },
    Target { name: "protobuf", run: objects::protobuf, cost: 1 },
    Target { name: "selectors", run: texts::selectors, cost: 1 },
    Target { name: "quantity", run: texts::quantity, cost: 1 },
    Target { name: "jsonpath", run: texts::jsonpath, cost: 1 },
    Target { name: "go_template", run: texts::go_template, cost: 1 },
    Target { name: "cel", run: texts::cel, cost: 1 },
    Target { name: "lua", run: texts::lua, cost: 1 },
    Target { name: "http_path", run: texts::http_path, cost: 1 },
    Target { name: "kubeconfig", run: texts::kubeconfig, cost: 1 },
    Target { name: "configuration", run: texts::configuration, cost: 1 },
    Target { name: "spdy", run: wire::spdy, cost: 1 },
    Target { name: "websocket", run: wire::websocket, cost: 1 },
    Target { name: "tunnel", run: wire::tunnel, cost: 1 },
    Target { name: "webhook_answers", run: wire::webhook_answers, cost: 1 },
    Target { name: "certificates", run: wire::certificates, cost: 1 },
    Target { name: "tokens", run: wire::tokens, cost: 1 },
    Target { name: "oidc", run: wire::oidc, cost: 1 },
    Target { name: "backup", run: stored::backup, cost: 4 },
    Target { name: "queries", run: stored::queries, cost: 1 },
    Target { name: "registry", run: images::registry, cost: 1 },
    Target { name: "registry_uploads", run: uploads::registry_uploads, cost: 10 },
    Target { name: "archive", run: images::archive, cost: 1 },
    Target { name: "dockerfile", run: images::dockerfile, cost: 1 },
];

/// Position of a target in [`TARGETS`]; a compile error if there is none of that name.
pub const fn position(name: &str) -> usize {
    let mut position = 0;
    while position < TARGETS.len() {
        if is_equal(TARGETS[position].name.as_bytes(), name.as_bytes()) {
            return position;
        }
        position += 1;
    }
    panic!("FUZZ_TARGET is no fuzz target; see fuzz/corpus")
}

/// `==` of strings is not available in constants.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}
