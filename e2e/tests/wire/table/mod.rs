//! The table of hostile requests: the request, the expected response, and accepted differences of a real server.

mod bodies;
mod patches;
mod queries;
mod requests;

use crate::wire::{Endpoint, RawAnswer};

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const TARGET: &str = "/api/v1/namespaces/default/configmaps/target";

/// Stands for a connection that is closed without a response.
pub const HUNG_UP: u16 = 0;

/// In place of a reason for a difference: the case is not sent to a real server.
pub const NOT_ASKED: &str = "not asked";

#[derive(Clone, Debug)]
pub struct ExpectedAnswer {
    pub code: u16,
    pub reason: &'static str,
    /// Part of the body or of the warning.
    pub says: &'static str,
}

pub struct Case {
    pub name: &'static str,
    method: &'static str,
    path: String,
    version: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// A wrong Content-Length, if any.
    length: Option<usize>,
    pub want: ExpectedAnswer,
    /// The reason why a real server may respond differently; empty if it must not.
    pub unlike: &'static str,
    pub theirs: ExpectedAnswer,
}

pub fn all() -> Vec<Case> {
    [bodies::cases(), patches::cases(), queries::cases(), requests::cases()].into_iter().flatten().collect()
}

pub fn case(name: &'static str, method: &'static str, path: impl Into<String>) -> Case {
    let want = ExpectedAnswer { code: 200, reason: "", says: "" };
    Case {
        name,
        method,
        path: path.into(),
        version: "HTTP/1.1",
        headers: Vec::new(),
        body: Vec::new(),
        length: None,
        theirs: want.clone(),
        want,
        unlike: "",
    }
}

/// A POST of a ConfigMap with this body.
pub fn made(name: &'static str, content_type: &'static str, body: impl Into<Vec<u8>>) -> Case {
    case(name, "POST", MAPS).header("Content-Type", content_type).body(body)
}

impl Case {
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    pub fn length(mut self, length: usize) -> Self {
        self.length = Some(length);
        self
    }

    pub fn is(mut self, code: u16, reason: &'static str) -> Self {
        self.want = ExpectedAnswer { code, reason, says: self.want.says };
        self
    }

    pub fn bad(self) -> Self {
        self.is(400, "BadRequest")
    }

    pub fn says(mut self, part: &'static str) -> Self {
        self.want.says = part;
        self
    }

    /// The response of a real server, and why the difference is accepted.
    pub fn unlike(mut self, why: &'static str, code: u16, reason: &'static str) -> Self {
        self.unlike = why;
        self.theirs = ExpectedAnswer { code, reason, says: "" };
        self
    }

    pub fn ours_alone(mut self) -> Self {
        self.unlike = NOT_ASKED;
        self
    }

    /// `None` if the server closed the connection without a response.
    pub fn send(&self, endpoint: &Endpoint) -> Option<RawAnswer> {
        let mut bytes = endpoint.head(self.method, &self.path, self.version);
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let chunked = self.headers.iter().any(|(name, _)| *name == "Transfer-Encoding");
        if !chunked && (!self.body.is_empty() || !matches!(self.method, "GET" | "HEAD")) {
            let length = self.length.unwrap_or(self.body.len());
            bytes.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        let mut connection = endpoint.connect();
        connection.write(&bytes);
        if chunked || self.length.is_some() {
            connection.finish_writing();
        }
        connection.read_answer(self.method)
    }
}
