//! Serves our discovery and OpenAPI documents over plain HTTP, enough for the read-only commands of `kubectl`.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use kinds::openapi::{OpenApi, OpenApiEntry, V2_PROTOBUF};
use kinds::{Catalog, discovery};
use object::GroupVersion;
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

struct Documents {
    catalog: Catalog,
    openapi: OpenApi,
}

/// Serves until the process ends.
pub fn serve() -> SocketAddr {
    let catalog = Catalog::builtin();
    let entries = catalog.kinds().iter().map(|kind| OpenApiEntry { kind: kind.clone(), schema: None }).collect();
    let documents = Arc::new(Documents { catalog, openapi: OpenApi::new(entries) });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let documents = documents.clone();
            // A client that disconnects early is ignored.
            std::thread::spawn(move || drop(answer(&documents, stream)));
        }
    });
    address
}

fn answer(documents: &Documents, mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut request, mut accept) = (String::new(), String::new());
    reader.read_line(&mut request)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("accept") => accept = value.to_owned(),
            Some(_) => {}
            None => break,
        }
    }
    let path = request.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or("/").to_owned();
    let (status, content_type, body) = match documents.find(&path, &accept) {
        Some((content_type, body)) => ("200 OK", content_type, body),
        None => ("404 Not Found", "text/plain", b"404 page not found\n".to_vec()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

impl Documents {
    fn find(&self, path: &str, accept: &str) -> Option<(&'static str, Vec<u8>)> {
        let kinds = self.catalog.kinds();
        let json = |value: Value| Some(("application/json", value.to_string().into_bytes()));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts[..] {
            ["api" | "apis"] if accept.contains("as=APIGroupDiscoveryList") => {
                Some((AGGREGATED, self.aggregated(path == "/api").to_string().into_bytes()))
            }
            ["api"] => json(discovery::api_versions("127.0.0.1:1")),
            ["apis"] => json(discovery::api_group_list(&self.catalog.groups())),
            ["api", version] => json(discovery::api_resource_list(kinds, &GroupVersion::new("", version))?),
            ["apis", group] => json(discovery::api_group(self.catalog.groups().iter().find(|g| g.name == group)?)),
            ["apis", group, version] => json(discovery::api_resource_list(kinds, &GroupVersion::new(group, version))?),
            ["version"] => json(json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.4" })),
            ["openapi", "v2"] if accept.contains("protobuf") => {
                Some((V2_PROTOBUF, self.openapi.v2_protobuf().inflate()))
            }
            ["openapi", "v2"] => Some(("application/json", self.openapi.v2_json().inflate())),
            ["openapi", "v3"] => json(self.openapi.v3_index()),
            ["openapi", "v3", ..] => {
                let document = self.openapi.v3_document(path.trim_start_matches("/openapi/v3/"))?;
                Some(("application/json", document.inflate()))
            }
            _ => None,
        }
    }

    fn aggregated(&self, core: bool) -> Value {
        let groups = self.catalog.groups();
        let items = groups.iter().filter(|group| group.name.is_empty() == core);
        discovery::group_discovery_list(
            items.map(|group| discovery::group_discovery(self.catalog.kinds(), group)).collect(),
        )
    }
}
