//! `InstanceService`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_client::{DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use futures::stream;
use instances::directory::InstanceEntry;
use instances::import;
use instances::plane::Connection;
use manager_api::*;
use manager_kinds::annotations::{self, DESCRIPTION, DISPLAY_NAME, EXPOSE, HIBERNATE_AFTER, MODE, Mode as PlaneMode};
use manager_kinds::grants::PlatformRole;
use manager_kinds::permissions::Verdict;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::builtin;
use object::{Object, Status, conditions};
use serde_json::{Value, json};
use transcode::Raw;
use transcode::call::Results;
use transcode::errors::failed_precondition;

use super::convert::{conditions_of, created, labels, quantities, statistic, timestamp};
use super::instance_patch::{OUTPUT_ONLY, UPDATABLE, desired};
use super::lists::{ListRequest, PAGE_SIZE_MAX, page};
use super::query::{Found, Query};
use super::{ApiCaller, ManagerApi};
use crate::kubeconfigs::{KubeconfigAddress, VALID_DEFAULT};
use crate::tokens::{TokenInfo, VALID_MAX};

const FIELD_MANAGER: &str = "flotilla";
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Warnings in an overview.
const WARNINGS_MAX: usize = 10;

/// The part of an instance that a caller sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Full,
    /// Names and states.
    Reduced,
}

impl ManagerApi {
    fn view(&self, caller: &ApiCaller, entry: &InstanceEntry) -> Option<View> {
        let access = self.operations.rights.instance_access(&caller.user, &entry.name());
        if access.role.is_some() {
            return Some(View::Full);
        }
        let platform = self.operations.rights.platform_roles(&caller.user);
        let sees_names = platform.contains(&PlatformRole::Auditor) || platform.contains(&PlatformRole::IamOwner);
        (sees_names || access.sees_instance()).then_some(View::Reduced)
    }

    /// Returns an instance that the gate has allowed.
    pub(super) fn entry(&self, name: &str) -> Result<InstanceEntry, Status> {
        let missing = || Status::not_found(&KARMADAS.gvr().group_resource(), name);
        self.operations.directory.find(name).ok_or_else(missing)
    }

    fn shown(&self, caller: &ApiCaller, entry: &InstanceEntry) -> Option<Instance> {
        let view = self.view(caller, entry)?;
        let access = self.operations.rights.instance_access(&caller.user, &entry.name());
        let mut instance = message(&entry.object, &entry.name(), view);
        instance.role = access.role.map(|role| role.name().to_owned()).unwrap_or_default();
        let roles = access.namespaces.iter();
        instance.namespace_roles = roles.map(|(name, role)| (name.clone(), role.name().to_owned())).collect();
        Some(instance)
    }

    pub(super) fn shown_object(
        &self,
        caller: &ApiCaller,
        object: &Arc<Object>,
        name: &str,
    ) -> Result<Instance, Status> {
        let entry = InstanceEntry { object: Arc::clone(object), running: None };
        self.shown(caller, &entry).ok_or_else(|| Status::not_found(&KARMADAS.gvr().group_resource(), name))
    }

    /// Administrators of one instance do not choose what it takes from the manager or shares with other instances: with the
    /// Secrets or the storage of another instance they would have its data.
    fn require_owner(&self, caller: &ApiCaller, entry: &InstanceEntry, wanted: &Object) -> Result<(), Status> {
        let is_owner = self.verdict(&caller.user, "instances.create", None) == Verdict::Allowed;
        if is_owner || !manager_kinds::spec::refers_elsewhere(&entry.object, wanted) {
            return Ok(());
        }
        let text = "etcd, certificates and the kubeconfig of an instance need the permission instances.create";
        Err(Status::new(403, "Forbidden", text))
    }

    /// Patches the object of an instance after the permission was checked.
    pub(super) async fn patch_instance(&self, name: &str, patch: Value, dry_run: bool) -> Result<Arc<Object>, Status> {
        let entry = self.entry(name)?;
        let target = ResourceRef::of(&KARMADAS.gvr(), &entry.object);
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let patched = self.system.patch(target, Patch::merge(patch), options).await?;
        if !dry_run {
            self.operations.directory.note(&patched);
        }
        Ok(patched)
    }

    async fn patched(&self, caller: &ApiCaller, name: &str, patch: Value) -> Result<Instance, Status> {
        let patched = self.patch_instance(name, patch, false).await?;
        self.shown_object(caller, &patched, name)
    }
}

fn state(phase: &str) -> State {
    match phase {
        "Running" => State::Running,
        "Degraded" | "Failed" => State::Unavailable,
        "Stopping" | "Deleting" => State::Terminal,
        "Suspended" => State::Suspended,
        "Hibernated" => State::Hibernated,
        "" | "Pending" | "Preparing" | "Starting" => State::Inprocess,
        _ => State::Unspecified,
    }
}

fn mode(mode: PlaneMode) -> Mode {
    match mode {
        PlaneMode::InProcess => Mode::InProcess,
        PlaneMode::Process => Mode::Process,
        PlaneMode::Imported => Mode::Imported,
    }
}

fn message(object: &Object, name: &str, view: View) -> Instance {
    let settings = annotations::read(object).0;
    let text = |field: &str| object.str_at(&["status", field]).to_owned();
    let phase = text("phase");
    let annotation = |key: &str| object.annotation(key).unwrap_or_default().to_owned();
    let reduced = Instance {
        name: name.to_owned(),
        uid: object.uid().to_owned(),
        display_name: annotation(DISPLAY_NAME),
        state: state(&phase).into(),
        mode: mode(settings.mode).into(),
        create_time: created(object),
        phase,
        reduced: view == View::Reduced,
        ..Instance::default()
    };
    if view == View::Reduced {
        return reduced;
    }
    let own = |(key, _): &(&str, &str)| !key.starts_with("flotilla.dev/") && !key.starts_with("kubectl.kubernetes.io/");
    let annotations = object.annotations().filter(own);
    let ready = conditions::find(object, "Ready");
    Instance {
        namespace: object.namespace().to_owned(),
        etag: object.resource_version().to_owned(),
        description: annotation(DESCRIPTION),
        labels: labels(object),
        annotations: annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        message: ready.filter(|ready| !ready.is_true()).map(|ready| ready.message().to_owned()).unwrap_or_default(),
        suspended: object.bool_at(&["spec", "suspend"]) == Some(true),
        protected: settings.is_protected,
        hibernate_after: annotation(HIBERNATE_AFTER),
        expose: annotation(EXPOSE),
        start_time: timestamp(object.str_at(&["status", "startedAt"])),
        karmada_version: text("karmadaVersion"),
        kubernetes_version: text("kubernetesVersion"),
        endpoint: text("endpoint"),
        summary: object.get(&["status", "summary"]).map(summary),
        conditions: conditions_of(object),
        spec: object.get(&["spec"]).and_then(Value::as_object).cloned().map(json::object::from_json),
        ..reduced
    }
}

fn summary(value: &Value) -> Summary {
    let counts = |field: &str| -> BTreeMap<String, i64> {
        let fields = value[field].as_object().into_iter().flatten();
        fields.map(|(name, count)| (name.clone(), count.as_i64().unwrap_or_default())).collect()
    };
    let workloads = value["workLoadSummary"].as_object().into_iter().flatten();
    let total = |field: &str| value[field]["total"].as_i64().map(|total| NumStatistic { total, ready: 0 });
    Summary {
        clusters: statistic(value.get("clusterSummary")),
        nodes: statistic(value.get("nodeSummary")),
        resources: counts("resourceTotalNum"),
        workloads: workloads.filter_map(|(name, value)| Some((name.clone(), statistic(Some(value))?))).collect(),
        policies: counts("policyTotalNum").values().sum(),
        bindings: total("bindings"),
        works: total("works"),
        allocatable: quantities(value["resourceSummary"].get("allocatable")),
        allocated: quantities(value["resourceSummary"].get("allocated")),
    }
}

fn kubeconfig_message(token: &TokenInfo, kubeconfig: String) -> Kubeconfig {
    Kubeconfig {
        id: token.id.clone(),
        user: token.user.clone(),
        instance: token.instance.clone().unwrap_or_default(),
        create_time: timestamp(&token.issued_at),
        expire_time: timestamp(&token.expires_at),
        kubeconfig,
    }
}

/// Reads the number of seconds of a request; 0 means the default.
pub fn validity(seconds: i64) -> Result<Duration, Status> {
    match u64::try_from(seconds) {
        Ok(0) => Ok(VALID_DEFAULT),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => Err(Status::bad_request("expirationSeconds: must not be negative")),
    }
}

/// Requires that a dangerous request repeats the name.
pub fn confirmed(name: &str, confirm_name: &str) -> Result<(), Status> {
    match name == confirm_name {
        true => Ok(()),
        false => Err(failed_precondition(format!("confirmName: must be {name:?}"))),
    }
}

#[async_trait]
impl InstanceService<ApiCaller> for ManagerApi {
    async fn list_instances(
        &self,
        caller: &ApiCaller,
        request: ListInstancesRequest,
    ) -> Result<ListInstancesResponse, Status> {
        let entries = self.operations.directory.list().into_iter();
        let visible: Vec<Arc<Object>> =
            entries.filter(|entry| self.view(caller, entry).is_some()).map(|entry| entry.object).collect();
        let version = visible.iter().filter_map(|object| object.resource_version().parse::<u64>().ok()).max();
        let list = ListRequest {
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
            page: request.page,
            scope: format!("kindless instances {}", caller.user.name),
        };
        let found = page(&self.page_key, visible, &list)?;
        let shown =
            found.items.into_iter().filter_map(|object| self.shown(caller, &InstanceEntry { object, running: None }));
        Ok(ListInstancesResponse {
            instances: shown.collect(),
            next_page_token: found.next_page_token,
            total: found.total,
            version: version.map(|version| format!("manager:{version}")).unwrap_or_default(),
        })
    }

    async fn watch_instances(
        &self,
        caller: &ApiCaller,
        request: WatchInstancesRequest,
    ) -> Result<Results<InstanceEvent>, Status> {
        let query = Query::parse(&request.filter, jiff::Timestamp::now())?;
        let watch = Watch {
            operations: Arc::clone(&self.operations),
            user: Arc::clone(&caller.user),
            query,
            sent: BTreeMap::new(),
            is_synced: false,
            pending: Vec::new(),
            rights: self.operations.rights.changes(),
            changes: self.operations.directory.changes(),
        };
        Ok(Box::pin(stream::unfold(watch, |mut watch| async move {
            let event = watch.next().await;
            Some((Ok(event), watch))
        })))
    }

    async fn get_instance(&self, caller: &ApiCaller, request: GetInstanceRequest) -> Result<Instance, Status> {
        let entry = self.entry(&request.name)?;
        let missing = || Status::not_found(&KARMADAS.gvr().group_resource(), &request.name);
        self.shown(caller, &entry).ok_or_else(missing)
    }

    async fn get_instance_manifest(&self, _: &ApiCaller, request: GetInstanceManifestRequest) -> Result<Raw, Status> {
        let entry = self.entry(&request.name)?;
        Ok(Raw::text("application/yaml", object::yaml::to_string(entry.object.unmanaged().as_value())))
    }

    async fn create_instance(&self, caller: &ApiCaller, request: CreateInstanceRequest) -> Result<Instance, Status> {
        let wanted = request.instance.unwrap_or_default();
        let (namespace, name) = wanted.name.split_once('~').unwrap_or((INSTANCE_NAMESPACE, &wanted.name));
        let mut value = desired(&wanted, &[])?;
        let mode = match Mode::try_from(wanted.mode) {
            Ok(Mode::Unspecified | Mode::InProcess) => None,
            Ok(Mode::Process) => Some(PlaneMode::Process),
            _ => return Err(Status::bad_request("mode: must be MODE_IN_PROCESS or MODE_PROCESS; import others")),
        };
        if let Some(mode) = mode {
            value["metadata"]["annotations"][MODE] = mode.name().into();
        }
        let mut object = KARMADAS.object(namespace, name);
        object.set(&["metadata", "annotations"], value["metadata"]["annotations"].take());
        object.set(&["metadata", "labels"], value["metadata"]["labels"].take());
        object.set(&["spec"], value["spec"].take());
        let client = self.operations.client_as(&caller.user).map_err(Status::internal)?;
        let options = WriteOptions { dry_run: request.validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let created = client.create(ResourceRef::within(&KARMADAS.gvr(), namespace), object, options).await?;
        if !request.validate_only {
            self.operations.directory.note(&created);
        }
        if request.wait && !request.validate_only {
            let ready = self.operations.wait_until_ready(&wanted.name, WAIT_MAX).await;
            let entry = ready.map_err(|problem| Status::timeout(format!("the instance is not ready: {problem}")))?;
            return self.shown_object(caller, &entry.object, &wanted.name);
        }
        self.shown_object(caller, &created, &wanted.name)
    }

    async fn import_instance(&self, caller: &ApiCaller, request: ImportInstanceRequest) -> Result<Instance, Status> {
        let imported = self.operations.import_instance(&caller.user, &request.name, &request.kubeconfig).await?;
        self.operations.directory.note(&imported);
        if request.display_name.is_empty() {
            return self.shown_object(caller, &imported, &request.name);
        }
        let patch = json!({"metadata": {"annotations": {DISPLAY_NAME: request.display_name}}});
        self.patched(caller, &request.name, patch).await
    }

    async fn validate_import(
        &self,
        _: &ApiCaller,
        request: ValidateImportRequest,
    ) -> Result<ValidateImportResponse, Status> {
        let invalid = |problem: String| Status::bad_request(format!("kubeconfig: {problem}"));
        let plane = import::connect(&request.kubeconfig, self.operations.endpoints).await.map_err(invalid)?;
        let version = plane.admin.get_json("/version").await?;
        let namespaces = builtin::namespaces();
        let system = plane.admin.find(ResourceRef::cluster(&namespaces, "kube-system")).await?;
        let (server, can_impersonate) = match &plane.connection {
            Connection::Remote(remote) => (remote.config.server.clone(), remote.can_impersonate),
            Connection::InProcess(_) => (String::new(), true),
        };
        plane.task.stop().await;
        Ok(ValidateImportResponse {
            server,
            can_impersonate,
            kubernetes_version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            identity: system.map(|system| system.uid().to_owned()).unwrap_or_default(),
        })
    }

    async fn update_instance(&self, caller: &ApiCaller, request: UpdateInstanceRequest) -> Result<Instance, Status> {
        let wanted = request.instance.unwrap_or_default();
        let mask = request.update_mask.unwrap_or_default().paths;
        let given: Vec<&str> = mask.iter().map(String::as_str).filter(|path| !OUTPUT_ONLY.contains(path)).collect();
        let fields = if mask.is_empty() { UPDATABLE.to_vec() } else { given };
        if let Some(unknown) = fields.iter().find(|field| !UPDATABLE.contains(field)) {
            return Err(Status::bad_request(format!("updateMask: {unknown} cannot be changed")));
        }
        let mut patch = desired(&wanted, &fields)?;
        if !wanted.etag.is_empty() {
            patch["metadata"]["resourceVersion"] = wanted.etag.clone().into();
        }
        let planned = self.patch_instance(&wanted.name, patch.clone(), true).await?;
        self.require_owner(caller, &self.entry(&wanted.name)?, &planned)?;
        if request.validate_only {
            return self.shown_object(caller, &planned, &wanted.name);
        }
        let patched = self.patch_instance(&wanted.name, patch, false).await?;
        self.shown_object(caller, &patched, &wanted.name)
    }

    async fn apply_instance_manifest(
        &self,
        caller: &ApiCaller,
        request: ApplyInstanceManifestRequest,
    ) -> Result<Instance, Status> {
        let entry = self.entry(&request.name)?;
        let body = request.manifest.unwrap_or_default();
        let manifests = super::resources::manifests(&body.data)?;
        let [manifest] = &manifests[..] else { return Err(Status::bad_request("the body must be one manifest")) };
        let is_same = manifest.kind() == "Karmada" && manifest.name() == entry.object.name();
        if !is_same {
            return Err(Status::bad_request(format!("the manifest must be the Karmada {}", entry.object.name())));
        }
        let mut wanted = (*entry.object).clone();
        let version = manifest.resource_version();
        if !version.is_empty() {
            wanted.set(&["metadata", "resourceVersion"], version);
        }
        for path in [&["spec"][..], &["metadata", "labels"], &["metadata", "annotations"]] {
            wanted.set(path, manifest.get(path).cloned().unwrap_or_else(|| json!({})));
        }
        self.require_owner(caller, &entry, &wanted)?;
        let options = WriteOptions { dry_run: request.validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let target = ResourceRef::of(&KARMADAS.gvr(), &entry.object);
        let written = self.system.update(target, wanted, options).await?;
        if !request.validate_only {
            self.operations.directory.note(&written);
        }
        self.shown_object(caller, &written, &request.name)
    }

    async fn delete_instance(&self, caller: &ApiCaller, request: DeleteInstanceRequest) -> Result<(), Status> {
        confirmed(&request.name, &request.confirm_name)?;
        let entry = self.entry(&request.name)?;
        if !request.etag.is_empty() && request.etag != entry.object.resource_version() {
            return Err(Status::stale(&KARMADAS.gvr().group_resource(), &request.name));
        }
        if request.validate_only {
            let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
            return self.system.delete(ResourceRef::of(&KARMADAS.gvr(), &entry.object), options).await.map(drop);
        }
        let deleted = self.operations.delete_instance(&caller.user, &request.name, request.keep).await;
        deleted.map_err(|status| match status.is_conflict() {
            true => failed_precondition(status.message),
            false => status,
        })
    }

    async fn preview_deletion(
        &self,
        caller: &ApiCaller,
        request: PreviewDeletionRequest,
    ) -> Result<DeletionPreview, Status> {
        let preview = self.operations.preview_deletion(&caller.user, &request.name).await?;
        Ok(DeletionPreview {
            clusters: preview.clusters,
            unknown: preview.is_unknown,
            keeps_plane: preview.keeps_plane,
            protected: preview.is_protected,
        })
    }

    async fn suspend_instance(&self, caller: &ApiCaller, request: SuspendInstanceRequest) -> Result<Instance, Status> {
        self.patched(caller, &request.name, json!({"spec": {"suspend": true}})).await
    }

    async fn resume_instance(&self, caller: &ApiCaller, request: ResumeInstanceRequest) -> Result<Instance, Status> {
        self.patched(caller, &request.name, json!({"spec": {"suspend": false}})).await
    }

    async fn restart_instance(&self, caller: &ApiCaller, request: RestartInstanceRequest) -> Result<Instance, Status> {
        let now = object::time::format_micros(jiff::Timestamp::now());
        let patch = json!({"metadata": {"annotations": {annotations::RESTARTED_AT: now}}});
        self.patched(caller, &request.name, patch).await
    }

    async fn hibernate_instance(
        &self,
        caller: &ApiCaller,
        request: HibernateInstanceRequest,
    ) -> Result<Instance, Status> {
        let entry = self.entry(&request.name)?;
        let (settings, _) = annotations::read(&entry.object);
        if settings.mode == PlaneMode::Imported {
            let text = format!("the instance {} is imported: its control plane is not stopped from here", request.name);
            return Err(failed_precondition(text));
        }
        let preview = self.operations.preview_deletion(&caller.user, &request.name).await?;
        if !preview.clusters.is_empty() {
            let joined = preview.clusters.join(", ");
            let text = format!("the instance {} has joined clusters, which need it: {joined}", request.name);
            return Err(failed_precondition(text));
        }
        let now = object::time::format_micros(jiff::Timestamp::now());
        let patch = json!({"metadata": {"annotations": {annotations::HIBERNATED_AT: now}}});
        self.patched(caller, &request.name, patch).await
    }

    async fn wake_instance(&self, caller: &ApiCaller, request: WakeInstanceRequest) -> Result<Instance, Status> {
        let entry = self.entry(&request.name)?;
        if self.operations.directory.connect(&entry).await.is_none() {
            let text = format!("the instance {} does not start: its phase is {}", request.name, entry.phase());
            return Err(Status::unavailable(text));
        }
        self.get_instance(caller, GetInstanceRequest { name: request.name }).await
    }

    async fn get_server_config(&self, caller: &ApiCaller, _: GetServerConfigRequest) -> Result<ServerConfig, Status> {
        let client = self.operations.client_as(&caller.user).map_err(Status::internal)?;
        let version = client.get_json("/version").await?;
        Ok(ServerConfig {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            karmada_version: manager_kinds::instance::KARMADA_VERSION.to_owned(),
            kubernetes_version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            modes: PlaneMode::NAMES.iter().map(|name| (*name).to_owned()).collect(),
            url: self.operations.url.clone(),
            page_size_max: i32::try_from(PAGE_SIZE_MAX).unwrap_or(i32::MAX),
            kubeconfig_seconds_max: i64::try_from(VALID_MAX.as_secs()).unwrap_or(i64::MAX),
            oidc: self.oidc_issuer.is_some(),
        })
    }

    async fn get_overview(&self, caller: &ApiCaller, request: GetOverviewRequest) -> Result<Overview, Status> {
        let instance = self.get_instance(caller, GetInstanceRequest { name: request.name.clone() }).await?;
        let mut overview = Overview { instance: Some(instance), ..Overview::default() };
        let Ok(client) = self.operations.instance_client(&caller.user, &request.name).await else {
            return Ok(overview);
        };
        let clusters = client.list_all(ResourceRef::all(&api::cluster::CLUSTERS.gvr()), ListOptions::default()).await;
        let unready = |cluster: &&Arc<Object>| !conditions::is_true(cluster, "Ready");
        // Callers with a role in a namespace only may not list clusters or all events.
        let clusters = clusters.map(|list| list.items).unwrap_or_default();
        overview.unready_clusters = clusters.iter().filter(unready).map(|cluster| cluster.name().to_owned()).collect();
        let events = builtin::events();
        let warnings = ListOptions { field_selector: Some("type=Warning".into()), ..ListOptions::default() };
        let mut events =
            client.list_all(ResourceRef::all(&events), warnings).await.map(|list| list.items).unwrap_or_default();
        events.sort_by(|a, b| super::events::last_time(b).cmp(super::events::last_time(a)));
        let shown = events.iter().take(WARNINGS_MAX).map(|event| OverviewEvent {
            namespace: event.namespace().to_owned(),
            object: format!(
                "{}/{}",
                event.str_at(&["involvedObject", "kind"]),
                event.str_at(&["involvedObject", "name"])
            ),
            reason: event.str_at(&["reason"]).to_owned(),
            message: event.str_at(&["message"]).to_owned(),
            time: timestamp(super::events::last_time(event)),
        });
        overview.warnings = shown.collect();
        Ok(overview)
    }

    async fn get_settings(&self, _: &ApiCaller, request: GetSettingsRequest) -> Result<Settings, Status> {
        let entry = self.entry(&request.name)?;
        Ok(super::settings::read(&request.name, &entry.object))
    }

    async fn update_settings(&self, _: &ApiCaller, request: UpdateSettingsRequest) -> Result<Settings, Status> {
        let wanted = request.settings.unwrap_or_default();
        let entry = self.entry(&wanted.name)?;
        if annotations::read(&entry.object).0.mode == PlaneMode::Imported {
            return Err(failed_precondition("the settings of an imported instance are not the manager's"));
        }
        let patch = super::settings::patch(&wanted, &request.update_mask.unwrap_or_default().paths)?;
        let patched = self.patch_instance(&wanted.name, patch, request.validate_only).await?;
        Ok(super::settings::read(&wanted.name, &patched))
    }

    async fn create_kubeconfig(
        &self,
        caller: &ApiCaller,
        request: CreateKubeconfigRequest,
    ) -> Result<Kubeconfig, Status> {
        let valid_for = validity(request.expiration_seconds)?;
        let scope = (valid_for, KubeconfigAddress::parse(&request.address)?);
        let issued = self.operations.issue_kubeconfig(&caller.user, &request.instance, scope).await?;
        Ok(kubeconfig_message(&issued.token, issued.text))
    }

    async fn list_kubeconfigs(
        &self,
        caller: &ApiCaller,
        request: ListKubeconfigsRequest,
    ) -> Result<ListKubeconfigsResponse, Status> {
        let found = self.operations.list_kubeconfigs(&caller.user, &request.instance).await?;
        let kubeconfigs = found.iter().map(|token| kubeconfig_message(token, String::new())).collect();
        Ok(ListKubeconfigsResponse { kubeconfigs })
    }

    async fn revoke_kubeconfig(&self, caller: &ApiCaller, request: RevokeKubeconfigRequest) -> Result<(), Status> {
        self.operations.revoke_kubeconfig(&caller.user, &request.id).await
    }

    async fn list_components(
        &self,
        _: &ApiCaller,
        request: ListComponentsRequest,
    ) -> Result<ListComponentsResponse, Status> {
        self.components(&request.name).await
    }

    async fn diagnose_instance(
        &self,
        caller: &ApiCaller,
        request: DiagnoseInstanceRequest,
    ) -> Result<Diagnosis, Status> {
        self.diagnose(caller, &request.name).await
    }
}

/// Compares what a caller may see with what it was sent, whenever instances or rights change.
struct Watch {
    operations: Arc<crate::operations::Operations>,
    user: Arc<object::request::User>,
    query: Query,
    sent: BTreeMap<String, Instance>,
    is_synced: bool,
    pending: Vec<InstanceEvent>,
    rights: crate::access::RightsChanges,
    changes: reconcile::Subscription,
}

impl Watch {
    async fn next(&mut self) -> InstanceEvent {
        loop {
            if let Some(event) = self.pending.pop() {
                return event;
            }
            self.compare();
            if !self.is_synced {
                self.is_synced = true;
                self.pending.insert(0, InstanceEvent { r#type: ChangeType::Synced.into(), instance: None });
            }
            if self.pending.is_empty() {
                tokio::select! {
                    () = self.rights.next() => {}
                    _ = self.changes.next() => {}
                }
            }
        }
    }

    fn compare(&mut self) {
        let mut now = BTreeMap::new();
        for entry in self.operations.visible_instances(&self.user) {
            let name = entry.name();
            let access = self.operations.rights.instance_access(&self.user, &name);
            let found = Found { instance: &name, cluster: "", object: &entry.object };
            if self.query.matches(&found) {
                let view = if access.role.is_some() { View::Full } else { View::Reduced };
                now.insert(name.clone(), message(&entry.object, &name, view));
            }
        }
        for (name, instance) in &now {
            let kind = match self.sent.get(name) {
                None => ChangeType::Added,
                Some(sent) if sent != instance => ChangeType::Modified,
                Some(_) => continue,
            };
            self.pending.push(InstanceEvent { r#type: kind.into(), instance: Some(instance.clone()) });
        }
        for (name, instance) in &self.sent {
            if !now.contains_key(name) {
                let deleted = InstanceEvent { r#type: ChangeType::Deleted.into(), instance: Some(instance.clone()) };
                self.pending.push(deleted);
            }
        }
        self.sent = now;
    }
}
