//! FederatedResourceQuotas: refuses a binding that would exceed a quota, and adds its usage to the status of the quota.

use api::policy::{FEDERATED_RESOURCE_QUOTAS, QuotaSpec, QuotaStatus};
use api::work;
use apiserver::admission::{AdmissionScope, Attributes};
use apiserver::cache::Filter;
use apiserver::resources::Resources;
use apiserver::served_resources::Resource;
use apiserver::storage::{self, Current, Outcome};
use object::{Object, Status};
use validation::quota::{self, Usage};

/// Conflicting updates of one quota before the write fails.
const RACES_MAX: usize = 50;

/// Does nothing for other kinds than ResourceBindings.
pub async fn charge(scope: AdmissionScope<'_>, attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let kind = &attributes.resource.kind;
    if kind.gvk.group != work::GROUP || kind.plural != work::RESOURCE_BINDINGS.plural {
        return Ok(());
    }
    let new = quota::binding_spec(object)?;
    let old = attributes.old.map(quota::binding_spec).transpose()?;
    let growth = quota::growth(&new, old.as_ref());
    if growth.is_empty() {
        return Ok(());
    }
    let resource = &FEDERATED_RESOURCE_QUOTAS;
    let Some(quotas) = scope.resources.registry.find(resource.group, resource.version, resource.plural) else {
        return Ok(());
    };
    let names = names_in(&quotas, attributes.namespace).await?;
    // The binding must fit into all quotas before any is charged.
    for name in &names {
        if let Some(current) = scope.resources.objects.get(&quotas.key(attributes.namespace, name)).await? {
            decide(&current.object, &growth)?;
        }
    }
    for name in names.iter().filter(|_| !attributes.dry_run) {
        book(scope.resources, &quotas, attributes.namespace, name, &growth).await?;
    }
    Ok(())
}

async fn names_in(quotas: &Resource, namespace: &str) -> Result<Vec<String>, Status> {
    quotas.cache.ready().await?;
    quotas.cache.fresh().await?;
    let filter = Filter { namespace: namespace.to_owned(), ..Filter::default() };
    Ok(quotas.cache.entries(&filter).iter().map(|entry| entry.name.to_string()).collect())
}

fn decide(quota: &Object, growth: &Usage) -> Result<Option<Usage>, Status> {
    let spec: QuotaSpec = api::read(quota)?;
    let status: QuotaStatus = api::read_at(quota, &["status"])?;
    quota::decide((quota.namespace(), quota.name()), &spec, &status, growth).map_err(|denial| denial.status())
}

async fn book(
    resources: Resources<'_>,
    quotas: &Resource,
    namespace: &str,
    name: &str,
    growth: &Usage,
) -> Result<(), Status> {
    let key = quotas.key(namespace, name);
    for _ in 0..RACES_MAX {
        let Some(Current { object: mut quota, revision, .. }) = resources.objects.get(&key).await? else {
            return Ok(());
        };
        let Some(used) = decide(&quota, growth)? else { return Ok(()) };
        for (resource, amount) in &used {
            quota.set(&["status", "overallUsed", resource], amount.to_string());
        }
        match resources.objects.update(&key, storage::encode(&quota), revision, None).await? {
            Outcome::Written(_) => return Ok(()),
            Outcome::Raced(_) => {}
        }
    }
    let text = format!(
        "failed to apply FederatedResourceQuota updates after multiple retries: {namespace}/{name} has too many writers"
    );
    Err(Status::internal(text))
}
