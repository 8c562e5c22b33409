//! Life-cycle operations on instances as a user. Each changes the `Karmada` object; the controller does the rest.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use apiserver::direct::Direct;
use apiserver::server::Server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{
    Backend, ClusterClient, ConnectError, DeleteOptions, Endpoint, Identity, ListOptions, Patch, ResourceRef,
    WriteOptions,
};
use instances::directory::{InstanceDirectory, InstanceEntry};
use instances::import::{self, EndpointPolicy};
use instances::plane::Connection;
use jiff::Timestamp;
use manager_kinds::annotations::{IMPORT_KUBECONFIG, MODE, Mode, RESTARTED_AT};
use manager_kinds::grants::{InstanceRole, PlatformRole};
use manager_kinds::instance::{LABEL_KEEP, LABEL_MANAGED_BY, MANAGED_BY};
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::builtin;
use object::request::User;
use object::request::user::AUTHENTICATED_GROUP;
use object::{GroupVersionKind, Object, Status, conditions, time};
use serde_json::{Value, json};

use crate::access::Rights;
use crate::instance_names::InstanceNames;
use crate::proxy::{prepare_member_user, prepare_namespaces};
use crate::tokens::AccessTokens;

const FIELD_MANAGER: &str = "flotilla";
/// Any path below which requests reach a member.
const MEMBER_PATH: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/member/proxy";
const READY_POLL: Duration = Duration::from_millis(20);
/// Secret with the kubeconfig of an imported instance, as `NAME-import`.
const IMPORT_SECRET_SUFFIX: &str = "import";
const IMPORT_KEY: &str = "kubeconfig";

/// The consequences of deleting an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionPreview {
    /// Clusters that are still joined; the deletion waits for their removal.
    pub clusters: Vec<String>,
    /// True when nothing runs that could be asked.
    pub is_unknown: bool,
    pub keeps_plane: bool,
    pub is_protected: bool,
}

/// The operations on instances, for every entry point.
pub struct Operations {
    pub server: Arc<Server>,
    /// The URL of the manager for clients.
    pub url: String,
    /// The CA of the manager's serving certificate.
    pub ca_pem: String,
    /// The instances, by name.
    pub directory: InstanceDirectory,
    pub rights: Rights,
    pub tokens: Arc<AccessTokens>,
    pub endpoints: EndpointPolicy,
    /// Names of instances below a domain, if the manager has one.
    pub names: Option<InstanceNames>,
}

impl Operations {
    /// Returns true for users that may do everything.
    pub fn is_platform_admin(&self, user: &User) -> bool {
        self.rights.platform_roles(user).contains(&PlatformRole::Admin)
    }

    /// Returns a client to the manager's own API as a user; its RBAC decides.
    pub fn client_as(&self, user: &User) -> Result<ClusterClient, ConnectError> {
        let server: Arc<dyn Backend> = Arc::new(Direct::new(Arc::clone(&self.server)));
        ClusterClient::connect(Endpoint::Direct { server, identity: Identity::of(authenticated(user)) })
    }

    /// Returns the instances a user can see.
    pub fn visible_instances(&self, user: &User) -> Vec<InstanceEntry> {
        let all = self.directory.list();
        all.into_iter().filter(|entry| self.rights.instance_access(user, &entry.name()).sees_instance()).collect()
    }

    /// Returns an instance a user can see. Others are reported as missing.
    pub fn visible_instance(&self, user: &User, name: &str) -> Result<InstanceEntry, Status> {
        let missing = || Status::not_found(&KARMADAS.gvr().group_resource(), name);
        let entry = self.directory.find(name).ok_or_else(missing)?;
        match self.rights.instance_access(user, &entry.name()).sees_instance() {
            true => Ok(entry),
            false => Err(missing()),
        }
    }

    /// Returns a client to an instance as a user, with the user's roles in it.
    pub async fn instance_client(&self, user: &User, name: &str) -> Result<ClusterClient, Status> {
        let entry = self.visible_instance(user, name)?;
        let access = self.rights.instance_access(user, &entry.name());
        let running = self.directory.connect(&entry).await;
        let running = running.ok_or_else(|| Status::unavailable(format!("the instance {name} is not running")))?;
        prepare_namespaces(&running, &access).await;
        if let Connection::Remote(remote) = &running.connection
            && !remote.can_impersonate
        {
            if access.role == Some(InstanceRole::Admin) {
                return Ok(running.admin.clone());
            }
            let text =
                "the credential of this imported instance may not impersonate users: only administrators can use it";
            return Err(Status::new(403, "Forbidden", text));
        }
        let acting = crate::identity::in_instance(user, &access);
        running.client_as(authenticated(&acting)).map_err(Status::internal)
    }

    /// Lets members of an instance accept a user before the user's first request to one.
    pub async fn prepare_member_user(&self, user: &User, name: &str) -> Result<(), Status> {
        let entry = self.visible_instance(user, name)?;
        let access = self.rights.instance_access(user, &entry.name());
        match &entry.running {
            Some(running) => prepare_member_user(running, MEMBER_PATH, user, &access).await,
            None => Ok(()),
        }
    }

    /// Creates an instance from a spec, in the default namespace.
    pub async fn create_instance(
        &self,
        user: &User,
        name: &str,
        mode: Mode,
        spec: Value,
    ) -> Result<Arc<Object>, Status> {
        let mut instance = KARMADAS.object(INSTANCE_NAMESPACE, name);
        if mode != Mode::default() {
            instance.set_annotation(MODE, mode.name());
        }
        instance.set(&["spec"], spec);
        self.create(user, instance, false).await
    }

    /// Checks the import of a control plane by its kubeconfig, without storing anything.
    pub async fn check_import(&self, user: &User, name: &str, kubeconfig: &str) -> Result<Arc<Object>, Status> {
        let checked = import::connect(kubeconfig, self.endpoints).await;
        let plane = checked.map_err(|problem| Status::bad_request(format!("kubeconfig: {problem}")))?;
        plane.task.stop().await;
        self.create(user, imported(name), true).await
    }

    /// Imports a control plane by its kubeconfig. Nothing is stored before it was checked and reached.
    pub async fn import_instance(&self, user: &User, name: &str, kubeconfig: &str) -> Result<Arc<Object>, Status> {
        let client = self.client_as(user).map_err(Status::internal)?;
        let checked = import::connect(kubeconfig, self.endpoints).await;
        checked.map_err(|problem| Status::bad_request(format!("kubeconfig: {problem}")))?;
        let secret_name = import_secret(name);
        let mut secret =
            Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(INSTANCE_NAMESPACE), &secret_name);
        secret.set_label(LABEL_MANAGED_BY, MANAGED_BY);
        secret.set(&["data", IMPORT_KEY], STANDARD.encode(kubeconfig));
        let secrets = builtin::secrets();
        let options = || WriteOptions::managed_by(FIELD_MANAGER);
        client.create(ResourceRef::within(&secrets, INSTANCE_NAMESPACE), secret, options()).await?;
        let created = self.create(user, imported(name), false).await;
        if created.is_err() {
            let target = ResourceRef::namespaced(&secrets, INSTANCE_NAMESPACE, &secret_name);
            // The instance was refused; a Secret without one would be left behind.
            let _ = client.delete(target, DeleteOptions::default()).await;
        }
        created
    }

    async fn create(&self, user: &User, instance: Object, dry_run: bool) -> Result<Arc<Object>, Status> {
        let client = self.client_as(user).map_err(Status::internal)?;
        let collection = ResourceRef::within(&KARMADAS.gvr(), instance.namespace());
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        client.create(collection, instance, options).await
    }

    /// Pauses or resumes the life cycle of an instance.
    pub async fn set_suspended(&self, user: &User, name: &str, is_suspended: bool) -> Result<Arc<Object>, Status> {
        self.patch(user, name, json!({"spec": {"suspend": is_suspended}})).await
    }

    /// Restarts the control plane of an instance once.
    pub async fn restart_instance(&self, user: &User, name: &str) -> Result<Arc<Object>, Status> {
        let now = time::format_micros(Timestamp::now());
        self.patch(user, name, json!({"metadata": {"annotations": {RESTARTED_AT: now}}})).await
    }

    pub async fn patch(&self, user: &User, name: &str, patch: Value) -> Result<Arc<Object>, Status> {
        let entry = self.visible_instance(user, name)?;
        let client = self.client_as(user).map_err(Status::internal)?;
        let target = ResourceRef::of(&KARMADAS.gvr(), &entry.object);
        let patched = client.patch(target, Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await?;
        self.directory.note(&patched);
        Ok(patched)
    }

    /// Returns what the deletion of an instance would mean.
    pub async fn preview_deletion(&self, user: &User, name: &str) -> Result<DeletionPreview, Status> {
        let entry = self.visible_instance(user, name)?;
        let settings = manager_kinds::annotations::read(&entry.object).0;
        let mut preview = DeletionPreview {
            keeps_plane: settings.mode == Mode::Imported || manager_kinds::instance::keeps_plane(&entry.object),
            is_protected: settings.is_protected,
            ..DeletionPreview::default()
        };
        match &entry.running {
            None => preview.is_unknown = true,
            Some(running) => {
                let list = running.admin.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
                preview.clusters = list.items.iter().map(|cluster| cluster.name().to_owned()).collect();
            }
        }
        Ok(preview)
    }

    /// Deletes an instance. Refused while clusters are joined, unless its control plane is kept.
    pub async fn delete_instance(&self, user: &User, name: &str, keeps_plane: bool) -> Result<(), Status> {
        let preview = self.preview_deletion(user, name).await?;
        if !preview.clusters.is_empty() && !keeps_plane && !preview.keeps_plane {
            let text = format!("clusters are still joined: {}; remove them first", preview.clusters.join(", "));
            return Err(Status::conflict(&KARMADAS.gvr().group_resource(), name, text));
        }
        if keeps_plane {
            self.patch(user, name, json!({"metadata": {"labels": {LABEL_KEEP: "true"}}})).await?;
        }
        let entry = self.visible_instance(user, name)?;
        let client = self.client_as(user).map_err(Status::internal)?;
        client.delete(ResourceRef::of(&KARMADAS.gvr(), &entry.object), DeleteOptions::default()).await.map(drop)
    }

    /// Waits until an instance is ready; the error is its last state.
    pub async fn wait_until_ready(&self, name: &str, wait: Duration) -> Result<InstanceEntry, String> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let entry = self.directory.find(name);
            if let Some(entry) = &entry
                && conditions::is_true(&entry.object, "Ready")
                && !entry.is_restarting()
            {
                return Ok(entry.clone());
            }
            if tokio::time::Instant::now() >= deadline {
                let ready = entry.as_ref().and_then(|entry| conditions::find(&entry.object, "Ready"));
                return Err(ready.map_or("it was not found".to_owned(), |ready| ready.message().to_owned()));
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }
}

fn import_secret(name: &str) -> String {
    format!("{name}-{IMPORT_SECRET_SUFFIX}")
}

/// The object of an imported instance.
fn imported(name: &str) -> Object {
    let mut instance = KARMADAS.object(INSTANCE_NAMESPACE, name);
    instance.set_annotation(MODE, Mode::Imported.name());
    instance.set_annotation(IMPORT_KUBECONFIG, &format!("{}/{IMPORT_KEY}", import_secret(name)));
    instance.set(&["spec"], json!({}));
    instance
}

pub fn authenticated(user: &User) -> User {
    let mut user = user.clone();
    if !user.in_group(AUTHENTICATED_GROUP) {
        user.groups.push(AUTHENTICATED_GROUP.to_owned());
    }
    user
}
