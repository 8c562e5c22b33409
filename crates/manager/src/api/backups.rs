//! `BackupService`.

use std::path::PathBuf;
use std::sync::Arc;

use api::safe_mode::{CONFIRM_PATH, STATE_PATH};
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::{ResourceRef, WriteOptions};
use futures::stream;
use instances::backups::{self, BackupFile, backup_file};
use instances::directory::InstanceEntry;
use instances::plane::BackupFormat;
use jiff::Timestamp;
use manager_api::*;
use manager_kinds::annotations::{self, MODE, Mode as PlaneMode, RESTORE, is_backup_id};
use manager_kinds::permissions::Verdict;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::Status;
use serde_json::json;
use tokio::io::AsyncReadExt;
use transcode::Raw;
use transcode::call::Results;
use transcode::errors::failed_precondition;

use super::instances::confirmed;
use super::{ApiCaller, ManagerApi};

const FIELD_MANAGER: &str = "flotilla";
/// Backups of one instance.
const BACKUPS_MAX: usize = 20;
/// Bytes sent at once.
const CHUNK: usize = 256 * 1024;

fn message(instance: &str, file: &BackupFile) -> Backup {
    Backup {
        id: file.id.clone(),
        instance: instance.to_owned(),
        create_time: Some(prost_types::Timestamp { seconds: file.created.as_second(), nanos: 0 }),
        bytes: i64::try_from(file.bytes).unwrap_or(i64::MAX),
    }
}

/// The user gets no path of the manager's machine.
fn unreadable(error: std::io::Error) -> Status {
    tracing::warn!(%error, "the backups of an instance cannot be read or written");
    Status::internal("the backups cannot be read or written")
}

impl ManagerApi {
    /// Returns an instance whose data the manager has, with its backups.
    fn backed_up(&self, instance: &str) -> Result<(InstanceEntry, PathBuf), Status> {
        let entry = self.entry(instance)?;
        let mode = annotations::read(&entry.object).0.mode;
        if mode == PlaneMode::Imported || entry.object.get(&["spec", "components", "etcd", "external"]).is_some() {
            return Err(failed_precondition("the data of this instance is not in the manager: back it up where it is"));
        }
        let directory = self.dirs.backups(entry.object.uid());
        Ok((entry, directory))
    }

    fn backup_of(&self, instance: &str, id: &str) -> Result<(InstanceEntry, PathBuf), Status> {
        let (entry, directory) = self.backed_up(instance)?;
        let missing = || Status::new(404, "NotFound", format!("the instance {instance} has no backup {id:?}"));
        if !is_backup_id(id) || !backup_file(&directory, id).is_file() {
            return Err(missing());
        }
        Ok((entry, directory))
    }

    fn backup_format(&self) -> Result<Arc<dyn BackupFormat>, Status> {
        self.backups.clone().ok_or_else(|| failed_precondition("this manager cannot read and write backups"))
    }

    /// Creates an instance that starts with the data of a backup.
    async fn restore_into_new(
        &self,
        caller: &ApiCaller,
        (source, directory): (&InstanceEntry, &PathBuf),
        request: &RestoreBackupRequest,
    ) -> Result<Instance, Status> {
        if self.verdict(&caller.user, "instances.create", None) != Verdict::Allowed {
            return Err(Status::new(403, "Forbidden", "newName: needs the permission instances.create"));
        }
        let (namespace, name) = request.new_name.split_once('~').unwrap_or((INSTANCE_NAMESPACE, &request.new_name));
        let mut object = KARMADAS.object(namespace, name);
        let mut spec = source.object.get(&["spec"]).cloned().unwrap_or_else(|| json!({}));
        // Nothing starts before its data is there.
        spec["suspend"] = true.into();
        object.set(&["spec"], spec);
        object.set_annotation(RESTORE, &request.id);
        if let Some(mode) = source.object.annotation(MODE) {
            object.set_annotation(MODE, mode);
        }
        let client = self.operations.client_as(&caller.user).map_err(Status::internal)?;
        let options = WriteOptions { dry_run: request.validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let created = client.create(ResourceRef::within(&KARMADAS.gvr(), namespace), object, options).await?;
        if request.validate_only {
            return self.shown_object(caller, &created, &request.new_name);
        }
        self.operations.directory.note(&created);
        let (to, former) = (self.dirs.backups(created.uid()), self.dirs.of(source.object.uid()));
        let (id, directory) = (request.id.clone(), directory.clone());
        let copied = tokio::task::spawn_blocking(move || backups::copy(&id, &directory, &former, &to)).await;
        copied.map_err(Status::internal)?.map_err(unreadable)?;
        let patched = self.patch_instance(&request.new_name, json!({"spec": {"suspend": false}}), false).await?;
        self.shown_object(caller, &patched, &request.new_name)
    }
}

#[async_trait]
impl BackupService<ApiCaller> for ManagerApi {
    async fn create_backup(&self, _: &ApiCaller, request: CreateBackupRequest) -> Result<Backup, Status> {
        let (entry, directory) = self.backed_up(&request.instance)?;
        let format = self.backup_format()?;
        let data = self.dirs.of(entry.object.uid());
        if !data.is_dir() {
            return Err(failed_precondition("the instance has no data yet"));
        }
        // One at a time: a backup reads all of an instance.
        let Ok(_turn) = self.backup_turn.try_lock() else {
            return Err(Status::too_many_requests("another backup is being taken", 2));
        };
        if backups::list(&directory).map_err(unreadable)?.len() >= BACKUPS_MAX {
            return Err(failed_precondition(format!("the instance has {BACKUPS_MAX} backups: delete one first")));
        }
        if request.validate_only {
            return Ok(Backup { instance: request.instance, ..Backup::default() });
        }
        backups::prepare(&directory).map_err(unreadable)?;
        let suffix = pki::token::random_lowercase(6).map_err(Status::internal)?;
        let id = backups::new_id(Timestamp::now(), &suffix);
        let file = backup_file(&directory, &id);
        if let Err(problem) = format.back_up(&data, &file).await {
            tracing::warn!(instance = request.instance, problem, "a backup failed");
            let _ = std::fs::remove_file(&file);
            return Err(Status::internal("the backup failed; the log of the manager has the reason"));
        }
        let found = backups::list(&directory).map_err(unreadable)?.into_iter().find(|file| file.id == id);
        found.map(|file| message(&request.instance, &file)).ok_or_else(|| Status::internal("the backup is missing"))
    }

    async fn list_backups(&self, _: &ApiCaller, request: ListBackupsRequest) -> Result<ListBackupsResponse, Status> {
        let (_, directory) = self.backed_up(&request.instance)?;
        let found = backups::list(&directory).map_err(unreadable)?;
        Ok(ListBackupsResponse { backups: found.iter().map(|file| message(&request.instance, file)).collect() })
    }

    async fn download_backup(&self, _: &ApiCaller, request: DownloadBackupRequest) -> Result<Results<Raw>, Status> {
        let (_, directory) = self.backup_of(&request.instance, &request.id)?;
        let file = tokio::fs::File::open(backup_file(&directory, &request.id)).await.map_err(unreadable)?;
        Ok(Box::pin(stream::unfold(Some(file), |file| async move {
            let mut file = file?;
            let mut chunk = vec![0; CHUNK];
            match file.read(&mut chunk).await {
                Ok(0) => None,
                Ok(count) => {
                    chunk.truncate(count);
                    Some((Ok(Raw::text("application/octet-stream", Bytes::from(chunk))), Some(file)))
                }
                Err(error) => Some((Err(unreadable(error)), None)),
            }
        })))
    }

    async fn delete_backup(&self, _: &ApiCaller, request: DeleteBackupRequest) -> Result<(), Status> {
        let (entry, directory) = self.backup_of(&request.instance, &request.id)?;
        let is_wanted = annotations::read(&entry.object).0.restore.as_ref() == Some(&request.id);
        if is_wanted && !backups::is_restored_from(&self.dirs.of(entry.object.uid()), &request.id) {
            return Err(failed_precondition("the instance is being restored from this backup"));
        }
        if request.validate_only {
            return Ok(());
        }
        std::fs::remove_file(backup_file(&directory, &request.id)).map_err(unreadable)
    }

    async fn restore_backup(&self, caller: &ApiCaller, request: RestoreBackupRequest) -> Result<Instance, Status> {
        let (entry, directory) = self.backup_of(&request.instance, &request.id)?;
        self.backup_format()?;
        if !request.new_name.is_empty() {
            return self.restore_into_new(caller, (&entry, &directory), &request).await;
        }
        confirmed(&request.instance, &request.confirm_name)?;
        if annotations::read(&entry.object).0.restore.as_ref() == Some(&request.id) {
            return Err(failed_precondition("the instance was restored from this backup already: take another one"));
        }
        let patch = json!({"metadata": {"annotations": {RESTORE: request.id}}});
        let patched = self.patch_instance(&request.instance, patch, request.validate_only).await?;
        self.shown_object(caller, &patched, &request.instance)
    }

    async fn confirm_restore(&self, caller: &ApiCaller, request: ConfirmRestoreRequest) -> Result<(), Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        if request.validate_only {
            return client.get_json(STATE_PATH).await.map(drop);
        }
        let confirm = http::Request::post(CONFIRM_PATH).body(Bytes::new()).map_err(Status::internal)?;
        let response = client.raw(confirm).await?;
        match response.status().as_u16() {
            code if code >= 400 => Err(Status::from_response(code, response.body())),
            _ => Ok(()),
        }
    }
}
