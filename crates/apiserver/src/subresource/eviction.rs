//! `pods/NAME/eviction`: a delete that respects PodDisruptionBudgets.

use std::sync::Arc;

use object::query::Query;
use object::selector::LabelSelector;
use object::status::{StatusCause, StatusDetails};
use object::{GroupResource, Object, Status, conditions};
use serde_json::json;

use super::Call;
use crate::admission::Operation;
use crate::cache::{Entry, Filter};
use crate::context::Context;
use crate::request::Deletion;
use crate::scope::WriteScope;
use crate::storage::{self, Outcome};
use crate::verbs::{Answer, Target, attributes, delete};

pub async fn create(scope: WriteScope<'_>, ctx: &Context, target: &Target, call: &Call) -> Result<Answer, Status> {
    let mut eviction = call.object()?;
    let named = eviction.name();
    if !named.is_empty() && named != target.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let asked = json!({"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"});
    let asked = attributes(target, Operation::Create, None, asked, call.options.dry_run);
    scope.mutate(ctx, &asked, &mut eviction).await?;
    scope.validate(ctx, &asked, Some(&eviction)).await?;
    let options = eviction.get(&["deleteOptions"]).cloned().unwrap_or_else(|| json!({}));
    let mut deletion = Deletion::parse(&Query::default(), Some(options))?;
    deletion.options.dry_run |= call.options.dry_run;
    let pod_target = Target { subresource: None, ..target.clone() };
    let pod = scope.objects.get(&pod_target.key()).await?.ok_or_else(|| target.not_found())?.object;
    // Pods that have ended or never started can be evicted without disruption.
    let disturbs =
        !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed" | "Pending") && !pod.is_deleting();
    if disturbs {
        take_disruption(scope, ctx, &pod, deletion.options.dry_run).await?;
    }
    delete::delete(scope, ctx, &pod_target, &deletion).await?;
    let done = Object::from_value(
        json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}),
    );
    Ok(Answer::Object { code: 201, object: Arc::new(done.expect("a map")) })
}

/// Counts the eviction against the one budget that covers the pod, or says why it cannot be.
async fn take_disruption(scope: WriteScope<'_>, ctx: &Context, pod: &Object, dry_run: bool) -> Result<(), Status> {
    let Some(resource) = scope.registry.find("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    resource.cache.fresh().await?;
    let filter = Filter { namespace: pod.namespace().to_owned(), ..Filter::default() };
    let covering: Vec<Arc<Entry>> =
        resource.cache.entries(&filter).into_iter().filter(|entry| covers(&entry.decode(), pod)).collect();
    let budget = match &covering[..] {
        [] => return Ok(()),
        [one] => one,
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let key = resource.key(pod.namespace(), &budget.name);
    loop {
        let Some(current) = scope.objects.get(&key).await? else { return Ok(()) };
        let mut pdb = current.object;
        if always_allowed(&pdb, pod) {
            return Ok(());
        }
        let allowed = pdb.i64_at(&["status", "disruptionsAllowed"]).unwrap_or(0);
        let observed = pdb.i64_at(&["status", "observedGeneration"]).unwrap_or(0);
        if observed < pdb.generation() {
            return Err(refuse(
                &pdb,
                "Cannot evict pod as it would violate the pod's disruption budget.",
                "the budget's status has not caught up with its spec",
            ));
        }
        if allowed <= 0 {
            let healthy = pdb.i64_at(&["status", "currentHealthy"]).unwrap_or(0);
            let desired = pdb.i64_at(&["status", "desiredHealthy"]).unwrap_or(0);
            let cause = format!(
                "The disruption budget {} needs {desired} healthy pods and has {healthy} currently",
                pdb.name()
            );
            return Err(refuse(&pdb, "Cannot evict pod as it would violate the pod's disruption budget.", &cause));
        }
        if dry_run {
            return Ok(());
        }
        pdb.set(&["status", "disruptionsAllowed"], allowed - 1);
        pdb.set(&["status", "disruptedPods", pod.name()], object::time::format_seconds(ctx.now));
        match scope.objects.update(&key, storage::encode(&pdb), current.revision, None).await? {
            Outcome::Written(_) => return Ok(()),
            Outcome::Raced(_) => {}
        }
    }
}

fn covers(pdb: &Object, pod: &Object) -> bool {
    LabelSelector::from_value(pdb.get(&["spec", "selector"])).is_ok_and(|selector| selector.matches(pod))
}

/// A pod that is not ready can be evicted when the budget allows it, or when enough other pods are healthy.
fn always_allowed(pdb: &Object, pod: &Object) -> bool {
    let ready = conditions::is_true(pod, "Ready");
    let healthy = pdb.i64_at(&["status", "currentHealthy"]).unwrap_or(0);
    let desired = pdb.i64_at(&["status", "desiredHealthy"]).unwrap_or(0);
    let is_current = pdb.i64_at(&["status", "observedGeneration"]).unwrap_or(0) >= pdb.generation();
    !ready
        && (pdb.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
            || (is_current && desired > 0 && healthy >= desired))
}

fn refuse(pdb: &Object, message: &str, cause: &str) -> Status {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    Status::too_many_requests(message, 10).with_details(StatusDetails {
        name: pdb.name().to_owned(),
        group: resource.group,
        kind: resource.resource,
        causes: vec![StatusCause {
            reason: "DisruptionBudget".into(),
            message: cause.to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: 10,
        ..StatusDetails::default()
    })
}
