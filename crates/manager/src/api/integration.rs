//! `IntegrationService`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::stream;
use manager_api::*;
use manager_kinds::WEBHOOKS;
use object::{Object, Status};
use reconcile::{Mirror, Subscription};
use transcode::call::Results;

use super::access::AccessPage;
use super::convert::timestamp;
use super::{ApiCaller, ManagerApi};
use crate::webhooks::DeliveryRecord;

fn registration(object: &Object) -> Registration {
    let field = |name: &str| object.str_at(&["spec", name]).to_owned();
    Registration {
        product: field("product"),
        r#type: field("type"),
        name: field("name"),
        uid: field("uid"),
        scope: field("scope"),
        state: field("state"),
    }
}

fn delivery(record: &DeliveryRecord) -> Delivery {
    Delivery {
        id: record.id.clone(),
        time: timestamp(&record.time),
        attempts: record.attempts,
        delivered: record.is_delivered,
        code: i32::from(record.code),
        error: record.error.clone(),
        bytes: i64::try_from(record.body.len()).unwrap_or(i64::MAX),
        full: record.is_full,
    }
}

#[async_trait]
impl IntegrationService<ApiCaller> for ManagerApi {
    async fn list_registrations(
        &self,
        _: &ApiCaller,
        _: ListRegistrationsRequest,
    ) -> Result<ListRegistrationsResponse, Status> {
        let found = self.registrations.list();
        Ok(ListRegistrationsResponse { registrations: found.iter().map(|object| registration(object)).collect() })
    }

    async fn watch_registrations(
        &self,
        _: &ApiCaller,
        _: WatchRegistrationsRequest,
    ) -> Result<Results<RegistrationEvent>, Status> {
        let watch = Watch {
            changes: self.registrations.subscribe(),
            mirror: self.registrations.clone(),
            sent: BTreeMap::new(),
            pending: Vec::new(),
            is_synced: false,
        };
        Ok(Box::pin(stream::unfold(watch, |mut watch| async move {
            let event = watch.next().await;
            Some((Ok(event), watch))
        })))
    }

    async fn push_bindings(&self, _: &ApiCaller, request: PushBindingsRequest) -> Result<PushBindingsResponse, Status> {
        self.intake.push(request).await
    }

    async fn list_webhooks(
        &self,
        caller: &ApiCaller,
        request: AccessListRequest,
    ) -> Result<ListWebhooksResponse, Status> {
        let AccessPage { items, next_page_token, total, version } =
            self.list_access(caller, &WEBHOOKS, &request).await?;
        Ok(ListWebhooksResponse { webhooks: items, next_page_token, total, version })
    }

    async fn get_webhook(&self, caller: &ApiCaller, request: AccessGetRequest) -> Result<Webhook, Status> {
        super::access::message(&WEBHOOKS, &*self.get_access(caller, &WEBHOOKS, &request.name).await?)
    }

    async fn create_webhook(&self, caller: &ApiCaller, request: CreateWebhookRequest) -> Result<Webhook, Status> {
        self.create_access(caller, &WEBHOOKS, request.webhook, request.validate_only).await
    }

    async fn update_webhook(&self, caller: &ApiCaller, request: UpdateWebhookRequest) -> Result<Webhook, Status> {
        self.replace_access(caller, &WEBHOOKS, request.webhook, request.validate_only).await
    }

    async fn delete_webhook(&self, caller: &ApiCaller, request: AccessDeleteRequest) -> Result<(), Status> {
        self.delete_access(caller, &WEBHOOKS, &request).await
    }

    async fn list_deliveries(
        &self,
        _: &ApiCaller,
        request: ListDeliveriesRequest,
    ) -> Result<ListDeliveriesResponse, Status> {
        let found = self.webhooks.deliveries(&request.name)?;
        Ok(ListDeliveriesResponse { deliveries: found.iter().map(delivery).collect() })
    }

    async fn redeliver(&self, _: &ApiCaller, request: RedeliverRequest) -> Result<Delivery, Status> {
        if request.validate_only {
            return self.webhooks.delivery(&request.name, &request.id).map(|record| delivery(&record));
        }
        self.webhooks.redeliver(&request.name, &request.id).await.map(|record| delivery(&record))
    }
}

/// Compares the registrations with those that were sent, whenever they change.
struct Watch {
    mirror: Mirror,
    changes: Subscription,
    sent: BTreeMap<String, Registration>,
    pending: Vec<RegistrationEvent>,
    is_synced: bool,
}

impl Watch {
    async fn next(&mut self) -> RegistrationEvent {
        loop {
            if let Some(event) = self.pending.pop() {
                return event;
            }
            self.compare();
            if !self.is_synced {
                self.is_synced = true;
                self.pending.insert(0, RegistrationEvent { r#type: "SYNCED".to_owned(), registration: None });
            }
            if self.pending.is_empty() {
                self.changes.next().await;
            }
        }
    }

    fn compare(&mut self) {
        let objects = self.mirror.list();
        let now: BTreeMap<String, Registration> =
            objects.iter().map(|object| (object.name().to_owned(), registration(object))).collect();
        let event = |kind: &str, registration: &Registration| RegistrationEvent {
            r#type: kind.to_owned(),
            registration: Some(registration.clone()),
        };
        for (name, entry) in &now {
            match self.sent.get(name) {
                None => self.pending.push(event("ADDED", entry)),
                Some(sent) if sent != entry => self.pending.push(event("MODIFIED", entry)),
                Some(_) => {}
            }
        }
        let gone = self.sent.iter().filter(|(name, _)| !now.contains_key(*name));
        self.pending.extend(gone.map(|(_, entry)| event("DELETED", entry)));
        self.sent = now;
    }
}
