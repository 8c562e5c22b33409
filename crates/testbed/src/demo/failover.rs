//! Failover: the member of a workload crashes, and the workload moves to another.

use std::time::Duration;

use api::Resource;
use cluster_client::ResourceRef;

use crate::demo::placement::{deployment, policy, ready_replicas};
use crate::demo::stage::{CROSSING, DemoContext, object_in};
use crate::faults::{self, Fault};
use crate::hint::Hint;
use crate::spec::Mode;

const BINDINGS: Resource = Resource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings");
/// Timeout for detecting the failure and moving the workload.
const NOTICING: Duration = Duration::from_secs(120);

pub async fn play(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    let pushed: Vec<String> = stage
        .bed
        .spec
        .members
        .iter()
        .filter(|member| member.mode == Mode::Push)
        .map(|member| member.name.clone())
        .collect();
    anyhow::ensure!(pushed.len() >= 2, "failover needs two members in push mode");
    let tolerate = |key: &str| {
        format!("{{key: cluster.karmada.io/{key}, operator: Exists, effect: NoExecute, tolerationSeconds: 2}}")
    };
    let placement = format!(
        "{{clusterAffinity: {{clusterNames: [{}]}}, clusterTolerations: [{}, {}], spreadConstraints: \
         [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]}}",
        pushed.join(", "),
        tolerate("not-ready"),
        tolerate("unreachable"),
    );
    let image = stage.web_image().await?;
    stage.apply(&(deployment(&image, "failover", 2) + &policy("failover", "", &placement))).await?;
    let first = placed(stage, None).await?;
    let client = stage.member(&first)?;
    let what = format!("{first} runs it");
    stage.wait(&what, CROSSING, async || ready_replicas(&client, "failover", 2).await).await?;
    stage.show_own(&Hint::Fault { member: &first, fault: "kill" })?;
    stage.remember_fault(&first);
    faults::inject(stage.console(), &stage.bed.place, &first, Fault::Kill).await?;
    let second = placed(stage, Some(&first)).await?;
    let client = stage.member(&second)?;
    let what = format!("{second} runs it");
    stage.wait(&what, CROSSING, async || ready_replicas(&client, "failover", 2).await).await?;
    stage.show(None, &["get", "clusters"]).await?;
    stage.show(None, &["get", "resourcebinding", "failover-deployment", "-o", "wide"]).await
}

/// Returns the cluster the workload is scheduled to, once it differs from `before`.
async fn placed(stage: &DemoContext<'_>, before: Option<&str>) -> anyhow::Result<String> {
    let target = ResourceRef::namespaced(&BINDINGS.gvr(), "default", "failover-deployment");
    let (plane, mut found) = (stage.plane.clone(), String::new());
    let what = match before {
        None => "it is scheduled".to_owned(),
        Some(before) => format!("it is scheduled to a member other than {before}"),
    };
    stage
        .wait(&what, NOTICING, async || {
            let binding = match object_in(&plane, target.clone()).await? {
                Ok(binding) => binding,
                Err(why) => return Ok(Err(why)),
            };
            let clusters: Vec<&str> =
                binding.items(&["spec", "clusters"]).iter().filter_map(|cluster| cluster["name"].as_str()).collect();
            match clusters.iter().find(|cluster| Some(**cluster) != before) {
                Some(cluster) => {
                    found = (*cluster).to_owned();
                    Ok(Ok(()))
                }
                None => Ok(Err(format!("it is scheduled to {clusters:?}"))),
            }
        })
        .await?;
    Ok(found)
}
