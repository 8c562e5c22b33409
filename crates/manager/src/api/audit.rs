//! `AuditService`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream;
use manager_api::*;
use manager_kinds::grants::{InstanceRole, PlatformRole};
use object::Status;
use transcode::Raw;
use transcode::call::Results;

use super::convert::timestamp;
use super::lists::{counted, page_size, read_token, scope_of, token};
use super::{ApiCaller, ManagerApi};
use crate::audit_trail::{AuditRecord, ENTRIES_MAX};

fn message(entry: &AuditRecord) -> AuditEntry {
    AuditEntry {
        id: entry.id.clone(),
        time: timestamp(&entry.time),
        user: entry.user.clone(),
        groups: entry.groups.clone(),
        source: entry.source.clone(),
        action: entry.action.clone(),
        instance: entry.instance.clone(),
        code: i32::from(entry.code),
        message: entry.message.clone(),
        milliseconds: entry.milliseconds,
    }
}

impl ManagerApi {
    /// Returns the entries a caller may see, the newest first: all for auditors, those of an instance for its administrators.
    fn audit_entries(&self, caller: &ApiCaller) -> Vec<Arc<AuditRecord>> {
        let rights = &self.operations.rights;
        let roles = rights.platform_roles(&caller.user);
        let sees_all = roles.contains(&PlatformRole::Admin) || roles.contains(&PlatformRole::Auditor);
        let mut known: std::collections::HashMap<String, bool> = Default::default();
        let mut administers = |instance: &str| {
            *known.entry(instance.to_owned()).or_insert_with(|| {
                !instance.is_empty() && rights.instance_access(&caller.user, instance).role == Some(InstanceRole::Admin)
            })
        };
        let mut entries = self.audit.latest(&self.operations.server);
        entries.retain(|entry| sees_all || administers(&entry.instance));
        entries
    }

    fn audit_matches(&self, caller: &ApiCaller, request: &ListAuditEntriesRequest) -> Vec<Arc<AuditRecord>> {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let contains = request.contains.to_lowercase();
        let mut entries = self.audit_entries(caller);
        entries.retain(|entry| {
            is(&request.user, &entry.user)
                && is(&request.instance, &entry.instance)
                && (!request.refused || entry.code >= 400)
                && entry.action.to_lowercase().contains(&contains)
        });
        entries
    }
}

#[async_trait]
impl AuditService<ApiCaller> for ManagerApi {
    async fn list_audit_entries(
        &self,
        caller: &ApiCaller,
        request: ListAuditEntriesRequest,
    ) -> Result<ListAuditEntriesResponse, Status> {
        let entries = self.audit_matches(caller, &request);
        let query = format!("{} {} {} {}", request.user, request.instance, request.contains, request.refused);
        let scope = scope_of(&format!("audit {}", caller.user.name), &query, "");
        let start = match request.page_token.as_str() {
            "" => 0,
            given => {
                let last = read_token(&self.page_key, given, &scope)?;
                let key = |entry: &AuditRecord| vec![entry.time.clone(), entry.id.clone()];
                entries.partition_point(|entry| key(entry) >= last)
            }
        };
        let end = start.saturating_add(page_size(request.page_size)?).min(entries.len());
        let next_page_token = match entries[start..end].last().filter(|_| end < entries.len()) {
            Some(last) => token(&self.page_key, &[last.time.clone(), last.id.clone()], &scope)?,
            None => String::new(),
        };
        Ok(ListAuditEntriesResponse {
            entries: entries[start..end].iter().map(|entry| message(entry)).collect(),
            next_page_token,
            total: counted(entries.len(), request.include_total),
            kept: ENTRIES_MAX as i64,
        })
    }

    async fn get_audit_entry(&self, caller: &ApiCaller, request: GetAuditEntryRequest) -> Result<AuditEntry, Status> {
        let missing = || Status::new(404, "NotFound", format!("there is no audit entry {:?}", request.id));
        let entries = self.audit_entries(caller);
        entries.iter().find(|entry| entry.id == request.id).map(|entry| message(entry)).ok_or_else(missing)
    }

    async fn export_audit_entries(
        &self,
        caller: &ApiCaller,
        request: ListAuditEntriesRequest,
    ) -> Result<Results<Raw>, Status> {
        let lines = self.audit_matches(caller, &request).into_iter().map(|entry| {
            let line = serde_json::to_string(&message(&entry)).map_err(Status::internal)?;
            Ok(Raw::text("application/x-ndjson", format!("{line}\n")))
        });
        Ok(Box::pin(stream::iter(lines)))
    }
}
