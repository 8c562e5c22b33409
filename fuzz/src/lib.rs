//! The functions of the programs that read untrusted bytes; each must return for every input.

mod images;
mod objects;
mod texts;
mod wire;

/// A reader of untrusted bytes. The corpus is in `corpus/NAME`.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "decode", run: objects::decode },
    Target { name: "body", run: objects::body },
    Target { name: "patch", run: objects::patch },
    Target { name: "field_sets", run: objects::field_sets },
    Target { name: "protobuf", run: objects::protobuf },
    Target { name: "selectors", run: texts::selectors },
    Target { name: "quantity", run: texts::quantity },
    Target { name: "jsonpath", run: texts::jsonpath },
    Target { name: "go_template", run: texts::go_template },
    Target { name: "cel", run: texts::cel },
    Target { name: "lua", run: texts::lua },
    Target { name: "http_path", run: texts::http_path },
    Target { name: "kubeconfig", run: texts::kubeconfig },
    Target { name: "configuration", run: texts::configuration },
    Target { name: "spdy", run: wire::spdy },
    Target { name: "websocket", run: wire::websocket },
    Target { name: "tunnel", run: wire::tunnel },
    Target { name: "certificates", run: wire::certificates },
    Target { name: "tokens", run: wire::tokens },
    Target { name: "registry", run: images::registry },
    Target { name: "archive", run: images::archive },
    Target { name: "dockerfile", run: images::dockerfile },
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
