// Generated from proto files by `cargo xtask codegen`. Do not edit.

use async_trait::async_trait;
use object::Status;
use transcode::call::Results;
use transcode::{Field, FieldKind, HttpRoute, Message, Method, Output, Payload, Raw, Reply, fields};

use crate::messages::*;

static LIST_WORKLOADS_RESPONSE: Message = Message { fields: &[
    Field { name: "workloads", json: "workloads", kind: FieldKind::Message(&WORKLOAD), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static WORKLOAD: Message = Message { fields: &[
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
    Field { name: "replicas", json: "replicas", kind: FieldKind::Integer, repeated: false },
    Field { name: "ready_replicas", json: "readyReplicas", kind: FieldKind::Integer, repeated: false },
    Field { name: "paused", json: "paused", kind: FieldKind::Bool, repeated: false },
    Field { name: "clusters", json: "clusters", kind: FieldKind::Message(&WORKLOAD_CLUSTER), repeated: true },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "policy", json: "policy", kind: FieldKind::Text, repeated: false },
] };

static WORKLOAD_CLUSTER: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "replicas", json: "replicas", kind: FieldKind::Integer, repeated: false },
    Field { name: "applied", json: "applied", kind: FieldKind::Bool, repeated: false },
    Field { name: "health", json: "health", kind: FieldKind::Text, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
] };

static SEARCH_RESPONSE: Message = Message { fields: &[
    Field { name: "items", json: "items", kind: FieldKind::Message(&SEARCH_RESULT), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "as_of", json: "asOf", kind: FieldKind::Message(&SOURCE_VERSION), repeated: true },
    Field { name: "unread", json: "unread", kind: FieldKind::Message(&UNREAD), repeated: true },
    Field { name: "facets", json: "facets", kind: FieldKind::Message(&FACET), repeated: true },
] };

static FACET: Message = Message { fields: &[
    Field { name: "field", json: "field", kind: FieldKind::Text, repeated: false },
    Field { name: "value", json: "value", kind: FieldKind::Text, repeated: false },
    Field { name: "count", json: "count", kind: FieldKind::Integer, repeated: false },
] };

static UNREAD: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "reason", json: "reason", kind: FieldKind::Text, repeated: false },
] };

static SOURCE_VERSION: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static SEARCH_RESULT: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "api_version", json: "apiVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "object", json: "object", kind: FieldKind::Other, repeated: false },
] };

static LIST_POLICIES_RESPONSE: Message = Message { fields: &[
    Field { name: "policies", json: "policies", kind: FieldKind::Message(&POLICY), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static POLICY: Message = Message { fields: &[
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "priority", json: "priority", kind: FieldKind::Integer, repeated: false },
    Field { name: "selectors", json: "selectors", kind: FieldKind::Integer, repeated: false },
    Field { name: "claims", json: "claims", kind: FieldKind::Integer, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
] };

static LIST_WEBHOOKS_RESPONSE: Message = Message { fields: &[
    Field { name: "webhooks", json: "webhooks", kind: FieldKind::Message(&WEBHOOK), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static WEBHOOK: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "url", json: "url", kind: FieldKind::Text, repeated: false },
    Field { name: "events", json: "events", kind: FieldKind::Text, repeated: true },
    Field { name: "secret_ref", json: "secretRef", kind: FieldKind::Message(&WEBHOOK_SECRET), repeated: false },
    Field { name: "disabled", json: "disabled", kind: FieldKind::Bool, repeated: false },
    Field { name: "ca_bundle", json: "caBundle", kind: FieldKind::Text, repeated: false },
    Field { name: "accepts_bindings", json: "acceptsBindings", kind: FieldKind::Bool, repeated: false },
    Field { name: "grants_platform_roles", json: "grantsPlatformRoles", kind: FieldKind::Bool, repeated: false },
] };

static WEBHOOK_SECRET: Message = Message { fields: &[
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "key", json: "key", kind: FieldKind::Text, repeated: false },
] };

static LIST_EVENTS_RESPONSE: Message = Message { fields: &[
    Field { name: "events", json: "events", kind: FieldKind::Message(&EVENT), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static EVENT: Message = Message { fields: &[
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "type", json: "type", kind: FieldKind::Text, repeated: false },
    Field { name: "reason", json: "reason", kind: FieldKind::Text, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
    Field { name: "source", json: "source", kind: FieldKind::Text, repeated: false },
    Field { name: "count", json: "count", kind: FieldKind::Integer, repeated: false },
    Field { name: "first_time", json: "firstTime", kind: FieldKind::Text, repeated: false },
    Field { name: "last_time", json: "lastTime", kind: FieldKind::Text, repeated: false },
] };

static LIST_JOINED_CLUSTERS_RESPONSE: Message = Message { fields: &[
    Field { name: "clusters", json: "clusters", kind: FieldKind::Message(&JOINED_CLUSTER), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static JOINED_CLUSTER: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "provider", json: "provider", kind: FieldKind::Text, repeated: false },
    Field { name: "region", json: "region", kind: FieldKind::Text, repeated: false },
    Field { name: "zone", json: "zone", kind: FieldKind::Text, repeated: false },
    Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
    Field { name: "taints", json: "taints", kind: FieldKind::Message(&TAINT), repeated: true },
    Field { name: "sync_mode", json: "syncMode", kind: FieldKind::Text, repeated: false },
    Field { name: "kubernetes_version", json: "kubernetesVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "ready", json: "ready", kind: FieldKind::Bool, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
    Field { name: "unschedulable", json: "unschedulable", kind: FieldKind::Bool, repeated: false },
    Field { name: "nodes", json: "nodes", kind: FieldKind::Message(&NUM_STATISTIC), repeated: false },
    Field { name: "allocatable", json: "allocatable", kind: FieldKind::Other, repeated: false },
    Field { name: "allocated", json: "allocated", kind: FieldKind::Other, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "removing", json: "removing", kind: FieldKind::Bool, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static NUM_STATISTIC: Message = Message { fields: &[
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "ready", json: "ready", kind: FieldKind::Integer, repeated: false },
] };

static TAINT: Message = Message { fields: &[
    Field { name: "key", json: "key", kind: FieldKind::Text, repeated: false },
    Field { name: "value", json: "value", kind: FieldKind::Text, repeated: false },
    Field { name: "effect", json: "effect", kind: FieldKind::Text, repeated: false },
] };

static LIST_MANAGED_CLUSTERS_RESPONSE: Message = Message { fields: &[
    Field { name: "clusters", json: "clusters", kind: FieldKind::Message(&MANAGED_CLUSTER), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static MANAGED_CLUSTER: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "display_name", json: "displayName", kind: FieldKind::Text, repeated: false },
    Field { name: "provider", json: "provider", kind: FieldKind::Text, repeated: false },
    Field { name: "region", json: "region", kind: FieldKind::Text, repeated: false },
    Field { name: "zone", json: "zone", kind: FieldKind::Text, repeated: false },
    Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
    Field { name: "instances", json: "instances", kind: FieldKind::Text, repeated: true },
    Field { name: "kubernetes_version", json: "kubernetesVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "system_id", json: "systemId", kind: FieldKind::Text, repeated: false },
    Field { name: "phase", json: "phase", kind: FieldKind::Text, repeated: false },
    Field { name: "conditions", json: "conditions", kind: FieldKind::Message(&CONDITION), repeated: true },
    Field { name: "joined_to", json: "joinedTo", kind: FieldKind::Message(&JOIN), repeated: true },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "mode", json: "mode", kind: FieldKind::Text, repeated: false },
] };

static JOIN: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
] };

static CONDITION: Message = Message { fields: &[
    Field { name: "type", json: "type", kind: FieldKind::Text, repeated: false },
    Field { name: "status", json: "status", kind: FieldKind::Text, repeated: false },
    Field { name: "reason", json: "reason", kind: FieldKind::Text, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
    Field { name: "last_transition_time", json: "lastTransitionTime", kind: FieldKind::Text, repeated: false },
] };

static LIST_INSTANCES_RESPONSE: Message = Message { fields: &[
    Field { name: "instances", json: "instances", kind: FieldKind::Message(&INSTANCE), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static INSTANCE: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "display_name", json: "displayName", kind: FieldKind::Text, repeated: false },
    Field { name: "description", json: "description", kind: FieldKind::Text, repeated: false },
    Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
    Field { name: "annotations", json: "annotations", kind: FieldKind::Other, repeated: false },
    Field { name: "mode", json: "mode", kind: FieldKind::Text, repeated: false },
    Field { name: "state", json: "state", kind: FieldKind::Text, repeated: false },
    Field { name: "phase", json: "phase", kind: FieldKind::Text, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
    Field { name: "suspended", json: "suspended", kind: FieldKind::Bool, repeated: false },
    Field { name: "protected", json: "protected", kind: FieldKind::Bool, repeated: false },
    Field { name: "hibernate_after", json: "hibernateAfter", kind: FieldKind::Text, repeated: false },
    Field { name: "expose", json: "expose", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "start_time", json: "startTime", kind: FieldKind::Text, repeated: false },
    Field { name: "karmada_version", json: "karmadaVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kubernetes_version", json: "kubernetesVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "endpoint", json: "endpoint", kind: FieldKind::Text, repeated: false },
    Field { name: "summary", json: "summary", kind: FieldKind::Message(&SUMMARY), repeated: false },
    Field { name: "conditions", json: "conditions", kind: FieldKind::Message(&CONDITION), repeated: true },
    Field { name: "role", json: "role", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace_roles", json: "namespaceRoles", kind: FieldKind::Other, repeated: false },
    Field { name: "reduced", json: "reduced", kind: FieldKind::Bool, repeated: false },
    Field { name: "spec", json: "spec", kind: FieldKind::Other, repeated: false },
] };

static SUMMARY: Message = Message { fields: &[
    Field { name: "clusters", json: "clusters", kind: FieldKind::Message(&NUM_STATISTIC), repeated: false },
    Field { name: "nodes", json: "nodes", kind: FieldKind::Message(&NUM_STATISTIC), repeated: false },
    Field { name: "resources", json: "resources", kind: FieldKind::Other, repeated: false },
    Field { name: "workloads", json: "workloads", kind: FieldKind::Other, repeated: false },
    Field { name: "policies", json: "policies", kind: FieldKind::Integer, repeated: false },
    Field { name: "bindings", json: "bindings", kind: FieldKind::Message(&NUM_STATISTIC), repeated: false },
    Field { name: "works", json: "works", kind: FieldKind::Message(&NUM_STATISTIC), repeated: false },
    Field { name: "allocatable", json: "allocatable", kind: FieldKind::Other, repeated: false },
    Field { name: "allocated", json: "allocated", kind: FieldKind::Other, repeated: false },
] };

static LIST_AUDIT_ENTRIES_RESPONSE: Message = Message { fields: &[
    Field { name: "entries", json: "entries", kind: FieldKind::Message(&AUDIT_ENTRY), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "kept", json: "kept", kind: FieldKind::Integer, repeated: false },
] };

static AUDIT_ENTRY: Message = Message { fields: &[
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "time", json: "time", kind: FieldKind::Text, repeated: false },
    Field { name: "user", json: "user", kind: FieldKind::Text, repeated: false },
    Field { name: "groups", json: "groups", kind: FieldKind::Text, repeated: true },
    Field { name: "source", json: "source", kind: FieldKind::Text, repeated: false },
    Field { name: "action", json: "action", kind: FieldKind::Text, repeated: false },
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "code", json: "code", kind: FieldKind::Integer, repeated: false },
    Field { name: "message", json: "message", kind: FieldKind::Text, repeated: false },
    Field { name: "milliseconds", json: "milliseconds", kind: FieldKind::Integer, repeated: false },
] };

static LIST_FOLDERS_RESPONSE: Message = Message { fields: &[
    Field { name: "folders", json: "folders", kind: FieldKind::Message(&FOLDER), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static FOLDER: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "parent", json: "parent", kind: FieldKind::Text, repeated: false },
] };

static LIST_WORKSPACES_RESPONSE: Message = Message { fields: &[
    Field { name: "workspaces", json: "workspaces", kind: FieldKind::Message(&WORKSPACE), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static WORKSPACE: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "folder", json: "folder", kind: FieldKind::Text, repeated: false },
    Field { name: "instances", json: "instances", kind: FieldKind::Text, repeated: true },
    Field { name: "namespaces", json: "namespaces", kind: FieldKind::Message(&WORKSPACE_NAMESPACE), repeated: true },
] };

static WORKSPACE_NAMESPACE: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
] };

static LIST_BINDINGS_RESPONSE: Message = Message { fields: &[
    Field { name: "bindings", json: "bindings", kind: FieldKind::Message(&BINDING), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static BINDING: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "subject", json: "subject", kind: FieldKind::Message(&SUBJECT), repeated: false },
    Field { name: "role", json: "role", kind: FieldKind::Text, repeated: false },
    Field { name: "target", json: "target", kind: FieldKind::Message(&TARGET), repeated: false },
    Field { name: "expires_at", json: "expiresAt", kind: FieldKind::Text, repeated: false },
] };

static TARGET: Message = Message { fields: &[
    Field { name: "folder", json: "folder", kind: FieldKind::Text, repeated: false },
    Field { name: "workspace", json: "workspace", kind: FieldKind::Text, repeated: false },
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
] };

static SUBJECT: Message = Message { fields: &[
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_ROLES_RESPONSE: Message = Message { fields: &[
    Field { name: "roles", json: "roles", kind: FieldKind::Message(&ROLE), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static ROLE: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "grants", json: "grants", kind: FieldKind::Text, repeated: false },
] };

static LIST_GROUPS_RESPONSE: Message = Message { fields: &[
    Field { name: "groups", json: "groups", kind: FieldKind::Message(&GROUP), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static GROUP: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "members", json: "members", kind: FieldKind::Text, repeated: true },
] };

static LIST_USERS_RESPONSE: Message = Message { fields: &[
    Field { name: "users", json: "users", kind: FieldKind::Message(&USER), repeated: true },
    Field { name: "next_page_token", json: "nextPageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "total", json: "total", kind: FieldKind::Integer, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
] };

static USER: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "uid", json: "uid", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "create_time", json: "createTime", kind: FieldKind::Text, repeated: false },
    Field { name: "display_name", json: "displayName", kind: FieldKind::Text, repeated: false },
    Field { name: "emails", json: "emails", kind: FieldKind::Text, repeated: true },
    Field { name: "disabled", json: "disabled", kind: FieldKind::Bool, repeated: false },
] };

static ROLLBACK_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "revision", json: "revision", kind: FieldKind::Integer, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static PROMOTE_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "skip_dependencies", json: "skipDependencies", kind: FieldKind::Bool, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static PREVIEW_PROMOTION_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "skip_dependencies", json: "skipDependencies", kind: FieldKind::Bool, repeated: false },
] };

static LIST_PROMOTABLE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
] };

static SCALE_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "replicas", json: "replicas", kind: FieldKind::Integer, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static RESUME_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static PAUSE_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static RESTART_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static LIST_WORKLOAD_PODS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_WORKLOAD_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static LIST_WORKLOADS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
] };

static FINISH_OIDC_REQUEST: Message = Message { fields: &[
    Field { name: "attempt", json: "attempt", kind: FieldKind::Text, repeated: false },
    Field { name: "code", json: "code", kind: FieldKind::Text, repeated: false },
    Field { name: "state", json: "state", kind: FieldKind::Text, repeated: false },
    Field { name: "redirect_uri", json: "redirectUri", kind: FieldKind::Text, repeated: false },
] };

static START_OIDC_REQUEST: Message = Message { fields: &[
    Field { name: "redirect_uri", json: "redirectUri", kind: FieldKind::Text, repeated: false },
] };

static REVOKE_SESSION_REQUEST: Message = Message { fields: &[
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "user", json: "user", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_SESSIONS_REQUEST: Message = Message { fields: &[
    Field { name: "user", json: "user", kind: FieldKind::Text, repeated: false },
] };

static LOGOUT_REQUEST: Message = Message { fields: &[
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static REVOKE_ACCESS_TOKEN_REQUEST: Message = Message { fields: &[
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_ACCESS_TOKENS_REQUEST: Message = Message { fields: &[
] };

static CREATE_ACCESS_TOKEN_REQUEST: Message = Message { fields: &[
    Field { name: "expiration_seconds", json: "expirationSeconds", kind: FieldKind::Integer, repeated: false },
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CHANGE_PASSWORD_REQUEST: Message = Message { fields: &[
    Field { name: "old_password", json: "oldPassword", kind: FieldKind::Text, repeated: false },
    Field { name: "new_password", json: "newPassword", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static WHO_AM_I_REQUEST: Message = Message { fields: &[
] };

static LOGIN_REQUEST: Message = Message { fields: &[
    Field { name: "user", json: "user", kind: FieldKind::Text, repeated: false },
    Field { name: "password", json: "password", kind: FieldKind::Text, repeated: false },
] };

static GET_LOGIN_OPTIONS_REQUEST: Message = Message { fields: &[
] };

static GET_COLLECTION_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "query", json: "query", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "include_objects", json: "includeObjects", kind: FieldKind::Bool, repeated: false },
    Field { name: "clusters", json: "clusters", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: true },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
] };

static LIST_COLLECTIONS_REQUEST: Message = Message { fields: &[
] };

static SEARCH_REQUEST: Message = Message { fields: &[
    Field { name: "query", json: "query", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "include_objects", json: "includeObjects", kind: FieldKind::Bool, repeated: false },
    Field { name: "clusters", json: "clusters", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: true },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
] };

static LIST_SOURCES_REQUEST: Message = Message { fields: &[
] };

static SUGGEST_REQUEST: Message = Message { fields: &[
    Field { name: "text", json: "text", kind: FieldKind::Text, repeated: false },
    Field { name: "limit", json: "limit", kind: FieldKind::Integer, repeated: false },
] };

static REVEAL_SECRET_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static BATCH_APPLY_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "manifests", json: "manifests", kind: FieldKind::Raw, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "force", json: "force", kind: FieldKind::Bool, repeated: false },
] };

static DELETE_RESOURCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "propagation_policy", json: "propagationPolicy", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static PATCH_RESOURCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "patch", json: "patch", kind: FieldKind::Raw, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "force", json: "force", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_RESOURCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "object", json: "object", kind: FieldKind::Raw, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static CREATE_RESOURCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "object", json: "object", kind: FieldKind::Raw, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static GET_RESOURCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static WATCH_RESOURCES_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "label_selector", json: "labelSelector", kind: FieldKind::Text, repeated: false },
    Field { name: "field_selector", json: "fieldSelector", kind: FieldKind::Text, repeated: false },
    Field { name: "resource_version", json: "resourceVersion", kind: FieldKind::Text, repeated: false },
] };

static LIST_RESOURCES_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "group", json: "group", kind: FieldKind::Text, repeated: false },
    Field { name: "version", json: "version", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "label_selector", json: "labelSelector", kind: FieldKind::Text, repeated: false },
    Field { name: "field_selector", json: "fieldSelector", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static LIST_KINDS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static PREVIEW_POLICY_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "policy", json: "policy", kind: FieldKind::Raw, repeated: false },
] };

static MATCH_POLICIES_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "api_version", json: "apiVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_POLICY_USAGE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_POLICIES_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static QUERY_PROMETHEUS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "query", json: "query", kind: FieldKind::Text, repeated: false },
    Field { name: "time", json: "time", kind: FieldKind::Text, repeated: false },
    Field { name: "start", json: "start", kind: FieldKind::Text, repeated: false },
    Field { name: "end", json: "end", kind: FieldKind::Text, repeated: false },
    Field { name: "step", json: "step", kind: FieldKind::Text, repeated: false },
] };

static SCRAPE_METRICS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
] };

static QUERY_SAMPLES_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "series", json: "series", kind: FieldKind::Text, repeated: true },
    Field { name: "seconds", json: "seconds", kind: FieldKind::Integer, repeated: false },
] };

static LIST_SERIES_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static REDELIVER_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_DELIVERIES_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static ACCESS_DELETE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static UPDATE_WEBHOOK_REQUEST: Message = Message { fields: &[
    Field { name: "webhook", json: "webhook", kind: FieldKind::Message(&WEBHOOK), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_WEBHOOK_REQUEST: Message = Message { fields: &[
    Field { name: "webhook", json: "webhook", kind: FieldKind::Message(&WEBHOOK), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static ACCESS_GET_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static ACCESS_LIST_REQUEST: Message = Message { fields: &[
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static PUSH_BINDINGS_REQUEST: Message = Message { fields: &[
    Field { name: "source", json: "source", kind: FieldKind::Text, repeated: false },
    Field { name: "sequence", json: "sequence", kind: FieldKind::Integer, repeated: false },
    Field { name: "full", json: "full", kind: FieldKind::Bool, repeated: false },
    Field { name: "add", json: "add", kind: FieldKind::Message(&PUSHED_BINDING), repeated: true },
    Field { name: "remove", json: "remove", kind: FieldKind::Message(&PUSHED_BINDING), repeated: true },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static PUSHED_BINDING: Message = Message { fields: &[
    Field { name: "subject", json: "subject", kind: FieldKind::Message(&SUBJECT), repeated: false },
    Field { name: "role", json: "role", kind: FieldKind::Text, repeated: false },
    Field { name: "target", json: "target", kind: FieldKind::Message(&TARGET), repeated: false },
] };

static WATCH_REGISTRATIONS_REQUEST: Message = Message { fields: &[
] };

static LIST_REGISTRATIONS_REQUEST: Message = Message { fields: &[
] };

static GET_GRAPH_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "api_version", json: "apiVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_HISTORY_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "resource", json: "resource", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static WATCH_TIMELINE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "api_version", json: "apiVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_TIMELINE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "api_version", json: "apiVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_TOPOLOGY_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static SIMULATE_FAILOVER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
] };

static PLAN_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "manifests", json: "manifests", kind: FieldKind::Raw, repeated: false },
] };

static WHY_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "api_version", json: "apiVersion", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_EVENT_KINDS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static WATCH_EVENTS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
] };

static LIST_EVENTS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "namespace", json: "namespace", kind: FieldKind::Text, repeated: false },
    Field { name: "kind", json: "kind", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "type", json: "type", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static APPROVE_AGENT_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_PENDING_AGENTS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static DELETE_REGISTRATION_TOKEN_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_REGISTRATION_TOKENS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static CREATE_REGISTRATION_TOKEN_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Text, repeated: false },
    Field { name: "expiration_seconds", json: "expirationSeconds", kind: FieldKind::Integer, repeated: false },
    Field { name: "description", json: "description", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static WATCH_JOINED_CLUSTERS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static ROTATE_CREDENTIALS_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static WATCH_MANAGED_CLUSTERS_REQUEST: Message = Message { fields: &[
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
] };

static LIST_CLUSTER_LABELS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static LIST_LOCATIONS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static SET_LABELS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "labels", json: "labels", kind: FieldKind::Other, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static SET_TAINTS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "taints", json: "taints", kind: FieldKind::Message(&TAINT), repeated: true },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static UNCORDON_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static CORDON_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static REMOVE_JOINED_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "confirm_name", json: "confirmName", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static PREVIEW_REMOVAL_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_JOINED_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster", json: "cluster", kind: FieldKind::Message(&JOINED_CLUSTER), repeated: false },
    Field { name: "update_mask", json: "updateMask", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static JOIN_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static GET_JOINED_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_JOINED_CLUSTERS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
] };

static GET_CREDENTIAL_STATE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static PUT_CREDENTIALS_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "kubeconfig", json: "kubeconfig", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static DELETE_MANAGED_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "confirm_name", json: "confirmName", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_MANAGED_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "cluster", json: "cluster", kind: FieldKind::Message(&MANAGED_CLUSTER), repeated: false },
    Field { name: "update_mask", json: "updateMask", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static VALIDATE_KUBECONFIG_REQUEST: Message = Message { fields: &[
    Field { name: "kubeconfig", json: "kubeconfig", kind: FieldKind::Text, repeated: false },
] };

static REGISTER_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "cluster", json: "cluster", kind: FieldKind::Message(&MANAGED_CLUSTER), repeated: false },
    Field { name: "kubeconfig", json: "kubeconfig", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static GET_MANAGED_CLUSTER_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_MANAGED_CLUSTERS_REQUEST: Message = Message { fields: &[
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static CONFIRM_RESTORE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static RESTORE_BACKUP_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "new_name", json: "newName", kind: FieldKind::Text, repeated: false },
    Field { name: "confirm_name", json: "confirmName", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static DELETE_BACKUP_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static DOWNLOAD_BACKUP_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
] };

static LIST_BACKUPS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static CREATE_BACKUP_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static DIAGNOSE_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static LIST_COMPONENTS_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static REVOKE_KUBECONFIG_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_KUBECONFIGS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static CREATE_KUBECONFIG_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "expiration_seconds", json: "expirationSeconds", kind: FieldKind::Integer, repeated: false },
    Field { name: "address", json: "address", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static UPDATE_SETTINGS_REQUEST: Message = Message { fields: &[
    Field { name: "settings", json: "settings", kind: FieldKind::Message(&SETTINGS), repeated: false },
    Field { name: "update_mask", json: "updateMask", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static SETTINGS: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "failover", json: "failover", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster_monitor_period", json: "clusterMonitorPeriod", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster_monitor_grace_period", json: "clusterMonitorGracePeriod", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster_startup_grace_period", json: "clusterStartupGracePeriod", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster_failure_threshold", json: "clusterFailureThreshold", kind: FieldKind::Text, repeated: false },
    Field { name: "cluster_success_threshold", json: "clusterSuccessThreshold", kind: FieldKind::Text, repeated: false },
    Field { name: "graceful_eviction_timeout", json: "gracefulEvictionTimeout", kind: FieldKind::Text, repeated: false },
    Field { name: "resource_eviction_rate", json: "resourceEvictionRate", kind: FieldKind::Text, repeated: false },
    Field { name: "descheduler", json: "descheduler", kind: FieldKind::Bool, repeated: false },
    Field { name: "descheduling_interval", json: "deschedulingInterval", kind: FieldKind::Text, repeated: false },
    Field { name: "unschedulable_threshold", json: "unschedulableThreshold", kind: FieldKind::Text, repeated: false },
] };

static GET_SETTINGS_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_OVERVIEW_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_SERVER_CONFIG_REQUEST: Message = Message { fields: &[
] };

static WAKE_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static HIBERNATE_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static RESTART_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static RESUME_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static SUSPEND_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static PREVIEW_DELETION_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static DELETE_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "confirm_name", json: "confirmName", kind: FieldKind::Text, repeated: false },
    Field { name: "keep", json: "keep", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "force", json: "force", kind: FieldKind::Bool, repeated: false },
] };

static APPLY_INSTANCE_MANIFEST_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "manifest", json: "manifest", kind: FieldKind::Raw, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static UPDATE_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Message(&INSTANCE), repeated: false },
    Field { name: "update_mask", json: "updateMask", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static VALIDATE_IMPORT_REQUEST: Message = Message { fields: &[
    Field { name: "kubeconfig", json: "kubeconfig", kind: FieldKind::Text, repeated: false },
] };

static IMPORT_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "kubeconfig", json: "kubeconfig", kind: FieldKind::Text, repeated: false },
    Field { name: "display_name", json: "displayName", kind: FieldKind::Text, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Message(&INSTANCE), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
    Field { name: "wait", json: "wait", kind: FieldKind::Bool, repeated: false },
] };

static GET_INSTANCE_MANIFEST_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
] };

static GET_INSTANCE_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static WATCH_INSTANCES_REQUEST: Message = Message { fields: &[
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
] };

static LIST_INSTANCES_REQUEST: Message = Message { fields: &[
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "filter", json: "filter", kind: FieldKind::Text, repeated: false },
    Field { name: "order_by", json: "orderBy", kind: FieldKind::Text, repeated: false },
    Field { name: "page", json: "page", kind: FieldKind::Integer, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
    Field { name: "at_least", json: "atLeast", kind: FieldKind::Text, repeated: false },
] };

static LIST_AUDIT_ENTRIES_REQUEST: Message = Message { fields: &[
    Field { name: "user", json: "user", kind: FieldKind::Text, repeated: false },
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
    Field { name: "contains", json: "contains", kind: FieldKind::Text, repeated: false },
    Field { name: "refused", json: "refused", kind: FieldKind::Bool, repeated: false },
    Field { name: "page_size", json: "pageSize", kind: FieldKind::Integer, repeated: false },
    Field { name: "page_token", json: "pageToken", kind: FieldKind::Text, repeated: false },
    Field { name: "fields", json: "fields", kind: FieldKind::Text, repeated: false },
    Field { name: "include_total", json: "includeTotal", kind: FieldKind::Bool, repeated: false },
] };

static GET_AUDIT_ENTRY_REQUEST: Message = Message { fields: &[
    Field { name: "id", json: "id", kind: FieldKind::Text, repeated: false },
] };

static LIST_WORKSPACE_RESOURCES_REQUEST: Message = Message { fields: &[
    Field { name: "workspace", json: "workspace", kind: FieldKind::Text, repeated: false },
] };

static LIST_MY_PERMISSIONS_REQUEST: Message = Message { fields: &[
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_BINDING_REQUEST: Message = Message { fields: &[
    Field { name: "binding", json: "binding", kind: FieldKind::Message(&BINDING), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static LIST_PERMISSIONS_REQUEST: Message = Message { fields: &[
] };

static CHECK_PERMISSION_REQUEST: Message = Message { fields: &[
    Field { name: "permission", json: "permission", kind: FieldKind::Text, repeated: false },
    Field { name: "instance", json: "instance", kind: FieldKind::Text, repeated: false },
] };

static UNBIND_RESOURCES_REQUEST: Message = Message { fields: &[
    Field { name: "workspace", json: "workspace", kind: FieldKind::Text, repeated: false },
    Field { name: "instances", json: "instances", kind: FieldKind::Text, repeated: true },
    Field { name: "namespaces", json: "namespaces", kind: FieldKind::Message(&WORKSPACE_NAMESPACE), repeated: true },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static BIND_RESOURCES_REQUEST: Message = Message { fields: &[
    Field { name: "workspace", json: "workspace", kind: FieldKind::Text, repeated: false },
    Field { name: "instances", json: "instances", kind: FieldKind::Text, repeated: true },
    Field { name: "namespaces", json: "namespaces", kind: FieldKind::Message(&WORKSPACE_NAMESPACE), repeated: true },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "etag", json: "etag", kind: FieldKind::Text, repeated: false },
] };

static SET_PASSWORD_REQUEST: Message = Message { fields: &[
    Field { name: "name", json: "name", kind: FieldKind::Text, repeated: false },
    Field { name: "password", json: "password", kind: FieldKind::Text, repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static UPDATE_FOLDER_REQUEST: Message = Message { fields: &[
    Field { name: "folder", json: "folder", kind: FieldKind::Message(&FOLDER), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_FOLDER_REQUEST: Message = Message { fields: &[
    Field { name: "folder", json: "folder", kind: FieldKind::Message(&FOLDER), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_WORKSPACE_REQUEST: Message = Message { fields: &[
    Field { name: "workspace", json: "workspace", kind: FieldKind::Message(&WORKSPACE), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_WORKSPACE_REQUEST: Message = Message { fields: &[
    Field { name: "workspace", json: "workspace", kind: FieldKind::Message(&WORKSPACE), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static CREATE_BINDING_REQUEST: Message = Message { fields: &[
    Field { name: "binding", json: "binding", kind: FieldKind::Message(&BINDING), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_ROLE_REQUEST: Message = Message { fields: &[
    Field { name: "role", json: "role", kind: FieldKind::Message(&ROLE), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_ROLE_REQUEST: Message = Message { fields: &[
    Field { name: "role", json: "role", kind: FieldKind::Message(&ROLE), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_GROUP_REQUEST: Message = Message { fields: &[
    Field { name: "group", json: "group", kind: FieldKind::Message(&GROUP), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_GROUP_REQUEST: Message = Message { fields: &[
    Field { name: "group", json: "group", kind: FieldKind::Message(&GROUP), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

static UPDATE_USER_REQUEST: Message = Message { fields: &[
    Field { name: "user", json: "user", kind: FieldKind::Message(&USER), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
] };

static CREATE_USER_REQUEST: Message = Message { fields: &[
    Field { name: "user", json: "user", kind: FieldKind::Message(&USER), repeated: false },
    Field { name: "validate_only", json: "validateOnly", kind: FieldKind::Bool, repeated: false },
    Field { name: "request_id", json: "requestId", kind: FieldKind::Text, repeated: false },
] };

/// Every RPC.
pub static METHODS: &[Method] = &[
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListUsers",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/users", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_USERS_RESPONSE),
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "GetUser",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/users/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CreateUser",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/users", body: "user" },
        ],
        request: &CREATE_USER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UpdateUser",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/users/{user.name}", body: "user" },
        ],
        request: &UPDATE_USER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "DeleteUser",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/users/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListGroups",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/groups", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_GROUPS_RESPONSE),
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "GetGroup",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/groups/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CreateGroup",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/groups", body: "group" },
        ],
        request: &CREATE_GROUP_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UpdateGroup",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/groups/{group.name}", body: "group" },
        ],
        request: &UPDATE_GROUP_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "DeleteGroup",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/groups/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListRoles",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/roles", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_ROLES_RESPONSE),
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "GetRole",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/roles/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CreateRole",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/roles", body: "role" },
        ],
        request: &CREATE_ROLE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UpdateRole",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/roles/{role.name}", body: "role" },
        ],
        request: &UPDATE_ROLE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "DeleteRole",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/roles/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListBindings",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/bindings", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_BINDINGS_RESPONSE),
        output: Output::Message,
        permission: "bindings.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "GetBinding",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/bindings/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "bindings.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CreateBinding",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/bindings", body: "binding" },
        ],
        request: &CREATE_BINDING_REQUEST,
        response: None,
        output: Output::Message,
        permission: "bindings.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "DeleteBinding",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/bindings/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "bindings.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListWorkspaces",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/workspaces", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_WORKSPACES_RESPONSE),
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "GetWorkspace",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/workspaces/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CreateWorkspace",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/workspaces", body: "workspace" },
        ],
        request: &CREATE_WORKSPACE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UpdateWorkspace",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/workspaces/{workspace.name}", body: "workspace" },
        ],
        request: &UPDATE_WORKSPACE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "DeleteWorkspace",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/workspaces/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListFolders",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/folders", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_FOLDERS_RESPONSE),
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "GetFolder",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/folders/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CreateFolder",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/folders", body: "folder" },
        ],
        request: &CREATE_FOLDER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UpdateFolder",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/folders/{folder.name}", body: "folder" },
        ],
        request: &UPDATE_FOLDER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "DeleteFolder",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/folders/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "SetPassword",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/users/{name}:setPassword", body: "*" },
        ],
        request: &SET_PASSWORD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "BindResources",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/workspaces/{workspace}:bind", body: "*" },
        ],
        request: &BIND_RESOURCES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UnbindResources",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/workspaces/{workspace}:unbind", body: "*" },
        ],
        request: &UNBIND_RESOURCES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "CheckPermission",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/permissions:check", body: "*" },
        ],
        request: &CHECK_PERMISSION_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListPermissions",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/permissions", body: "" },
        ],
        request: &LIST_PERMISSIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "UpdateBinding",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/bindings/{binding.name}", body: "binding" },
        ],
        request: &UPDATE_BINDING_REQUEST,
        response: None,
        output: Output::Message,
        permission: "bindings.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListMyPermissions",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/permissions:mine", body: "" },
        ],
        request: &LIST_MY_PERMISSIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AccessService",
        name: "ListWorkspaceResources",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/workspaces/{workspace}/resources", body: "" },
        ],
        request: &LIST_WORKSPACE_RESOURCES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "iam.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AuditService",
        name: "ListAuditEntries",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/audit", body: "" },
        ],
        request: &LIST_AUDIT_ENTRIES_REQUEST,
        response: Some(&LIST_AUDIT_ENTRIES_RESPONSE),
        output: Output::Message,
        permission: "audit.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AuditService",
        name: "GetAuditEntry",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/audit/{id}", body: "" },
        ],
        request: &GET_AUDIT_ENTRY_REQUEST,
        response: None,
        output: Output::Message,
        permission: "audit.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.AuditService",
        name: "ExportAuditEntries",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/audit:export", body: "" },
        ],
        request: &LIST_AUDIT_ENTRIES_REQUEST,
        response: None,
        output: Output::RawStream,
        permission: "audit.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ListInstances",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances", body: "" },
        ],
        request: &LIST_INSTANCES_REQUEST,
        response: Some(&LIST_INSTANCES_RESPONSE),
        output: Output::Message,
        permission: "instances.list",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "WatchInstances",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances:watch", body: "" },
        ],
        request: &WATCH_INSTANCES_REQUEST,
        response: None,
        output: Output::Stream,
        permission: "instances.list",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "GetInstance",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{name}", body: "" },
        ],
        request: &GET_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.get",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "GetInstanceManifest",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}/manifest", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{name}/json", body: "" },
        ],
        request: &GET_INSTANCE_MANIFEST_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "CreateInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances", body: "instance" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances", body: "instance" },
        ],
        request: &CREATE_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.create",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ImportInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances:import", body: "*" },
        ],
        request: &IMPORT_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.create",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ValidateImport",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances:validateImport", body: "*" },
        ],
        request: &VALIDATE_IMPORT_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.create",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "UpdateInstance",
        routes: &[
        HttpRoute { verb: "PATCH", template: "/flotilla/manager/v1alpha1/instances/{instance.name}", body: "instance" },
        HttpRoute { verb: "PUT", template: "/apis/kairship.io/v1alpha1/instances/{instance.name}", body: "instance" },
        ],
        request: &UPDATE_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ApplyInstanceManifest",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/instances/{name}/manifest", body: "manifest" },
        ],
        request: &APPLY_INSTANCE_MANIFEST_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "DeleteInstance",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{name}", body: "" },
        HttpRoute { verb: "DELETE", template: "/apis/kairship.io/v1alpha1/instances/{name}", body: "" },
        ],
        request: &DELETE_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.delete",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "PreviewDeletion",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}:previewDeletion", body: "" },
        ],
        request: &PREVIEW_DELETION_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.delete",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "SuspendInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{name}:suspend", body: "*" },
        ],
        request: &SUSPEND_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ResumeInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{name}:resume", body: "*" },
        ],
        request: &RESUME_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "RestartInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{name}:restart", body: "*" },
        ],
        request: &RESTART_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "HibernateInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{name}:hibernate", body: "*" },
        ],
        request: &HIBERNATE_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "WakeInstance",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{name}:wake", body: "*" },
        ],
        request: &WAKE_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.use",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "GetServerConfig",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/config", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/config", body: "" },
        ],
        request: &GET_SERVER_CONFIG_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "GetOverview",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}/overview", body: "" },
        ],
        request: &GET_OVERVIEW_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.use",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "GetSettings",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}/settings", body: "" },
        ],
        request: &GET_SETTINGS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "UpdateSettings",
        routes: &[
        HttpRoute { verb: "PATCH", template: "/flotilla/manager/v1alpha1/instances/{settings.name}/settings", body: "settings" },
        ],
        request: &UPDATE_SETTINGS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "CreateKubeconfig",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/kubeconfigs", body: "*" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances/{instance}/kubeconfig", body: "*" },
        ],
        request: &CREATE_KUBECONFIG_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.use",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ListKubeconfigs",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/kubeconfigs", body: "" },
        ],
        request: &LIST_KUBECONFIGS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.use",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "RevokeKubeconfig",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{instance}/kubeconfigs/{id}", body: "" },
        ],
        request: &REVOKE_KUBECONFIG_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.use",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "ListComponents",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}/components", body: "" },
        ],
        request: &LIST_COMPONENTS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.InstanceService",
        name: "DiagnoseInstance",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{name}/diagnosis", body: "" },
        ],
        request: &DIAGNOSE_INSTANCE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.BackupService",
        name: "CreateBackup",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/backups", body: "*" },
        ],
        request: &CREATE_BACKUP_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.BackupService",
        name: "ListBackups",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/backups", body: "" },
        ],
        request: &LIST_BACKUPS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.BackupService",
        name: "DownloadBackup",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/backups/{id}:export", body: "" },
        ],
        request: &DOWNLOAD_BACKUP_REQUEST,
        response: None,
        output: Output::RawStream,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.BackupService",
        name: "DeleteBackup",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{instance}/backups/{id}", body: "" },
        ],
        request: &DELETE_BACKUP_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.BackupService",
        name: "RestoreBackup",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/backups/{id}:restore", body: "*" },
        ],
        request: &RESTORE_BACKUP_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.BackupService",
        name: "ConfirmRestore",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}:confirmRestore", body: "*" },
        ],
        request: &CONFIRM_RESTORE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ListManagedClusters",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/clusters", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/kpanda-clusters", body: "" },
        ],
        request: &LIST_MANAGED_CLUSTERS_REQUEST,
        response: Some(&LIST_MANAGED_CLUSTERS_RESPONSE),
        output: Output::Message,
        permission: "inventory.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "GetManagedCluster",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/clusters/{name}", body: "" },
        ],
        request: &GET_MANAGED_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "RegisterCluster",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/clusters", body: "*" },
        ],
        request: &REGISTER_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ValidateKubeconfig",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/clusters:validate", body: "*" },
        ],
        request: &VALIDATE_KUBECONFIG_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "UpdateManagedCluster",
        routes: &[
        HttpRoute { verb: "PATCH", template: "/flotilla/manager/v1alpha1/clusters/{cluster.name}", body: "cluster" },
        ],
        request: &UPDATE_MANAGED_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "DeleteManagedCluster",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/clusters/{name}", body: "" },
        ],
        request: &DELETE_MANAGED_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "PutCredentials",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/clusters/{name}/credentials", body: "*" },
        ],
        request: &PUT_CREDENTIALS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "GetCredentialState",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/clusters/{name}/credentials", body: "" },
        ],
        request: &GET_CREDENTIAL_STATE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ListJoinedClusters",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters", body: "" },
        ],
        request: &LIST_JOINED_CLUSTERS_REQUEST,
        response: Some(&LIST_JOINED_CLUSTERS_RESPONSE),
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "GetJoinedCluster",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters/{name}", body: "" },
        ],
        request: &GET_JOINED_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "JoinCluster",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}:join", body: "*" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters/{name}", body: "*" },
        ],
        request: &JOIN_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "UpdateJoinedCluster",
        routes: &[
        HttpRoute { verb: "PATCH", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{cluster.name}", body: "cluster" },
        HttpRoute { verb: "PUT", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters/{cluster.name}", body: "cluster" },
        ],
        request: &UPDATE_JOINED_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "PreviewRemoval",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}:previewRemoval", body: "" },
        ],
        request: &PREVIEW_REMOVAL_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "RemoveJoinedCluster",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}", body: "" },
        HttpRoute { verb: "DELETE", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters/{name}", body: "" },
        ],
        request: &REMOVE_JOINED_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "CordonCluster",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}:cordon", body: "*" },
        ],
        request: &CORDON_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "UncordonCluster",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}:uncordon", body: "*" },
        ],
        request: &UNCORDON_CLUSTER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "SetTaints",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}/taints", body: "*" },
        ],
        request: &SET_TAINTS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "SetLabels",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters/{name}/labels", body: "*" },
        ],
        request: &SET_LABELS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ListLocations",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters-locations", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters-locations", body: "" },
        ],
        request: &LIST_LOCATIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ListClusterLabels",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters-labels", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{instance}/clusters-labels", body: "" },
        ],
        request: &LIST_CLUSTER_LABELS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "WatchManagedClusters",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/clusters:watch", body: "" },
        ],
        request: &WATCH_MANAGED_CLUSTERS_REQUEST,
        response: None,
        output: Output::Stream,
        permission: "inventory.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "RotateCredentials",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/clusters/{name}:rotateCredentials", body: "*" },
        ],
        request: &ROTATE_CREDENTIALS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "inventory.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "WatchJoinedClusters",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/clusters:watch", body: "" },
        ],
        request: &WATCH_JOINED_CLUSTERS_REQUEST,
        response: None,
        output: Output::Stream,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "CreateRegistrationToken",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/registration-tokens", body: "*" },
        ],
        request: &CREATE_REGISTRATION_TOKEN_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ListRegistrationTokens",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/registration-tokens", body: "" },
        ],
        request: &LIST_REGISTRATION_TOKENS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "DeleteRegistrationToken",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{instance}/registration-tokens/{id}", body: "" },
        ],
        request: &DELETE_REGISTRATION_TOKEN_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ListPendingAgents",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/agents:pending", body: "" },
        ],
        request: &LIST_PENDING_AGENTS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ClusterService",
        name: "ApproveAgent",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/agents/{name}:approve", body: "*" },
        ],
        request: &APPROVE_AGENT_REQUEST,
        response: None,
        output: Output::Message,
        permission: "clusters.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.EventService",
        name: "ListEvents",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/events", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{instance}/events", body: "" },
        ],
        request: &LIST_EVENTS_REQUEST,
        response: Some(&LIST_EVENTS_RESPONSE),
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.EventService",
        name: "WatchEvents",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/events:watch", body: "" },
        ],
        request: &WATCH_EVENTS_REQUEST,
        response: None,
        output: Output::Stream,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.EventService",
        name: "ListEventKinds",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/events/kinds", body: "" },
        HttpRoute { verb: "GET", template: "/apis/kairship.io/v1alpha1/instances/{instance}/events-kinds", body: "" },
        ],
        request: &LIST_EVENT_KINDS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "Why",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/why", body: "" },
        ],
        request: &WHY_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "explain",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "Plan",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}:plan", body: "manifests" },
        ],
        request: &PLAN_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "explain",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "SimulateFailover",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}:simulateFailover", body: "*" },
        ],
        request: &SIMULATE_FAILOVER_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "explain",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "GetTopology",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/topology", body: "" },
        ],
        request: &GET_TOPOLOGY_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "GetTimeline",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/timeline", body: "" },
        ],
        request: &GET_TIMELINE_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "explain",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "WatchTimeline",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/timeline:watch", body: "" },
        ],
        request: &WATCH_TIMELINE_REQUEST,
        response: None,
        output: Output::Stream,
        permission: "explain",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "ListHistory",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}/history", body: "" },
        ],
        request: &LIST_HISTORY_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ExplainService",
        name: "GetGraph",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/graph", body: "" },
        ],
        request: &GET_GRAPH_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "ListRegistrations",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/registrations", body: "" },
        ],
        request: &LIST_REGISTRATIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "integration.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "WatchRegistrations",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/registrations:watch", body: "" },
        ],
        request: &WATCH_REGISTRATIONS_REQUEST,
        response: None,
        output: Output::Stream,
        permission: "integration.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "PushBindings",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/bindings:push", body: "*" },
        ],
        request: &PUSH_BINDINGS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "integration.push",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "ListWebhooks",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/webhooks", body: "" },
        ],
        request: &ACCESS_LIST_REQUEST,
        response: Some(&LIST_WEBHOOKS_RESPONSE),
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "GetWebhook",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/webhooks/{name}", body: "" },
        ],
        request: &ACCESS_GET_REQUEST,
        response: None,
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "CreateWebhook",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/webhooks", body: "webhook" },
        ],
        request: &CREATE_WEBHOOK_REQUEST,
        response: None,
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "UpdateWebhook",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/webhooks/{webhook.name}", body: "webhook" },
        ],
        request: &UPDATE_WEBHOOK_REQUEST,
        response: None,
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "DeleteWebhook",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/webhooks/{name}", body: "" },
        ],
        request: &ACCESS_DELETE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "ListDeliveries",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/webhooks/{name}/deliveries", body: "" },
        ],
        request: &LIST_DELIVERIES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.IntegrationService",
        name: "Redeliver",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/webhooks/{name}/deliveries/{id}:redeliver", body: "*" },
        ],
        request: &REDELIVER_REQUEST,
        response: None,
        output: Output::Message,
        permission: "webhooks.manage",
    },
    Method {
        service: "flotilla.manager.v1alpha1.MetricService",
        name: "ListSeries",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/metrics", body: "" },
        ],
        request: &LIST_SERIES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.MetricService",
        name: "QuerySamples",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/metrics/samples", body: "" },
        ],
        request: &QUERY_SAMPLES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.MetricService",
        name: "ScrapeMetrics",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/metrics:scrape", body: "" },
        ],
        request: &SCRAPE_METRICS_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.MetricService",
        name: "QueryPrometheus",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/prometheus", body: "" },
        ],
        request: &QUERY_PROMETHEUS_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "instances.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.PolicyService",
        name: "ListPolicies",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/policies", body: "" },
        ],
        request: &LIST_POLICIES_REQUEST,
        response: Some(&LIST_POLICIES_RESPONSE),
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.PolicyService",
        name: "GetPolicyUsage",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/policies/{kind}/{name}/usage", body: "" },
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/policies/{kind}/{name}/usage", body: "" },
        ],
        request: &GET_POLICY_USAGE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.PolicyService",
        name: "MatchPolicies",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/policies:match", body: "" },
        ],
        request: &MATCH_POLICIES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.PolicyService",
        name: "PreviewPolicy",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/policies:preview", body: "policy" },
        ],
        request: &PREVIEW_POLICY_REQUEST,
        response: None,
        output: Output::Message,
        permission: "explain",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "ListKinds",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/kinds", body: "" },
        ],
        request: &LIST_KINDS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "ListResources",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}", body: "" },
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}", body: "" },
        ],
        request: &LIST_RESOURCES_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "WatchResources",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}:watch", body: "" },
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}:watch", body: "" },
        ],
        request: &WATCH_RESOURCES_REQUEST,
        response: None,
        output: Output::RawStream,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "GetResource",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}/{name}", body: "" },
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}/{name}", body: "" },
        ],
        request: &GET_RESOURCE_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "CreateResource",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}", body: "object" },
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}", body: "object" },
        ],
        request: &CREATE_RESOURCE_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "UpdateResource",
        routes: &[
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}/{name}", body: "object" },
        HttpRoute { verb: "PUT", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}/{name}", body: "object" },
        ],
        request: &UPDATE_RESOURCE_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "PatchResource",
        routes: &[
        HttpRoute { verb: "PATCH", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}/{name}", body: "patch" },
        HttpRoute { verb: "PATCH", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}/{name}", body: "patch" },
        ],
        request: &PATCH_RESOURCE_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "DeleteResource",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/{resource}/{name}", body: "" },
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/instances/{instance}/gvr/{group}/{version}/namespaces/{namespace}/{resource}/{name}", body: "" },
        ],
        request: &DELETE_RESOURCE_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "BatchApply",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}:batchApply", body: "manifests" },
        ],
        request: &BATCH_APPLY_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.ResourceService",
        name: "RevealSecret",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/secrets/{name}:reveal", body: "*" },
        ],
        request: &REVEAL_SECRET_REQUEST,
        response: None,
        output: Output::Raw,
        permission: "secrets.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SearchService",
        name: "Search",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/search", body: "" },
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/search", body: "*" },
        ],
        request: &SEARCH_REQUEST,
        response: Some(&SEARCH_RESPONSE),
        output: Output::Message,
        permission: "search",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SearchService",
        name: "Suggest",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/search:suggest", body: "" },
        ],
        request: &SUGGEST_REQUEST,
        response: None,
        output: Output::Message,
        permission: "search",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SearchService",
        name: "ListSources",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/search/sources", body: "" },
        ],
        request: &LIST_SOURCES_REQUEST,
        response: None,
        output: Output::Message,
        permission: "search",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SearchService",
        name: "Export",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/search:export", body: "" },
        ],
        request: &SEARCH_REQUEST,
        response: None,
        output: Output::RawStream,
        permission: "search",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SearchService",
        name: "ListCollections",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/collections", body: "" },
        ],
        request: &LIST_COLLECTIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "search",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SearchService",
        name: "GetCollection",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/collections/{name}", body: "" },
        ],
        request: &GET_COLLECTION_REQUEST,
        response: Some(&SEARCH_RESPONSE),
        output: Output::Message,
        permission: "search",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "GetLoginOptions",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/login-options", body: "" },
        ],
        request: &GET_LOGIN_OPTIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "public",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "Login",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/sessions:login", body: "*" },
        ],
        request: &LOGIN_REQUEST,
        response: None,
        output: Output::Message,
        permission: "public",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "WhoAmI",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/whoami", body: "" },
        ],
        request: &WHO_AM_I_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "ChangePassword",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/sessions:changePassword", body: "*" },
        ],
        request: &CHANGE_PASSWORD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "CreateAccessToken",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/access-tokens", body: "*" },
        ],
        request: &CREATE_ACCESS_TOKEN_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "ListAccessTokens",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/access-tokens", body: "" },
        ],
        request: &LIST_ACCESS_TOKENS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "RevokeAccessToken",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/access-tokens/{id}", body: "" },
        ],
        request: &REVOKE_ACCESS_TOKEN_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "Logout",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/sessions:logout", body: "*" },
        ],
        request: &LOGOUT_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "ListSessions",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/sessions", body: "" },
        ],
        request: &LIST_SESSIONS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "RevokeSession",
        routes: &[
        HttpRoute { verb: "DELETE", template: "/flotilla/manager/v1alpha1/sessions/{id}", body: "" },
        ],
        request: &REVOKE_SESSION_REQUEST,
        response: None,
        output: Output::Message,
        permission: "self",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "StartOidc",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/sessions:startOidc", body: "*" },
        ],
        request: &START_OIDC_REQUEST,
        response: None,
        output: Output::Message,
        permission: "public",
    },
    Method {
        service: "flotilla.manager.v1alpha1.SessionService",
        name: "FinishOidc",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/sessions:finishOidc", body: "*" },
        ],
        request: &FINISH_OIDC_REQUEST,
        response: None,
        output: Output::Message,
        permission: "public",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "ListWorkloads",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/workloads", body: "" },
        ],
        request: &LIST_WORKLOADS_REQUEST,
        response: Some(&LIST_WORKLOADS_RESPONSE),
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "GetWorkload",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}", body: "" },
        ],
        request: &GET_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "ListWorkloadPods",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}/pods", body: "" },
        ],
        request: &LIST_WORKLOAD_PODS_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.read",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "RestartWorkload",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}:restart", body: "*" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances/{instance}/namespaces/{namespace}/{resource}/{name}:restart", body: "*" },
        ],
        request: &RESTART_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "PauseWorkload",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}:pause", body: "*" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances/{instance}/namespaces/{namespace}/{resource}/{name}:pause", body: "*" },
        ],
        request: &PAUSE_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "ResumeWorkload",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}:resume", body: "*" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances/{instance}/namespaces/{namespace}/{resource}/{name}:resume", body: "*" },
        ],
        request: &RESUME_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "ScaleWorkload",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}:scale", body: "*" },
        ],
        request: &SCALE_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.write",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "ListPromotable",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/member-clusters/{cluster}/promotable", body: "" },
        ],
        request: &LIST_PROMOTABLE_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.promote",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "PreviewPromotion",
        routes: &[
        HttpRoute { verb: "GET", template: "/flotilla/manager/v1alpha1/instances/{instance}/member-clusters/{cluster}/namespaces/{namespace}/{resource}/{name}:previewPromotion", body: "" },
        ],
        request: &PREVIEW_PROMOTION_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.promote",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "PromoteWorkload",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/member-clusters/{cluster}/namespaces/{namespace}/{resource}/{name}:promote", body: "*" },
        HttpRoute { verb: "POST", template: "/apis/kairship.io/v1alpha1/instances/{instance}/member-clusters/{cluster}/namespaces/{namespace}/{resource}/{name}:promote", body: "*" },
        ],
        request: &PROMOTE_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.promote",
    },
    Method {
        service: "flotilla.manager.v1alpha1.WorkloadService",
        name: "RollbackWorkload",
        routes: &[
        HttpRoute { verb: "POST", template: "/flotilla/manager/v1alpha1/instances/{instance}/namespaces/{namespace}/workloads/{resource}/{name}:rollback", body: "*" },
        ],
        request: &ROLLBACK_WORKLOAD_REQUEST,
        response: None,
        output: Output::Message,
        permission: "objects.write",
    },
];

#[async_trait]
pub trait AccessService<C>: Send + Sync {
    /// Lists users.
    async fn list_users(&self, caller: &C, request: AccessListRequest) -> Result<ListUsersResponse, Status>;
    /// Returns a user.
    async fn get_user(&self, caller: &C, request: AccessGetRequest) -> Result<User, Status>;
    /// Creates a user.
    async fn create_user(&self, caller: &C, request: CreateUserRequest) -> Result<User, Status>;
    /// Replaces a user. With an etag it fails when the object has changed.
    async fn update_user(&self, caller: &C, request: UpdateUserRequest) -> Result<User, Status>;
    /// Deletes a user.
    async fn delete_user(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Lists groups.
    async fn list_groups(&self, caller: &C, request: AccessListRequest) -> Result<ListGroupsResponse, Status>;
    /// Returns a group.
    async fn get_group(&self, caller: &C, request: AccessGetRequest) -> Result<Group, Status>;
    /// Creates a group.
    async fn create_group(&self, caller: &C, request: CreateGroupRequest) -> Result<Group, Status>;
    /// Replaces a group. With an etag it fails when the object has changed.
    async fn update_group(&self, caller: &C, request: UpdateGroupRequest) -> Result<Group, Status>;
    /// Deletes a group.
    async fn delete_group(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Lists roles.
    async fn list_roles(&self, caller: &C, request: AccessListRequest) -> Result<ListRolesResponse, Status>;
    /// Returns a role.
    async fn get_role(&self, caller: &C, request: AccessGetRequest) -> Result<Role, Status>;
    /// Creates a role.
    async fn create_role(&self, caller: &C, request: CreateRoleRequest) -> Result<Role, Status>;
    /// Replaces a role. With an etag it fails when the object has changed.
    async fn update_role(&self, caller: &C, request: UpdateRoleRequest) -> Result<Role, Status>;
    /// Deletes a role.
    async fn delete_role(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Lists bindings.
    async fn list_bindings(&self, caller: &C, request: AccessListRequest) -> Result<ListBindingsResponse, Status>;
    /// Returns a binding.
    async fn get_binding(&self, caller: &C, request: AccessGetRequest) -> Result<Binding, Status>;
    /// Creates a binding.
    async fn create_binding(&self, caller: &C, request: CreateBindingRequest) -> Result<Binding, Status>;
    /// Deletes a binding.
    async fn delete_binding(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Lists workspaces.
    async fn list_workspaces(&self, caller: &C, request: AccessListRequest) -> Result<ListWorkspacesResponse, Status>;
    /// Returns a workspace.
    async fn get_workspace(&self, caller: &C, request: AccessGetRequest) -> Result<Workspace, Status>;
    /// Creates a workspace.
    async fn create_workspace(&self, caller: &C, request: CreateWorkspaceRequest) -> Result<Workspace, Status>;
    /// Replaces a workspace. With an etag it fails when the object has changed.
    async fn update_workspace(&self, caller: &C, request: UpdateWorkspaceRequest) -> Result<Workspace, Status>;
    /// Deletes a workspace.
    async fn delete_workspace(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Lists folders.
    async fn list_folders(&self, caller: &C, request: AccessListRequest) -> Result<ListFoldersResponse, Status>;
    /// Returns a folder.
    async fn get_folder(&self, caller: &C, request: AccessGetRequest) -> Result<Folder, Status>;
    /// Creates a folder.
    async fn create_folder(&self, caller: &C, request: CreateFolderRequest) -> Result<Folder, Status>;
    /// Replaces a folder. With an etag it fails when the object has changed.
    async fn update_folder(&self, caller: &C, request: UpdateFolderRequest) -> Result<Folder, Status>;
    /// Deletes a folder.
    async fn delete_folder(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Sets the password of a user.
    async fn set_password(&self, caller: &C, request: SetPasswordRequest) -> Result<(), Status>;
    /// Adds instances or namespaces to a workspace. Each belongs to one workspace at most.
    async fn bind_resources(&self, caller: &C, request: BindResourcesRequest) -> Result<Workspace, Status>;
    /// Removes instances or namespaces from a workspace.
    async fn unbind_resources(&self, caller: &C, request: UnbindResourcesRequest) -> Result<Workspace, Status>;
    /// Returns whether the caller has a permission, and why.
    async fn check_permission(&self, caller: &C, request: CheckPermissionRequest) -> Result<CheckPermissionResponse, Status>;
    /// Lists the permissions and the roles that have them.
    async fn list_permissions(&self, caller: &C, request: ListPermissionsRequest) -> Result<ListPermissionsResponse, Status>;
    /// Replaces the expiry of a binding. All else of a binding cannot change.
    async fn update_binding(&self, caller: &C, request: UpdateBindingRequest) -> Result<Binding, Status>;
    /// Lists the permissions of the caller on the platform or on an instance.
    async fn list_my_permissions(&self, caller: &C, request: ListMyPermissionsRequest) -> Result<ListMyPermissionsResponse, Status>;
    /// Lists the instances and namespaces of a workspace with their state.
    async fn list_workspace_resources(&self, caller: &C, request: ListWorkspaceResourcesRequest) -> Result<ListWorkspaceResourcesResponse, Status>;
}

#[async_trait]
pub trait AuditService<C>: Send + Sync {
    /// Lists entries, the newest first.
    async fn list_audit_entries(&self, caller: &C, request: ListAuditEntriesRequest) -> Result<ListAuditEntriesResponse, Status>;
    /// Returns an entry.
    async fn get_audit_entry(&self, caller: &C, request: GetAuditEntryRequest) -> Result<AuditEntry, Status>;
    /// Returns the entries of a list as one JSON object per line.
    async fn export_audit_entries(&self, caller: &C, request: ListAuditEntriesRequest) -> Result<Results<Raw>, Status>;
}

#[async_trait]
pub trait InstanceService<C>: Send + Sync {
    /// Lists the instances the caller may see.
    async fn list_instances(&self, caller: &C, request: ListInstancesRequest) -> Result<ListInstancesResponse, Status>;
    /// Sends the instances the caller may see, then their changes.
    async fn watch_instances(&self, caller: &C, request: WatchInstancesRequest) -> Result<Results<InstanceEvent>, Status>;
    /// Returns an instance.
    async fn get_instance(&self, caller: &C, request: GetInstanceRequest) -> Result<Instance, Status>;
    /// Returns the Karmada object of an instance as YAML.
    async fn get_instance_manifest(&self, caller: &C, request: GetInstanceManifestRequest) -> Result<Raw, Status>;
    /// Creates an instance.
    async fn create_instance(&self, caller: &C, request: CreateInstanceRequest) -> Result<Instance, Status>;
    /// Imports a running control plane by its kubeconfig. Nothing is stored before it was reached.
    async fn import_instance(&self, caller: &C, request: ImportInstanceRequest) -> Result<Instance, Status>;
    /// Checks a kubeconfig and the control plane it leads to, without storing anything.
    async fn validate_import(&self, caller: &C, request: ValidateImportRequest) -> Result<ValidateImportResponse, Status>;
    /// Changes the fields of an instance that the mask names.
    async fn update_instance(&self, caller: &C, request: UpdateInstanceRequest) -> Result<Instance, Status>;
    /// Replaces the spec, labels and annotations of an instance with those of a manifest in YAML or JSON.
    async fn apply_instance_manifest(&self, caller: &C, request: ApplyInstanceManifestRequest) -> Result<Instance, Status>;
    /// Deletes an instance. Refused while clusters are joined, unless its control plane is kept.
    async fn delete_instance(&self, caller: &C, request: DeleteInstanceRequest) -> Result<(), Status>;
    /// Returns the consequences of deleting an instance.
    async fn preview_deletion(&self, caller: &C, request: PreviewDeletionRequest) -> Result<DeletionPreview, Status>;
    /// Pauses the life cycle of an instance; its control plane keeps its state.
    async fn suspend_instance(&self, caller: &C, request: SuspendInstanceRequest) -> Result<Instance, Status>;
    /// Resumes the life cycle of an instance.
    async fn resume_instance(&self, caller: &C, request: ResumeInstanceRequest) -> Result<Instance, Status>;
    /// Restarts the control plane of an instance once.
    async fn restart_instance(&self, caller: &C, request: RestartInstanceRequest) -> Result<Instance, Status>;
    /// Stops the control plane of an instance without clusters; a request to it starts it again.
    async fn hibernate_instance(&self, caller: &C, request: HibernateInstanceRequest) -> Result<Instance, Status>;
    /// Starts a hibernating instance.
    async fn wake_instance(&self, caller: &C, request: WakeInstanceRequest) -> Result<Instance, Status>;
    /// Returns versions, modes and limits of this manager.
    async fn get_server_config(&self, caller: &C, request: GetServerConfigRequest) -> Result<ServerConfig, Status>;
    /// Returns the statistics of an instance, its recent warnings and its unready clusters.
    async fn get_overview(&self, caller: &C, request: GetOverviewRequest) -> Result<Overview, Status>;
    /// Returns the failover and descheduler settings of an instance.
    async fn get_settings(&self, caller: &C, request: GetSettingsRequest) -> Result<Settings, Status>;
    /// Changes settings of an instance. Its control plane restarts.
    async fn update_settings(&self, caller: &C, request: UpdateSettingsRequest) -> Result<Settings, Status>;
    /// Issues a kubeconfig with the caller's rights on an instance.
    async fn create_kubeconfig(&self, caller: &C, request: CreateKubeconfigRequest) -> Result<Kubeconfig, Status>;
    /// Lists the kubeconfigs of an instance: the caller's own, and all for platform administrators.
    async fn list_kubeconfigs(&self, caller: &C, request: ListKubeconfigsRequest) -> Result<ListKubeconfigsResponse, Status>;
    /// Revokes a kubeconfig.
    async fn revoke_kubeconfig(&self, caller: &C, request: RevokeKubeconfigRequest) -> Result<(), Status>;
    /// Lists the parts of a running control plane with their state.
    async fn list_components(&self, caller: &C, request: ListComponentsRequest) -> Result<ListComponentsResponse, Status>;
    /// Returns the problems of an instance, each with a step that helps.
    async fn diagnose_instance(&self, caller: &C, request: DiagnoseInstanceRequest) -> Result<Diagnosis, Status>;
}

#[async_trait]
pub trait BackupService<C>: Send + Sync {
    /// Takes a backup of an instance and keeps it in the manager's data directory.
    async fn create_backup(&self, caller: &C, request: CreateBackupRequest) -> Result<Backup, Status>;
    /// Lists the backups of an instance, the newest first.
    async fn list_backups(&self, caller: &C, request: ListBackupsRequest) -> Result<ListBackupsResponse, Status>;
    /// Returns the file of a backup. It contains all Secrets of the instance.
    async fn download_backup(&self, caller: &C, request: DownloadBackupRequest) -> Result<Results<Raw>, Status>;
    /// Deletes a backup.
    async fn delete_backup(&self, caller: &C, request: DeleteBackupRequest) -> Result<(), Status>;
    /// Restores a backup into its instance, or into a new one. The control plane then runs in safe mode.
    async fn restore_backup(&self, caller: &C, request: RestoreBackupRequest) -> Result<Instance, Status>;
    /// Ends the safe mode of a restored control plane, with the caller's rights in it.
    async fn confirm_restore(&self, caller: &C, request: ConfirmRestoreRequest) -> Result<(), Status>;
}

#[async_trait]
pub trait ClusterService<C>: Send + Sync {
    /// Lists the clusters of the inventory.
    async fn list_managed_clusters(&self, caller: &C, request: ListManagedClustersRequest) -> Result<ListManagedClustersResponse, Status>;
    /// Returns a cluster of the inventory.
    async fn get_managed_cluster(&self, caller: &C, request: GetManagedClusterRequest) -> Result<ManagedCluster, Status>;
    /// Adds a cluster to the inventory with its kubeconfig, which is tried first.
    async fn register_cluster(&self, caller: &C, request: RegisterClusterRequest) -> Result<ManagedCluster, Status>;
    /// Checks a kubeconfig and the cluster it leads to, without storing anything.
    async fn validate_kubeconfig(&self, caller: &C, request: ValidateKubeconfigRequest) -> Result<ValidateKubeconfigResponse, Status>;
    /// Changes the fields of a cluster that the mask names.
    async fn update_managed_cluster(&self, caller: &C, request: UpdateManagedClusterRequest) -> Result<ManagedCluster, Status>;
    /// Removes a cluster from the inventory. Refused while it is joined to an instance.
    async fn delete_managed_cluster(&self, caller: &C, request: DeleteManagedClusterRequest) -> Result<(), Status>;
    /// Replaces the kubeconfig of a cluster. Instances get it after it was tried.
    async fn put_credentials(&self, caller: &C, request: PutCredentialsRequest) -> Result<CredentialState, Status>;
    /// Returns the state of a cluster's credential, never the credential.
    async fn get_credential_state(&self, caller: &C, request: GetCredentialStateRequest) -> Result<CredentialState, Status>;
    /// Lists the clusters of an instance.
    async fn list_joined_clusters(&self, caller: &C, request: ListJoinedClustersRequest) -> Result<ListJoinedClustersResponse, Status>;
    /// Returns a cluster of an instance.
    async fn get_joined_cluster(&self, caller: &C, request: GetJoinedClusterRequest) -> Result<JoinedCluster, Status>;
    /// Joins a cluster of the inventory to an instance.
    async fn join_cluster(&self, caller: &C, request: JoinClusterRequest) -> Result<ManagedCluster, Status>;
    /// Changes labels, provider, region, zone or taints of a cluster of an instance.
    async fn update_joined_cluster(&self, caller: &C, request: UpdateJoinedClusterRequest) -> Result<JoinedCluster, Status>;
    /// Returns the bindings that a removal of the cluster would affect.
    async fn preview_removal(&self, caller: &C, request: PreviewRemovalRequest) -> Result<RemovalPreview, Status>;
    /// Removes a cluster from an instance.
    async fn remove_joined_cluster(&self, caller: &C, request: RemoveJoinedClusterRequest) -> Result<(), Status>;
    /// Keeps new workloads off a cluster.
    async fn cordon_cluster(&self, caller: &C, request: CordonClusterRequest) -> Result<JoinedCluster, Status>;
    /// Allows new workloads on a cluster again.
    async fn uncordon_cluster(&self, caller: &C, request: UncordonClusterRequest) -> Result<JoinedCluster, Status>;
    /// Replaces the taints of a cluster.
    async fn set_taints(&self, caller: &C, request: SetTaintsRequest) -> Result<JoinedCluster, Status>;
    /// Replaces the labels of a cluster.
    async fn set_labels(&self, caller: &C, request: SetLabelsRequest) -> Result<JoinedCluster, Status>;
    /// Lists providers, regions and zones of the clusters of an instance.
    async fn list_locations(&self, caller: &C, request: ListLocationsRequest) -> Result<ListLocationsResponse, Status>;
    /// Lists the labels of the clusters of an instance.
    async fn list_cluster_labels(&self, caller: &C, request: ListClusterLabelsRequest) -> Result<ListClusterLabelsResponse, Status>;
    /// Sends all clusters of the inventory the caller sees, then every change.
    async fn watch_managed_clusters(&self, caller: &C, request: WatchManagedClustersRequest) -> Result<Results<ManagedClusterEvent>, Status>;
    /// Gives all instances of a cluster new credentials of their own, although the kubeconfig is the same.
    async fn rotate_credentials(&self, caller: &C, request: RotateCredentialsRequest) -> Result<CredentialState, Status>;
    /// Sends all clusters of an instance, then every change.
    async fn watch_joined_clusters(&self, caller: &C, request: WatchJoinedClustersRequest) -> Result<Results<JoinedClusterEvent>, Status>;
    /// Creates a token with which one cluster registers itself in pull mode, and the command for it.
    async fn create_registration_token(&self, caller: &C, request: CreateRegistrationTokenRequest) -> Result<RegistrationToken, Status>;
    /// Lists registration tokens, without their secrets.
    async fn list_registration_tokens(&self, caller: &C, request: ListRegistrationTokensRequest) -> Result<ListRegistrationTokensResponse, Status>;
    /// Deletes a registration token.
    async fn delete_registration_token(&self, caller: &C, request: DeleteRegistrationTokenRequest) -> Result<(), Status>;
    /// Lists agents that wait for the approval of their certificate.
    async fn list_pending_agents(&self, caller: &C, request: ListPendingAgentsRequest) -> Result<ListPendingAgentsResponse, Status>;
    /// Approves the certificate of an agent.
    async fn approve_agent(&self, caller: &C, request: ApproveAgentRequest) -> Result<PendingAgent, Status>;
}

#[async_trait]
pub trait EventService<C>: Send + Sync {
    /// Lists events, the newest first.
    async fn list_events(&self, caller: &C, request: ListEventsRequest) -> Result<ListEventsResponse, Status>;
    /// Sends new events.
    async fn watch_events(&self, caller: &C, request: WatchEventsRequest) -> Result<Results<Event>, Status>;
    /// Lists the kinds that have events.
    async fn list_event_kinds(&self, caller: &C, request: ListEventKindsRequest) -> Result<ListEventKindsResponse, Status>;
}

#[async_trait]
pub trait ExplainService<C>: Send + Sync {
    /// Explains where an object is placed and why.
    async fn why(&self, caller: &C, request: WhyRequest) -> Result<Raw, Status>;
    /// Returns what applying manifests would change, without changing anything.
    async fn plan(&self, caller: &C, request: PlanRequest) -> Result<Raw, Status>;
    /// Returns what would move if a cluster was lost.
    async fn simulate_failover(&self, caller: &C, request: SimulateFailoverRequest) -> Result<Raw, Status>;
    /// Returns regions, zones and clusters with their replicas.
    async fn get_topology(&self, caller: &C, request: GetTopologyRequest) -> Result<Topology, Status>;
    /// Returns the steps of the propagation of an object with their times.
    async fn get_timeline(&self, caller: &C, request: GetTimelineRequest) -> Result<Raw, Status>;
    /// Sends the steps of the propagation of an object, and new ones as they happen.
    async fn watch_timeline(&self, caller: &C, request: WatchTimelineRequest) -> Result<Results<TimelineStep>, Status>;
    /// Lists the revisions of a Deployment, StatefulSet or DaemonSet that its clusters keep.
    async fn list_history(&self, caller: &C, request: ListHistoryRequest) -> Result<ListHistoryResponse, Status>;
    /// Returns an object with its policy, binding, works and clusters, and how they depend on each other.
    async fn get_graph(&self, caller: &C, request: GetGraphRequest) -> Result<Graph, Status>;
}

#[async_trait]
pub trait IntegrationService<C>: Send + Sync {
    /// Lists the published instances and namespaces.
    async fn list_registrations(&self, caller: &C, request: ListRegistrationsRequest) -> Result<ListRegistrationsResponse, Status>;
    /// Sends all registrations, then every change.
    async fn watch_registrations(&self, caller: &C, request: WatchRegistrationsRequest) -> Result<Results<RegistrationEvent>, Status>;
    /// Changes the bindings of a source. The source is a webhook with acceptsBindings.
    async fn push_bindings(&self, caller: &C, request: PushBindingsRequest) -> Result<PushBindingsResponse, Status>;
    /// Lists webhooks.
    async fn list_webhooks(&self, caller: &C, request: AccessListRequest) -> Result<ListWebhooksResponse, Status>;
    /// Returns a webhook.
    async fn get_webhook(&self, caller: &C, request: AccessGetRequest) -> Result<Webhook, Status>;
    /// Creates a webhook.
    async fn create_webhook(&self, caller: &C, request: CreateWebhookRequest) -> Result<Webhook, Status>;
    /// Replaces a webhook.
    async fn update_webhook(&self, caller: &C, request: UpdateWebhookRequest) -> Result<Webhook, Status>;
    /// Deletes a webhook.
    async fn delete_webhook(&self, caller: &C, request: AccessDeleteRequest) -> Result<(), Status>;
    /// Lists the latest deliveries to a webhook, the newest first.
    async fn list_deliveries(&self, caller: &C, request: ListDeliveriesRequest) -> Result<ListDeliveriesResponse, Status>;
    /// Sends a delivery again, once.
    async fn redeliver(&self, caller: &C, request: RedeliverRequest) -> Result<Delivery, Status>;
}

#[async_trait]
pub trait MetricService<C>: Send + Sync {
    /// Lists the series of an instance.
    async fn list_series(&self, caller: &C, request: ListSeriesRequest) -> Result<ListSeriesResponse, Status>;
    /// Returns the samples of series.
    async fn query_samples(&self, caller: &C, request: QuerySamplesRequest) -> Result<QuerySamplesResponse, Status>;
    /// Returns the metrics of an instance, or of one of its clusters, in the text format of Prometheus.
    async fn scrape_metrics(&self, caller: &C, request: ScrapeMetricsRequest) -> Result<Raw, Status>;
    /// Sends a query to the Prometheus of an instance and returns its answer.
    async fn query_prometheus(&self, caller: &C, request: QueryPrometheusRequest) -> Result<Raw, Status>;
}

#[async_trait]
pub trait PolicyService<C>: Send + Sync {
    /// Lists policies of all four kinds.
    async fn list_policies(&self, caller: &C, request: ListPoliciesRequest) -> Result<ListPoliciesResponse, Status>;
    /// Returns the objects that a propagation policy claims.
    async fn get_policy_usage(&self, caller: &C, request: GetPolicyUsageRequest) -> Result<PolicyUsage, Status>;
    /// Explains which policy an object gets, and why others do not select it.
    async fn match_policies(&self, caller: &C, request: MatchPoliciesRequest) -> Result<MatchPoliciesResponse, Status>;
    /// Returns the objects that would change hands or clusters if a policy was applied, without applying it.
    async fn preview_policy(&self, caller: &C, request: PreviewPolicyRequest) -> Result<PolicyPreview, Status>;
}

#[async_trait]
pub trait ResourceService<C>: Send + Sync {
    /// Lists the kinds an instance serves.
    async fn list_kinds(&self, caller: &C, request: ListKindsRequest) -> Result<ListKindsResponse, Status>;
    /// Lists objects as a Kubernetes list.
    async fn list_resources(&self, caller: &C, request: ListResourcesRequest) -> Result<Raw, Status>;
    /// Sends changes as Kubernetes watch events, one per line.
    async fn watch_resources(&self, caller: &C, request: WatchResourcesRequest) -> Result<Results<Raw>, Status>;
    /// Returns an object.
    async fn get_resource(&self, caller: &C, request: GetResourceRequest) -> Result<Raw, Status>;
    /// Creates an object.
    async fn create_resource(&self, caller: &C, request: CreateResourceRequest) -> Result<Raw, Status>;
    /// Replaces an object.
    async fn update_resource(&self, caller: &C, request: UpdateResourceRequest) -> Result<Raw, Status>;
    /// Patches an object with a patch of Kubernetes.
    async fn patch_resource(&self, caller: &C, request: PatchResourceRequest) -> Result<Raw, Status>;
    /// Deletes an object.
    async fn delete_resource(&self, caller: &C, request: DeleteResourceRequest) -> Result<Raw, Status>;
    /// Applies several objects in order of their dependencies.
    async fn batch_apply(&self, caller: &C, request: BatchApplyRequest) -> Result<BatchApplyResponse, Status>;
    /// Returns a Secret with its content. The call is recorded in the audit log.
    async fn reveal_secret(&self, caller: &C, request: RevealSecretRequest) -> Result<Raw, Status>;
}

#[async_trait]
pub trait SearchService<C>: Send + Sync {
    /// Finds objects. Sources that could not be read are named.
    async fn search(&self, caller: &C, request: SearchRequest) -> Result<SearchResponse, Status>;
    /// Returns names that contain a text.
    async fn suggest(&self, caller: &C, request: SuggestRequest) -> Result<SuggestResponse, Status>;
    /// Lists the instances and clusters that a search reads.
    async fn list_sources(&self, caller: &C, request: ListSourcesRequest) -> Result<ListSourcesResponse, Status>;
    /// Returns all objects of a search as one JSON object per line, 100,000 at most.
    async fn export(&self, caller: &C, request: SearchRequest) -> Result<Results<Raw>, Status>;
    /// Lists the collections: kinds that are searched together.
    async fn list_collections(&self, caller: &C, request: ListCollectionsRequest) -> Result<ListCollectionsResponse, Status>;
    /// Finds objects of the kinds of a collection.
    async fn get_collection(&self, caller: &C, request: GetCollectionRequest) -> Result<SearchResponse, Status>;
}

#[async_trait]
pub trait SessionService<C>: Send + Sync {
    /// Returns the ways to sign in.
    async fn get_login_options(&self, caller: &C, request: GetLoginOptionsRequest) -> Result<LoginOptions, Status>;
    /// Exchanges a name and a password for an access token.
    async fn login(&self, caller: &C, request: LoginRequest) -> Result<LoginResponse, Status>;
    /// Returns the caller, its groups and its roles.
    async fn who_am_i(&self, caller: &C, request: WhoAmIRequest) -> Result<Caller, Status>;
    /// Sets the caller's own password after checking the old one.
    async fn change_password(&self, caller: &C, request: ChangePasswordRequest) -> Result<(), Status>;
    /// Issues an access token for the caller.
    async fn create_access_token(&self, caller: &C, request: CreateAccessTokenRequest) -> Result<AccessToken, Status>;
    /// Lists the caller's access tokens, without their secrets.
    async fn list_access_tokens(&self, caller: &C, request: ListAccessTokensRequest) -> Result<ListAccessTokensResponse, Status>;
    /// Revokes an access token of the caller.
    async fn revoke_access_token(&self, caller: &C, request: RevokeAccessTokenRequest) -> Result<(), Status>;
    /// Ends the session or revokes the access token of the call.
    async fn logout(&self, caller: &C, request: LogoutRequest) -> Result<(), Status>;
    /// Lists the sessions of browsers of the caller; user managers list those of any user.
    async fn list_sessions(&self, caller: &C, request: ListSessionsRequest) -> Result<ListSessionsResponse, Status>;
    /// Ends a session of the caller; user managers end those of any user.
    async fn revoke_session(&self, caller: &C, request: RevokeSessionRequest) -> Result<(), Status>;
    /// Begins a sign-in at the OIDC issuer: returns the address to open.
    async fn start_oidc(&self, caller: &C, request: StartOidcRequest) -> Result<OidcAttempt, Status>;
    /// Exchanges the code of the OIDC issuer for an access token.
    async fn finish_oidc(&self, caller: &C, request: FinishOidcRequest) -> Result<LoginResponse, Status>;
}

#[async_trait]
pub trait WorkloadService<C>: Send + Sync {
    /// Lists workloads with their clusters.
    async fn list_workloads(&self, caller: &C, request: ListWorkloadsRequest) -> Result<ListWorkloadsResponse, Status>;
    /// Returns a workload with its clusters.
    async fn get_workload(&self, caller: &C, request: GetWorkloadRequest) -> Result<Workload, Status>;
    /// Lists the pods of a workload in all its clusters.
    async fn list_workload_pods(&self, caller: &C, request: ListWorkloadPodsRequest) -> Result<ListWorkloadPodsResponse, Status>;
    /// Replaces all pods of a workload, as kubectl rollout restart does.
    async fn restart_workload(&self, caller: &C, request: RestartWorkloadRequest) -> Result<Workload, Status>;
    /// Pauses the rollout of a Deployment, or suspends a Job or CronJob.
    async fn pause_workload(&self, caller: &C, request: PauseWorkloadRequest) -> Result<Workload, Status>;
    /// Ends a pause.
    async fn resume_workload(&self, caller: &C, request: ResumeWorkloadRequest) -> Result<Workload, Status>;
    /// Sets the number of replicas over all clusters.
    async fn scale_workload(&self, caller: &C, request: ScaleWorkloadRequest) -> Result<Workload, Status>;
    /// Lists objects of a cluster that the instance does not manage and could.
    async fn list_promotable(&self, caller: &C, request: ListPromotableRequest) -> Result<ListPromotableResponse, Status>;
    /// Returns what a promotion would create, without creating it.
    async fn preview_promotion(&self, caller: &C, request: PreviewPromotionRequest) -> Result<Promotion, Status>;
    /// Makes an object of a cluster one of the instance, with a policy that keeps it in this cluster. It is not restarted.
    async fn promote_workload(&self, caller: &C, request: PromoteWorkloadRequest) -> Result<Promotion, Status>;
    /// Sets the pod template of a Deployment, StatefulSet or DaemonSet back to a revision that one of its clusters keeps.
    async fn rollback_workload(&self, caller: &C, request: RollbackWorkloadRequest) -> Result<Workload, Status>;
}

/// Decides about calls before a service gets them, and recognizes repeated ones.
#[async_trait]
pub trait Gate<C>: Send + Sync {
    /// Returns an error if the caller may not call the method, for the instance it names.
    async fn permit(&self, caller: &C, method: &'static Method, instance: Option<&str>) -> Result<(), Status>;
    /// Returns an error unless answers contain the writes with these versions.
    async fn reached(&self, caller: &C, versions: &[String]) -> Result<(), Status>;
    /// Returns the encoded result of the same call with the same id.
    fn earlier(&self, caller: &C, id: &str, call: &[u8]) -> Result<Option<Vec<u8>>, Status>;
    fn remember(&self, caller: &C, id: &str, call: Vec<u8>, result: Vec<u8>);
}

/// All services.
pub trait Services<C>: Gate<C> + AccessService<C> + AuditService<C> + InstanceService<C> + BackupService<C> + ClusterService<C> + EventService<C> + ExplainService<C> + IntegrationService<C> + MetricService<C> + PolicyService<C> + ResourceService<C> + SearchService<C> + SessionService<C> + WorkloadService<C> {}

impl<C, T: Gate<C> + AccessService<C> + AuditService<C> + InstanceService<C> + BackupService<C> + ClusterService<C> + EventService<C> + ExplainService<C> + IntegrationService<C> + MetricService<C> + PolicyService<C> + ResourceService<C> + SearchService<C> + SessionService<C> + WorkloadService<C>> Services<C> for T {}

/// Calls a method by its index in `METHODS`.
pub async fn call<C: Sync, S: Services<C>>(services: &S, caller: &C, method: usize, payload: Payload) -> Result<Reply, Status> {
    let codec = payload.codec();
    match method {
        0 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[0], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[0])?, &fields)?;
            let result = services.list_users(caller, request).await?;
            codec.selected(&result, (response(&METHODS[0])?, &fields), &result.version)
        }
        1 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[1], None).await?;
            let result = services.get_user(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        2 => {
            let request: CreateUserRequest = payload.read()?;
            services.permit(caller, &METHODS[2], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: User = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_user(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        3 => {
            let request: UpdateUserRequest = payload.read()?;
            services.permit(caller, &METHODS[3], None).await?;
            let result = services.update_user(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        4 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[4], None).await?;
            let result = services.delete_user(caller, request).await?;
            codec.message(&result)
        }
        5 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[5], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[5])?, &fields)?;
            let result = services.list_groups(caller, request).await?;
            codec.selected(&result, (response(&METHODS[5])?, &fields), &result.version)
        }
        6 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[6], None).await?;
            let result = services.get_group(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        7 => {
            let request: CreateGroupRequest = payload.read()?;
            services.permit(caller, &METHODS[7], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Group = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_group(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        8 => {
            let request: UpdateGroupRequest = payload.read()?;
            services.permit(caller, &METHODS[8], None).await?;
            let result = services.update_group(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        9 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[9], None).await?;
            let result = services.delete_group(caller, request).await?;
            codec.message(&result)
        }
        10 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[10], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[10])?, &fields)?;
            let result = services.list_roles(caller, request).await?;
            codec.selected(&result, (response(&METHODS[10])?, &fields), &result.version)
        }
        11 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[11], None).await?;
            let result = services.get_role(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        12 => {
            let request: CreateRoleRequest = payload.read()?;
            services.permit(caller, &METHODS[12], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Role = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_role(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        13 => {
            let request: UpdateRoleRequest = payload.read()?;
            services.permit(caller, &METHODS[13], None).await?;
            let result = services.update_role(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        14 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[14], None).await?;
            let result = services.delete_role(caller, request).await?;
            codec.message(&result)
        }
        15 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[15], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[15])?, &fields)?;
            let result = services.list_bindings(caller, request).await?;
            codec.selected(&result, (response(&METHODS[15])?, &fields), &result.version)
        }
        16 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[16], None).await?;
            let result = services.get_binding(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        17 => {
            let request: CreateBindingRequest = payload.read()?;
            services.permit(caller, &METHODS[17], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Binding = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_binding(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        18 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[18], None).await?;
            let result = services.delete_binding(caller, request).await?;
            codec.message(&result)
        }
        19 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[19], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[19])?, &fields)?;
            let result = services.list_workspaces(caller, request).await?;
            codec.selected(&result, (response(&METHODS[19])?, &fields), &result.version)
        }
        20 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[20], None).await?;
            let result = services.get_workspace(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        21 => {
            let request: CreateWorkspaceRequest = payload.read()?;
            services.permit(caller, &METHODS[21], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Workspace = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_workspace(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        22 => {
            let request: UpdateWorkspaceRequest = payload.read()?;
            services.permit(caller, &METHODS[22], None).await?;
            let result = services.update_workspace(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        23 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[23], None).await?;
            let result = services.delete_workspace(caller, request).await?;
            codec.message(&result)
        }
        24 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[24], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[24])?, &fields)?;
            let result = services.list_folders(caller, request).await?;
            codec.selected(&result, (response(&METHODS[24])?, &fields), &result.version)
        }
        25 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[25], None).await?;
            let result = services.get_folder(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        26 => {
            let request: CreateFolderRequest = payload.read()?;
            services.permit(caller, &METHODS[26], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Folder = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_folder(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        27 => {
            let request: UpdateFolderRequest = payload.read()?;
            services.permit(caller, &METHODS[27], None).await?;
            let result = services.update_folder(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        28 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[28], None).await?;
            let result = services.delete_folder(caller, request).await?;
            codec.message(&result)
        }
        29 => {
            let request: SetPasswordRequest = payload.read()?;
            services.permit(caller, &METHODS[29], None).await?;
            let result = services.set_password(caller, request).await?;
            codec.message(&result)
        }
        30 => {
            let request: BindResourcesRequest = payload.read()?;
            services.permit(caller, &METHODS[30], None).await?;
            let result = services.bind_resources(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        31 => {
            let request: UnbindResourcesRequest = payload.read()?;
            services.permit(caller, &METHODS[31], None).await?;
            let result = services.unbind_resources(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        32 => {
            let request: CheckPermissionRequest = payload.read()?;
            services.permit(caller, &METHODS[32], None).await?;
            let result = services.check_permission(caller, request).await?;
            codec.message(&result)
        }
        33 => {
            let request: ListPermissionsRequest = payload.read()?;
            services.permit(caller, &METHODS[33], None).await?;
            let result = services.list_permissions(caller, request).await?;
            codec.message(&result)
        }
        34 => {
            let request: UpdateBindingRequest = payload.read()?;
            services.permit(caller, &METHODS[34], None).await?;
            let result = services.update_binding(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        35 => {
            let request: ListMyPermissionsRequest = payload.read()?;
            services.permit(caller, &METHODS[35], None).await?;
            let result = services.list_my_permissions(caller, request).await?;
            codec.message(&result)
        }
        36 => {
            let request: ListWorkspaceResourcesRequest = payload.read()?;
            services.permit(caller, &METHODS[36], None).await?;
            let result = services.list_workspace_resources(caller, request).await?;
            codec.message(&result)
        }
        37 => {
            let request: ListAuditEntriesRequest = payload.read()?;
            services.permit(caller, &METHODS[37], None).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[37])?, &fields)?;
            let result = services.list_audit_entries(caller, request).await?;
            codec.selected(&result, (response(&METHODS[37])?, &fields), "")
        }
        38 => {
            let request: GetAuditEntryRequest = payload.read()?;
            services.permit(caller, &METHODS[38], None).await?;
            let result = services.get_audit_entry(caller, request).await?;
            codec.message(&result)
        }
        39 => {
            let request: ListAuditEntriesRequest = payload.read()?;
            services.permit(caller, &METHODS[39], None).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check_none(&fields)?;
            let result = services.export_audit_entries(caller, request).await?;
            Ok(codec.raw_stream(result))
        }
        40 => {
            let request: ListInstancesRequest = payload.read()?;
            services.permit(caller, &METHODS[40], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[40])?, &fields)?;
            let result = services.list_instances(caller, request).await?;
            codec.selected(&result, (response(&METHODS[40])?, &fields), &result.version)
        }
        41 => {
            let request: WatchInstancesRequest = payload.read()?;
            services.permit(caller, &METHODS[41], None).await?;
            let result = services.watch_instances(caller, request).await?;
            Ok(codec.stream(result))
        }
        42 => {
            let request: GetInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[42], Some(&request.name)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let result = services.get_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        43 => {
            let request: GetInstanceManifestRequest = payload.read()?;
            services.permit(caller, &METHODS[43], Some(&request.name)).await?;
            let result = services.get_instance_manifest(caller, request).await?;
            Ok(codec.raw(result))
        }
        44 => {
            let request: CreateInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[44], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Instance = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_instance(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        45 => {
            let request: ImportInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[45], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Instance = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.import_instance(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        46 => {
            let request: ValidateImportRequest = payload.read()?;
            services.permit(caller, &METHODS[46], None).await?;
            let result = services.validate_import(caller, request).await?;
            codec.message(&result)
        }
        47 => {
            let request: UpdateInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[47], Some(request.instance.as_ref().map_or("", |found| found.name.as_str()))).await?;
            let result = services.update_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        48 => {
            let request: ApplyInstanceManifestRequest = payload.read()?;
            services.permit(caller, &METHODS[48], Some(&request.name)).await?;
            let result = services.apply_instance_manifest(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        49 => {
            let request: DeleteInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[49], Some(&request.name)).await?;
            let result = services.delete_instance(caller, request).await?;
            codec.message(&result)
        }
        50 => {
            let request: PreviewDeletionRequest = payload.read()?;
            services.permit(caller, &METHODS[50], Some(&request.name)).await?;
            let result = services.preview_deletion(caller, request).await?;
            codec.message(&result)
        }
        51 => {
            let request: SuspendInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[51], Some(&request.name)).await?;
            let result = services.suspend_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        52 => {
            let request: ResumeInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[52], Some(&request.name)).await?;
            let result = services.resume_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        53 => {
            let request: RestartInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[53], Some(&request.name)).await?;
            let result = services.restart_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        54 => {
            let request: HibernateInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[54], Some(&request.name)).await?;
            let result = services.hibernate_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        55 => {
            let request: WakeInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[55], Some(&request.name)).await?;
            let result = services.wake_instance(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        56 => {
            let request: GetServerConfigRequest = payload.read()?;
            services.permit(caller, &METHODS[56], None).await?;
            let result = services.get_server_config(caller, request).await?;
            codec.message(&result)
        }
        57 => {
            let request: GetOverviewRequest = payload.read()?;
            services.permit(caller, &METHODS[57], Some(&request.name)).await?;
            let result = services.get_overview(caller, request).await?;
            codec.message(&result)
        }
        58 => {
            let request: GetSettingsRequest = payload.read()?;
            services.permit(caller, &METHODS[58], Some(&request.name)).await?;
            let result = services.get_settings(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        59 => {
            let request: UpdateSettingsRequest = payload.read()?;
            services.permit(caller, &METHODS[59], Some(request.settings.as_ref().map_or("", |found| found.name.as_str()))).await?;
            let result = services.update_settings(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        60 => {
            let request: CreateKubeconfigRequest = payload.read()?;
            services.permit(caller, &METHODS[60], Some(&request.instance)).await?;
            let result = services.create_kubeconfig(caller, request).await?;
            codec.message(&result)
        }
        61 => {
            let request: ListKubeconfigsRequest = payload.read()?;
            services.permit(caller, &METHODS[61], Some(&request.instance)).await?;
            let result = services.list_kubeconfigs(caller, request).await?;
            codec.message(&result)
        }
        62 => {
            let request: RevokeKubeconfigRequest = payload.read()?;
            services.permit(caller, &METHODS[62], Some(&request.instance)).await?;
            let result = services.revoke_kubeconfig(caller, request).await?;
            codec.message(&result)
        }
        63 => {
            let request: ListComponentsRequest = payload.read()?;
            services.permit(caller, &METHODS[63], Some(&request.name)).await?;
            let result = services.list_components(caller, request).await?;
            codec.message(&result)
        }
        64 => {
            let request: DiagnoseInstanceRequest = payload.read()?;
            services.permit(caller, &METHODS[64], Some(&request.name)).await?;
            let result = services.diagnose_instance(caller, request).await?;
            codec.message(&result)
        }
        65 => {
            let request: CreateBackupRequest = payload.read()?;
            services.permit(caller, &METHODS[65], Some(&request.instance)).await?;
            let result = services.create_backup(caller, request).await?;
            codec.message(&result)
        }
        66 => {
            let request: ListBackupsRequest = payload.read()?;
            services.permit(caller, &METHODS[66], Some(&request.instance)).await?;
            let result = services.list_backups(caller, request).await?;
            codec.message(&result)
        }
        67 => {
            let request: DownloadBackupRequest = payload.read()?;
            services.permit(caller, &METHODS[67], Some(&request.instance)).await?;
            let result = services.download_backup(caller, request).await?;
            Ok(codec.raw_stream(result))
        }
        68 => {
            let request: DeleteBackupRequest = payload.read()?;
            services.permit(caller, &METHODS[68], Some(&request.instance)).await?;
            let result = services.delete_backup(caller, request).await?;
            codec.message(&result)
        }
        69 => {
            let request: RestoreBackupRequest = payload.read()?;
            services.permit(caller, &METHODS[69], Some(&request.instance)).await?;
            let result = services.restore_backup(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        70 => {
            let request: ConfirmRestoreRequest = payload.read()?;
            services.permit(caller, &METHODS[70], Some(&request.instance)).await?;
            let result = services.confirm_restore(caller, request).await?;
            codec.message(&result)
        }
        71 => {
            let request: ListManagedClustersRequest = payload.read()?;
            services.permit(caller, &METHODS[71], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[71])?, &fields)?;
            let result = services.list_managed_clusters(caller, request).await?;
            codec.selected(&result, (response(&METHODS[71])?, &fields), &result.version)
        }
        72 => {
            let request: GetManagedClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[72], None).await?;
            let result = services.get_managed_cluster(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        73 => {
            let request: RegisterClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[73], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: ManagedCluster = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.register_cluster(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        74 => {
            let request: ValidateKubeconfigRequest = payload.read()?;
            services.permit(caller, &METHODS[74], None).await?;
            let result = services.validate_kubeconfig(caller, request).await?;
            codec.message(&result)
        }
        75 => {
            let request: UpdateManagedClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[75], None).await?;
            let result = services.update_managed_cluster(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        76 => {
            let request: DeleteManagedClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[76], None).await?;
            let result = services.delete_managed_cluster(caller, request).await?;
            codec.message(&result)
        }
        77 => {
            let request: PutCredentialsRequest = payload.read()?;
            services.permit(caller, &METHODS[77], None).await?;
            let result = services.put_credentials(caller, request).await?;
            codec.message(&result)
        }
        78 => {
            let request: GetCredentialStateRequest = payload.read()?;
            services.permit(caller, &METHODS[78], None).await?;
            let result = services.get_credential_state(caller, request).await?;
            codec.message(&result)
        }
        79 => {
            let request: ListJoinedClustersRequest = payload.read()?;
            services.permit(caller, &METHODS[79], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[79])?, &fields)?;
            let result = services.list_joined_clusters(caller, request).await?;
            codec.selected(&result, (response(&METHODS[79])?, &fields), &result.version)
        }
        80 => {
            let request: GetJoinedClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[80], Some(&request.instance)).await?;
            let result = services.get_joined_cluster(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        81 => {
            let request: JoinClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[81], Some(&request.instance)).await?;
            let result = services.join_cluster(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        82 => {
            let request: UpdateJoinedClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[82], Some(&request.instance)).await?;
            let result = services.update_joined_cluster(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        83 => {
            let request: PreviewRemovalRequest = payload.read()?;
            services.permit(caller, &METHODS[83], Some(&request.instance)).await?;
            let result = services.preview_removal(caller, request).await?;
            codec.message(&result)
        }
        84 => {
            let request: RemoveJoinedClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[84], Some(&request.instance)).await?;
            let result = services.remove_joined_cluster(caller, request).await?;
            codec.message(&result)
        }
        85 => {
            let request: CordonClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[85], Some(&request.instance)).await?;
            let result = services.cordon_cluster(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        86 => {
            let request: UncordonClusterRequest = payload.read()?;
            services.permit(caller, &METHODS[86], Some(&request.instance)).await?;
            let result = services.uncordon_cluster(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        87 => {
            let request: SetTaintsRequest = payload.read()?;
            services.permit(caller, &METHODS[87], Some(&request.instance)).await?;
            let result = services.set_taints(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        88 => {
            let request: SetLabelsRequest = payload.read()?;
            services.permit(caller, &METHODS[88], Some(&request.instance)).await?;
            let result = services.set_labels(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        89 => {
            let request: ListLocationsRequest = payload.read()?;
            services.permit(caller, &METHODS[89], Some(&request.instance)).await?;
            let result = services.list_locations(caller, request).await?;
            codec.message(&result)
        }
        90 => {
            let request: ListClusterLabelsRequest = payload.read()?;
            services.permit(caller, &METHODS[90], Some(&request.instance)).await?;
            let result = services.list_cluster_labels(caller, request).await?;
            codec.message(&result)
        }
        91 => {
            let request: WatchManagedClustersRequest = payload.read()?;
            services.permit(caller, &METHODS[91], None).await?;
            let result = services.watch_managed_clusters(caller, request).await?;
            Ok(codec.stream(result))
        }
        92 => {
            let request: RotateCredentialsRequest = payload.read()?;
            services.permit(caller, &METHODS[92], None).await?;
            let result = services.rotate_credentials(caller, request).await?;
            codec.message(&result)
        }
        93 => {
            let request: WatchJoinedClustersRequest = payload.read()?;
            services.permit(caller, &METHODS[93], Some(&request.instance)).await?;
            let result = services.watch_joined_clusters(caller, request).await?;
            Ok(codec.stream(result))
        }
        94 => {
            let request: CreateRegistrationTokenRequest = payload.read()?;
            services.permit(caller, &METHODS[94], Some(&request.instance)).await?;
            let result = services.create_registration_token(caller, request).await?;
            codec.message(&result)
        }
        95 => {
            let request: ListRegistrationTokensRequest = payload.read()?;
            services.permit(caller, &METHODS[95], Some(&request.instance)).await?;
            let result = services.list_registration_tokens(caller, request).await?;
            codec.message(&result)
        }
        96 => {
            let request: DeleteRegistrationTokenRequest = payload.read()?;
            services.permit(caller, &METHODS[96], Some(&request.instance)).await?;
            let result = services.delete_registration_token(caller, request).await?;
            codec.message(&result)
        }
        97 => {
            let request: ListPendingAgentsRequest = payload.read()?;
            services.permit(caller, &METHODS[97], Some(&request.instance)).await?;
            let result = services.list_pending_agents(caller, request).await?;
            codec.message(&result)
        }
        98 => {
            let request: ApproveAgentRequest = payload.read()?;
            services.permit(caller, &METHODS[98], Some(&request.instance)).await?;
            let result = services.approve_agent(caller, request).await?;
            codec.message(&result)
        }
        99 => {
            let request: ListEventsRequest = payload.read()?;
            services.permit(caller, &METHODS[99], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[99])?, &fields)?;
            let result = services.list_events(caller, request).await?;
            codec.selected(&result, (response(&METHODS[99])?, &fields), &result.version)
        }
        100 => {
            let request: WatchEventsRequest = payload.read()?;
            services.permit(caller, &METHODS[100], Some(&request.instance)).await?;
            let result = services.watch_events(caller, request).await?;
            Ok(codec.stream(result))
        }
        101 => {
            let request: ListEventKindsRequest = payload.read()?;
            services.permit(caller, &METHODS[101], Some(&request.instance)).await?;
            let result = services.list_event_kinds(caller, request).await?;
            codec.message(&result)
        }
        102 => {
            let request: WhyRequest = payload.read()?;
            services.permit(caller, &METHODS[102], Some(&request.instance)).await?;
            let result = services.why(caller, request).await?;
            Ok(codec.raw(result))
        }
        103 => {
            let request: PlanRequest = payload.read()?;
            services.permit(caller, &METHODS[103], Some(&request.instance)).await?;
            let result = services.plan(caller, request).await?;
            Ok(codec.raw(result))
        }
        104 => {
            let request: SimulateFailoverRequest = payload.read()?;
            services.permit(caller, &METHODS[104], Some(&request.instance)).await?;
            let result = services.simulate_failover(caller, request).await?;
            Ok(codec.raw(result))
        }
        105 => {
            let request: GetTopologyRequest = payload.read()?;
            services.permit(caller, &METHODS[105], Some(&request.instance)).await?;
            let result = services.get_topology(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        106 => {
            let request: GetTimelineRequest = payload.read()?;
            services.permit(caller, &METHODS[106], Some(&request.instance)).await?;
            let result = services.get_timeline(caller, request).await?;
            Ok(codec.raw(result))
        }
        107 => {
            let request: WatchTimelineRequest = payload.read()?;
            services.permit(caller, &METHODS[107], Some(&request.instance)).await?;
            let result = services.watch_timeline(caller, request).await?;
            Ok(codec.stream(result))
        }
        108 => {
            let request: ListHistoryRequest = payload.read()?;
            services.permit(caller, &METHODS[108], Some(&request.instance)).await?;
            let result = services.list_history(caller, request).await?;
            codec.message(&result)
        }
        109 => {
            let request: GetGraphRequest = payload.read()?;
            services.permit(caller, &METHODS[109], Some(&request.instance)).await?;
            let result = services.get_graph(caller, request).await?;
            codec.message(&result)
        }
        110 => {
            let request: ListRegistrationsRequest = payload.read()?;
            services.permit(caller, &METHODS[110], None).await?;
            let result = services.list_registrations(caller, request).await?;
            codec.message(&result)
        }
        111 => {
            let request: WatchRegistrationsRequest = payload.read()?;
            services.permit(caller, &METHODS[111], None).await?;
            let result = services.watch_registrations(caller, request).await?;
            Ok(codec.stream(result))
        }
        112 => {
            let request: PushBindingsRequest = payload.read()?;
            services.permit(caller, &METHODS[112], None).await?;
            let result = services.push_bindings(caller, request).await?;
            codec.message(&result)
        }
        113 => {
            let request: AccessListRequest = payload.read()?;
            services.permit(caller, &METHODS[113], None).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[113])?, &fields)?;
            let result = services.list_webhooks(caller, request).await?;
            codec.selected(&result, (response(&METHODS[113])?, &fields), &result.version)
        }
        114 => {
            let request: AccessGetRequest = payload.read()?;
            services.permit(caller, &METHODS[114], None).await?;
            let result = services.get_webhook(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        115 => {
            let request: CreateWebhookRequest = payload.read()?;
            services.permit(caller, &METHODS[115], None).await?;
            let id = request.request_id.clone();
            let sent = prost::Message::encode_to_vec(&request);
            if let Some(earlier) = services.earlier(caller, &id, &sent)? {
                let result: Webhook = prost::Message::decode(&earlier[..]).map_err(Status::internal)?;
                return codec.versioned(&result, &format!("manager:{}", result.etag));
            }
            let result = services.create_webhook(caller, request).await?;
            services.remember(caller, &id, sent, prost::Message::encode_to_vec(&result));
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        116 => {
            let request: UpdateWebhookRequest = payload.read()?;
            services.permit(caller, &METHODS[116], None).await?;
            let result = services.update_webhook(caller, request).await?;
            codec.versioned(&result, &format!("manager:{}", result.etag))
        }
        117 => {
            let request: AccessDeleteRequest = payload.read()?;
            services.permit(caller, &METHODS[117], None).await?;
            let result = services.delete_webhook(caller, request).await?;
            codec.message(&result)
        }
        118 => {
            let request: ListDeliveriesRequest = payload.read()?;
            services.permit(caller, &METHODS[118], None).await?;
            let result = services.list_deliveries(caller, request).await?;
            codec.message(&result)
        }
        119 => {
            let request: RedeliverRequest = payload.read()?;
            services.permit(caller, &METHODS[119], None).await?;
            let result = services.redeliver(caller, request).await?;
            codec.message(&result)
        }
        120 => {
            let request: ListSeriesRequest = payload.read()?;
            services.permit(caller, &METHODS[120], Some(&request.instance)).await?;
            let result = services.list_series(caller, request).await?;
            codec.message(&result)
        }
        121 => {
            let request: QuerySamplesRequest = payload.read()?;
            services.permit(caller, &METHODS[121], Some(&request.instance)).await?;
            let result = services.query_samples(caller, request).await?;
            codec.message(&result)
        }
        122 => {
            let request: ScrapeMetricsRequest = payload.read()?;
            services.permit(caller, &METHODS[122], Some(&request.instance)).await?;
            let result = services.scrape_metrics(caller, request).await?;
            Ok(codec.raw(result))
        }
        123 => {
            let request: QueryPrometheusRequest = payload.read()?;
            services.permit(caller, &METHODS[123], Some(&request.instance)).await?;
            let result = services.query_prometheus(caller, request).await?;
            Ok(codec.raw(result))
        }
        124 => {
            let request: ListPoliciesRequest = payload.read()?;
            services.permit(caller, &METHODS[124], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[124])?, &fields)?;
            let result = services.list_policies(caller, request).await?;
            codec.selected(&result, (response(&METHODS[124])?, &fields), &result.version)
        }
        125 => {
            let request: GetPolicyUsageRequest = payload.read()?;
            services.permit(caller, &METHODS[125], Some(&request.instance)).await?;
            let result = services.get_policy_usage(caller, request).await?;
            codec.message(&result)
        }
        126 => {
            let request: MatchPoliciesRequest = payload.read()?;
            services.permit(caller, &METHODS[126], Some(&request.instance)).await?;
            let result = services.match_policies(caller, request).await?;
            codec.message(&result)
        }
        127 => {
            let request: PreviewPolicyRequest = payload.read()?;
            services.permit(caller, &METHODS[127], Some(&request.instance)).await?;
            let result = services.preview_policy(caller, request).await?;
            codec.message(&result)
        }
        128 => {
            let request: ListKindsRequest = payload.read()?;
            services.permit(caller, &METHODS[128], Some(&request.instance)).await?;
            let result = services.list_kinds(caller, request).await?;
            codec.message(&result)
        }
        129 => {
            let request: ListResourcesRequest = payload.read()?;
            services.permit(caller, &METHODS[129], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let result = services.list_resources(caller, request).await?;
            Ok(codec.raw(result))
        }
        130 => {
            let request: WatchResourcesRequest = payload.read()?;
            services.permit(caller, &METHODS[130], Some(&request.instance)).await?;
            let result = services.watch_resources(caller, request).await?;
            Ok(codec.raw_stream(result))
        }
        131 => {
            let request: GetResourceRequest = payload.read()?;
            services.permit(caller, &METHODS[131], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let result = services.get_resource(caller, request).await?;
            Ok(codec.raw(result))
        }
        132 => {
            let request: CreateResourceRequest = payload.read()?;
            services.permit(caller, &METHODS[132], Some(&request.instance)).await?;
            let result = services.create_resource(caller, request).await?;
            Ok(codec.raw(result))
        }
        133 => {
            let request: UpdateResourceRequest = payload.read()?;
            services.permit(caller, &METHODS[133], Some(&request.instance)).await?;
            let result = services.update_resource(caller, request).await?;
            Ok(codec.raw(result))
        }
        134 => {
            let request: PatchResourceRequest = payload.read()?;
            services.permit(caller, &METHODS[134], Some(&request.instance)).await?;
            let result = services.patch_resource(caller, request).await?;
            Ok(codec.raw(result))
        }
        135 => {
            let request: DeleteResourceRequest = payload.read()?;
            services.permit(caller, &METHODS[135], Some(&request.instance)).await?;
            let result = services.delete_resource(caller, request).await?;
            Ok(codec.raw(result))
        }
        136 => {
            let request: BatchApplyRequest = payload.read()?;
            services.permit(caller, &METHODS[136], Some(&request.instance)).await?;
            let result = services.batch_apply(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        137 => {
            let request: RevealSecretRequest = payload.read()?;
            services.permit(caller, &METHODS[137], Some(&request.instance)).await?;
            let result = services.reveal_secret(caller, request).await?;
            Ok(codec.raw(result))
        }
        138 => {
            let request: SearchRequest = payload.read()?;
            services.permit(caller, &METHODS[138], None).await?;
            services.reached(caller, &request.at_least).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[138])?, &fields)?;
            let result = services.search(caller, request).await?;
            codec.selected(&result, (response(&METHODS[138])?, &fields), "")
        }
        139 => {
            let request: SuggestRequest = payload.read()?;
            services.permit(caller, &METHODS[139], None).await?;
            let result = services.suggest(caller, request).await?;
            codec.message(&result)
        }
        140 => {
            let request: ListSourcesRequest = payload.read()?;
            services.permit(caller, &METHODS[140], None).await?;
            let result = services.list_sources(caller, request).await?;
            codec.message(&result)
        }
        141 => {
            let request: SearchRequest = payload.read()?;
            services.permit(caller, &METHODS[141], None).await?;
            services.reached(caller, &request.at_least).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check_none(&fields)?;
            let result = services.export(caller, request).await?;
            Ok(codec.raw_stream(result))
        }
        142 => {
            let request: ListCollectionsRequest = payload.read()?;
            services.permit(caller, &METHODS[142], None).await?;
            let result = services.list_collections(caller, request).await?;
            codec.message(&result)
        }
        143 => {
            let request: GetCollectionRequest = payload.read()?;
            services.permit(caller, &METHODS[143], None).await?;
            services.reached(caller, &request.at_least).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[143])?, &fields)?;
            let result = services.get_collection(caller, request).await?;
            codec.selected(&result, (response(&METHODS[143])?, &fields), "")
        }
        144 => {
            let request: GetLoginOptionsRequest = payload.read()?;
            services.permit(caller, &METHODS[144], None).await?;
            let result = services.get_login_options(caller, request).await?;
            codec.message(&result)
        }
        145 => {
            let request: LoginRequest = payload.read()?;
            services.permit(caller, &METHODS[145], None).await?;
            let result = services.login(caller, request).await?;
            codec.message(&result)
        }
        146 => {
            let request: WhoAmIRequest = payload.read()?;
            services.permit(caller, &METHODS[146], None).await?;
            let result = services.who_am_i(caller, request).await?;
            codec.message(&result)
        }
        147 => {
            let request: ChangePasswordRequest = payload.read()?;
            services.permit(caller, &METHODS[147], None).await?;
            let result = services.change_password(caller, request).await?;
            codec.message(&result)
        }
        148 => {
            let request: CreateAccessTokenRequest = payload.read()?;
            services.permit(caller, &METHODS[148], None).await?;
            let result = services.create_access_token(caller, request).await?;
            codec.message(&result)
        }
        149 => {
            let request: ListAccessTokensRequest = payload.read()?;
            services.permit(caller, &METHODS[149], None).await?;
            let result = services.list_access_tokens(caller, request).await?;
            codec.message(&result)
        }
        150 => {
            let request: RevokeAccessTokenRequest = payload.read()?;
            services.permit(caller, &METHODS[150], None).await?;
            let result = services.revoke_access_token(caller, request).await?;
            codec.message(&result)
        }
        151 => {
            let request: LogoutRequest = payload.read()?;
            services.permit(caller, &METHODS[151], None).await?;
            let result = services.logout(caller, request).await?;
            codec.message(&result)
        }
        152 => {
            let request: ListSessionsRequest = payload.read()?;
            services.permit(caller, &METHODS[152], None).await?;
            let result = services.list_sessions(caller, request).await?;
            codec.message(&result)
        }
        153 => {
            let request: RevokeSessionRequest = payload.read()?;
            services.permit(caller, &METHODS[153], None).await?;
            let result = services.revoke_session(caller, request).await?;
            codec.message(&result)
        }
        154 => {
            let request: StartOidcRequest = payload.read()?;
            services.permit(caller, &METHODS[154], None).await?;
            let result = services.start_oidc(caller, request).await?;
            codec.message(&result)
        }
        155 => {
            let request: FinishOidcRequest = payload.read()?;
            services.permit(caller, &METHODS[155], None).await?;
            let result = services.finish_oidc(caller, request).await?;
            codec.message(&result)
        }
        156 => {
            let request: ListWorkloadsRequest = payload.read()?;
            services.permit(caller, &METHODS[156], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let fields = request.fields.clone().unwrap_or_default().paths;
            fields::check(response(&METHODS[156])?, &fields)?;
            let result = services.list_workloads(caller, request).await?;
            codec.selected(&result, (response(&METHODS[156])?, &fields), &result.version)
        }
        157 => {
            let request: GetWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[157], Some(&request.instance)).await?;
            services.reached(caller, std::slice::from_ref(&request.at_least)).await?;
            let result = services.get_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        158 => {
            let request: ListWorkloadPodsRequest = payload.read()?;
            services.permit(caller, &METHODS[158], Some(&request.instance)).await?;
            let result = services.list_workload_pods(caller, request).await?;
            codec.message(&result)
        }
        159 => {
            let request: RestartWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[159], Some(&request.instance)).await?;
            let result = services.restart_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        160 => {
            let request: PauseWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[160], Some(&request.instance)).await?;
            let result = services.pause_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        161 => {
            let request: ResumeWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[161], Some(&request.instance)).await?;
            let result = services.resume_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        162 => {
            let request: ScaleWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[162], Some(&request.instance)).await?;
            let result = services.scale_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        163 => {
            let request: ListPromotableRequest = payload.read()?;
            services.permit(caller, &METHODS[163], Some(&request.instance)).await?;
            let result = services.list_promotable(caller, request).await?;
            codec.message(&result)
        }
        164 => {
            let request: PreviewPromotionRequest = payload.read()?;
            services.permit(caller, &METHODS[164], Some(&request.instance)).await?;
            let result = services.preview_promotion(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        165 => {
            let request: PromoteWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[165], Some(&request.instance)).await?;
            let result = services.promote_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        166 => {
            let request: RollbackWorkloadRequest = payload.read()?;
            services.permit(caller, &METHODS[166], Some(&request.instance)).await?;
            let result = services.rollback_workload(caller, request).await?;
            codec.versioned(&result, &result.version)
        }
        _ => Err(Status::method_not_served()),
    }
}

fn response(method: &'static Method) -> Result<&'static Message, Status> {
    method.response.ok_or_else(|| Status::internal("the result has no table of fields"))
}
