//! The parameters of the API's paths, each described once.

use std::borrow::Cow;

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterLocation {
    Path,
    Query,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameter {
    pub name: &'static str,
    pub place: ParameterLocation,
    pub ty: &'static str,
    pub description: Cow<'static, str>,
}

pub const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
pub const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
pub const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
pub const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
pub const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];
pub const LOG: &[&str] = &[
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
];
pub const ATTACH: &[&str] = &["container", "stderr", "stdin", "stdout", "tty"];
pub const EXEC: &[&str] = &["command", "container", "stderr", "stdin", "stdout", "tty"];
pub const PORT_FORWARD: &[&str] = &["ports"];
pub const PROXY: &[&str] = &["path"];

/// Query parameters: name, type, description.
const QUERY: &[(&str, &str, &str)] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Ask a watch for BOOKMARK events, which carry a resource version and nothing else.",
    ),
    ("command", "string", "The command to run, one argument per occurrence; no shell is involved."),
    ("container", "string", "The container meant; may be left out where a pod has only one."),
    ("continue", "string", "The token of the previous page of a list asked for with `limit`."),
    ("dryRun", "string", "`All` goes through every step of the request but keeps nothing."),
    ("fieldManager", "string", "Who makes this change; recorded in managedFields. Required for server-side apply."),
    ("fieldSelector", "string", "Only objects whose fields match, such as `metadata.name=web`."),
    (
        "fieldValidation",
        "string",
        "What to do about unknown or duplicate fields: `Ignore`, `Warn` (the default) or `Strict`.",
    ),
    ("follow", "boolean", "Keep the connection open and send new lines as they are written."),
    ("force", "boolean", "Take over fields other appliers own; only for server-side apply."),
    ("gracePeriodSeconds", "integer", "Seconds the object may take to go; zero deletes at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Delete even when the stored object cannot be read. Finalizers and preconditions are not looked at.",
    ),
    ("insecureSkipTLSVerifyBackend", "boolean", "Do not check the certificate of the node the log comes from."),
    ("labelSelector", "string", "Only objects whose labels match, such as `app=web,tier!=cache`."),
    ("limit", "integer", "At most this many objects; the answer carries a `continue` token when there are more."),
    ("limitBytes", "integer", "Stop after this many bytes of log."),
    ("orphanDependents", "boolean", "Older form of `propagationPolicy=Orphan`."),
    ("path", "string", "The path of the request that is passed on."),
    ("ports", "integer", "The ports to forward."),
    ("pretty", "string", "`true` indents the answer."),
    ("previous", "boolean", "The log of the container's previous run."),
    ("propagationPolicy", "string", "What happens to dependents: `Orphan`, `Background` or `Foreground`."),
    ("resourceVersion", "string", "The version the answer is based on, or the watch starts after."),
    ("resourceVersionMatch", "string", "How `resourceVersion` is meant: `Exact` or `NotOlderThan`."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that exist, then a bookmark, then changes."),
    (
        "shardSelector",
        "string",
        "Only objects of some hash ranges. Takes effect where the server offers sharded lists.",
    ),
    ("sinceSeconds", "integer", "Only lines younger than this."),
    ("stderr", "boolean", "Pass the standard error stream."),
    ("stdin", "boolean", "Pass the standard input stream."),
    ("stdout", "boolean", "Pass the standard output stream."),
    ("stream", "string", "Which stream of the log: `All`, `Stdout` or `Stderr`."),
    ("tailLines", "integer", "Only this many lines from the end of the log."),
    ("timeoutSeconds", "integer", "End the list or watch after this time."),
    ("timestamps", "boolean", "Put the time in front of each line."),
    ("tty", "boolean", "Give the process a terminal."),
    ("watch", "boolean", "Respond with a stream of changes instead of a list."),
];

pub fn query(name: &str) -> Parameter {
    let (name, ty, description) =
        QUERY.iter().find(|(known, _, _)| *known == name).expect("the sets above name parameters of the table");
    Parameter { name, place: ParameterLocation::Query, ty, description: Cow::Borrowed(description) }
}

pub fn object_name(kind: &str) -> Parameter {
    path("name", format!("name of the {kind}").into())
}

pub fn namespace() -> Parameter {
    path("namespace", "the namespace the object lives in".into())
}

pub fn proxied_path() -> Parameter {
    path("path", "the path on the other side".into())
}

fn path(name: &'static str, description: Cow<'static, str>) -> Parameter {
    Parameter { name, place: ParameterLocation::Path, ty: "string", description }
}

impl Parameter {
    pub fn to_v2(&self) -> Value {
        let mut value = json!({
            "name": self.name,
            "in": self.place_word(),
            "type": self.ty,
            "uniqueItems": true,
            "description": self.description,
        });
        if self.place == ParameterLocation::Path {
            value["required"] = json!(true);
        }
        value
    }

    pub fn to_v3(&self) -> Value {
        let mut value = json!({
            "name": self.name,
            "in": self.place_word(),
            "description": self.description,
            "schema": { "type": self.ty, "uniqueItems": true },
        });
        if self.place == ParameterLocation::Path {
            value["required"] = json!(true);
        }
        value
    }

    fn place_word(&self) -> &'static str {
        match self.place {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
        }
    }
}
