//! `InstanceService`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_client::{DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use futures::stream;
use instances::directory::InstanceEntry;
use instances::import;
use instances::plane::Connection;
use manager_api::*;
use manager_kinds::annotations::{self, DISPLAY_NAME, MODE, Mode as PlaneMode};
use manager_kinds::permissions::Verdict;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::builtin;
use object::{Object, Status, conditions};
use serde_json::{Value, json};
use transcode::Raw;
use transcode::call::Results;
use transcode::errors::failed_precondition;

use super::convert::timestamp;
use super::instance_patch::{OUTPUT_ONLY, UPDATABLE, desired};
use super::instance_view::{InstanceWatch, VisibleInstance};
use super::lists::{ListRequest, PAGE_SIZE_MAX, page};
use super::{ApiCaller, ManagerApi, instance_view};
use crate::kubeconfigs::{KubeconfigAddress, VALID_DEFAULT};
use crate::tokens::{TokenInfo, VALID_MAX};

const FIELD_MANAGER: &str = "flotilla";
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Warnings in an overview.
const WARNINGS_MAX: usize = 10;

impl ManagerApi {
    /// Returns an instance that the gate has allowed.
    pub(super) fn entry(&self, name: &str) -> Result<InstanceEntry, Status> {
        let missing = || Status::not_found(&KARMADAS.gvr().group_resource(), name);
        self.operations.directory.find(name).ok_or_else(missing)
    }

    pub(super) fn shown_object(
        &self,
        caller: &ApiCaller,
        object: &Arc<Object>,
        name: &str,
    ) -> Result<Instance, Status> {
        let entry = InstanceEntry { object: Arc::clone(object), running: None };
        instance_view::shown(&self.operations, &caller.user, &entry)
            .ok_or_else(|| Status::not_found(&KARMADAS.gvr().group_resource(), name))
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

    /// The same, if the instance has a version.
    async fn patched(
        &self,
        caller: &ApiCaller,
        name: &str,
        mut patch: Value,
        (etag, dry_run): (&str, bool),
    ) -> Result<Instance, Status> {
        if !etag.is_empty() {
            patch["metadata"]["resourceVersion"] = etag.into();
        }
        let patched = self.patch_instance(name, patch, dry_run).await?;
        self.shown_object(caller, &patched, name)
    }

    /// Takes all clusters out of an instance, so that it can be deleted. Its deletion waits until they are gone.
    async fn remove_clusters(&self, caller: &ApiCaller, name: &str, dry_run: bool) -> Result<(), Status> {
        let preview = self.operations.preview_deletion(&caller.user, name).await?;
        if preview.is_protected {
            return Err(failed_precondition(format!("the instance {name} is protected: remove the protection first")));
        }
        for cluster in &preview.clusters {
            match self.unjoin(caller, (name, cluster), dry_run).await {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
        }
        Ok(())
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
        let visible = instance_view::visible(&self.operations, &caller.user);
        let version = visible.iter().filter_map(VisibleInstance::version).max();
        let list = ListRequest {
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
            page: request.page,
            include_total: request.include_total,
            scope: format!("kindless instances {}", caller.user.name),
        };
        let found = page(&self.page_key, visible, &list)?;
        Ok(ListInstancesResponse {
            instances: found.items.iter().map(VisibleInstance::message).collect(),
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
        let watch = InstanceWatch::new(&self.operations, &caller.user, &request.filter)?;
        Ok(Box::pin(stream::unfold(watch, |mut watch| async move {
            let event = watch.next().await;
            Some((Ok(event), watch))
        })))
    }

    async fn get_instance(&self, caller: &ApiCaller, request: GetInstanceRequest) -> Result<Instance, Status> {
        let entry = self.entry(&request.name)?;
        self.shown_object(caller, &entry.object, &request.name)
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
        if request.validate_only {
            let checked = self.operations.check_import(&caller.user, &request.name, &request.kubeconfig).await?;
            return self.shown_object(caller, &checked, &request.name);
        }
        let imported = self.operations.import_instance(&caller.user, &request.name, &request.kubeconfig).await?;
        self.operations.directory.note(&imported);
        if request.display_name.is_empty() {
            return self.shown_object(caller, &imported, &request.name);
        }
        let patch = json!({"metadata": {"annotations": {DISPLAY_NAME: request.display_name}}});
        self.patched(caller, &request.name, patch, ("", false)).await
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
        if request.force && !request.keep {
            self.remove_clusters(caller, &request.name, request.validate_only).await?;
        }
        if request.validate_only {
            let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
            return self.system.delete(ResourceRef::of(&KARMADAS.gvr(), &entry.object), options).await.map(drop);
        }
        if request.force && !request.keep {
            let client = self.operations.client_as(&caller.user).map_err(Status::internal)?;
            let target = ResourceRef::of(&KARMADAS.gvr(), &entry.object);
            return client.delete(target, DeleteOptions::default()).await.map(drop);
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
        let mode = (request.etag.as_str(), request.validate_only);
        self.patched(caller, &request.name, json!({"spec": {"suspend": true}}), mode).await
    }

    async fn resume_instance(&self, caller: &ApiCaller, request: ResumeInstanceRequest) -> Result<Instance, Status> {
        let mode = (request.etag.as_str(), request.validate_only);
        self.patched(caller, &request.name, json!({"spec": {"suspend": false}}), mode).await
    }

    async fn restart_instance(&self, caller: &ApiCaller, request: RestartInstanceRequest) -> Result<Instance, Status> {
        let now = object::time::format_micros(jiff::Timestamp::now());
        let patch = json!({"metadata": {"annotations": {annotations::RESTARTED_AT: now}}});
        self.patched(caller, &request.name, patch, (&request.etag, request.validate_only)).await
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
        self.patched(caller, &request.name, patch, (&request.etag, request.validate_only)).await
    }

    async fn wake_instance(&self, caller: &ApiCaller, request: WakeInstanceRequest) -> Result<Instance, Status> {
        let entry = self.entry(&request.name)?;
        if !request.validate_only && self.operations.directory.connect(&entry).await.is_none() {
            let text = format!("the instance {} does not start: its phase is {}", request.name, entry.phase());
            return Err(Status::unavailable(text));
        }
        self.shown_object(caller, &self.entry(&request.name)?.object, &request.name)
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
        let instance = self.shown_object(caller, &self.entry(&request.name)?.object, &request.name)?;
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
        if request.validate_only {
            self.operations.check_kubeconfig(&caller.user, &request.instance, scope)?;
            return Ok(Kubeconfig { user: caller.user.name.clone(), instance: request.instance, ..Default::default() });
        }
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
        match request.validate_only {
            true => self.operations.own_kubeconfig(&caller.user, &request.id).await,
            false => self.operations.revoke_kubeconfig(&caller.user, &request.id).await,
        }
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
