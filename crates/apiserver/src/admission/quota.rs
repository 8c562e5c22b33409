//! ResourceQuotas: a create that would use more than a quota allows is refused; what it uses is booked before it is stored.

use std::collections::BTreeMap;

use async_trait::async_trait;
use kinds::quota::{QuotaUsage, covers, usage};
use object::quantity::Quantity;
use object::{Object, Status};
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;
use crate::resources::Resources;
use crate::served_resources::Resource;
use crate::storage::{self, Outcome};

/// Lost races on one quota after which the client gets a conflict and has to retry.
const RACES_MAX: usize = 50;

pub struct Quotas;

#[async_trait]
impl Admission for Quotas {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| applies(attributes)) else { return Ok(()) };
        let Some(quotas) = scope.resources.registry.find("", "v1", "resourcequotas") else { return Ok(()) };
        quotas.cache.ready().await?;
        if quotas.cache.is_empty() {
            return Ok(());
        }
        quotas.cache.fresh().await?;
        let filter = Filter { namespace: attributes.namespace.to_owned(), ..Filter::default() };
        let resource = attributes.resource.kind.group_resource();
        let delta = difference(usage(&resource, object), attributes.old.map(|old| usage(&resource, old)));
        for entry in quotas.cache.entries(&filter) {
            if covers(&entry.decode(), &resource, object) {
                book(scope.resources, &quotas, attributes, &entry.name, &delta).await?;
            }
        }
        Ok(())
    }
}

fn applies(attributes: &Attributes<'_>) -> bool {
    let is_quota = attributes.resource.kind.plural == "resourcequotas";
    attributes.is_write()
        && attributes.subresource.is_none()
        && !attributes.namespace.is_empty()
        && (!is_quota || attributes.operation == Operation::Create)
}

/// Only what grows is booked here; what shrinks or goes is given back by the controller's recount.
fn difference(new: QuotaUsage, old: Option<QuotaUsage>) -> QuotaUsage {
    let old = old.unwrap_or_default();
    let grown = new.into_iter().map(|(name, amount)| {
        let before = old.get(&name).cloned().unwrap_or_default();
        let grown = amount.minus(&before);
        (name, grown)
    });
    grown.filter(|(_, amount)| !amount.is_zero() && !amount.is_negative()).collect()
}

async fn book(
    resources: Resources<'_>,
    quotas: &Resource,
    attributes: &Attributes<'_>,
    name: &str,
    delta: &QuotaUsage,
) -> Result<(), Status> {
    let key = quotas.key(attributes.namespace, name);
    for _ in 0..RACES_MAX {
        let Some(current) = resources.objects.get(&key).await? else { return Ok(()) };
        let mut quota = current.object;
        let hard = amounts(quota.get(&["spec", "hard"]));
        let mut used = amounts(quota.get(&["status", "used"]));
        let touched: QuotaUsage =
            delta.iter().filter(|(k, _)| hard.contains_key(*k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        if touched.is_empty() {
            return Ok(());
        }
        let exceeded: Vec<&String> = touched
            .iter()
            .filter(|(k, v)| used.get(*k).cloned().unwrap_or_default().plus(v) > hard[*k])
            .map(|(k, _)| k)
            .collect();
        if !exceeded.is_empty() {
            return Err(refuse(attributes, name, &exceeded, (&touched, &used, &hard)));
        }
        if attributes.dry_run {
            return Ok(());
        }
        for (k, v) in &touched {
            let sum = used.get(k).cloned().unwrap_or_default().plus(v);
            used.insert(k.clone(), sum);
        }
        for (k, v) in &used {
            quota.set(&["status", "used", k], v.to_string());
        }
        match resources.objects.update(&key, storage::encode(&quota), current.revision, None).await? {
            Outcome::Written(_) => return Ok(()),
            Outcome::Raced(_) => {}
        }
    }
    Err(Status::conflict(&quotas.kind.group_resource(), name, "too many writers; please try again"))
}

fn amounts(map: Option<&Value>) -> BTreeMap<String, Quantity> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, q)| Some((name.clone(), Quantity::parse(q.as_str()?).ok()?))).collect()
}

fn refuse(
    attributes: &Attributes<'_>,
    quota: &str,
    exceeded: &[&String],
    (asked, used, hard): (&QuotaUsage, &QuotaUsage, &QuotaUsage),
) -> Status {
    let list = |amounts: &QuotaUsage| {
        let parts = exceeded.iter().map(|k| format!("{k}={}", amounts.get(*k).cloned().unwrap_or_default()));
        parts.collect::<Vec<_>>().join(",")
    };
    let detail =
        format!("exceeded quota: {quota}, requested: {}, used: {}, limited: {}", list(asked), list(used), list(hard));
    Status::forbidden(&attributes.resource.kind.group_resource(), attributes.name, detail)
}
