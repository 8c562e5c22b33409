//! Placement: the same in every member, different in one, divided between some, and with what it depends on.

use api::Resource;
use cluster_client::{ClusterClient, ResourceRef};

use crate::demo::stage::{CROSSING, DemoContext, object_in};
use crate::ports::REGISTRY_PORT;

pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments");
const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "ConfigMap", "configmaps");

/// A Deployment of a web server.
pub fn deployment(image: &str, name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: '{image}'}}]
"
    )
}

/// A policy for the Deployment of that name; `placement` is YAML in one line.
pub fn policy(name: &str, more: &str, placement: &str) -> String {
    format!(
        "---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
{more}  placement: {placement}
"
    )
}

pub async fn nginx(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    let members = stage.members();
    let names = members.join(", ");
    let placement = format!("{{clusterAffinity: {{clusterNames: [{names}]}}}}");
    let image = stage.web_image().await?;
    stage.apply(&(deployment(&image, "nginx", 2) + &policy("nginx", "", &placement))).await?;
    for member in &members {
        let client = stage.member(member)?;
        let what = format!("{member} runs 2 replicas");
        stage.wait(&what, CROSSING, async || ready_replicas(&client, "nginx", 2).await).await?;
    }
    let (plane, all) = (stage.plane.clone(), 2 * i64::try_from(members.len())?);
    let what = format!("the control plane sees all {all}");
    stage.wait(&what, CROSSING, async || ready_replicas(&plane, "nginx", all).await).await?;
    stage.show(None, &["get", "deployment", "nginx"]).await?;
    stage.show(members.first().map(String::as_str), &["get", "pods", "-l", "app=nginx", "-o", "wide"]).await
}

pub async fn overrides(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    let members = stage.members();
    let special = members.first().cloned().unwrap_or_default();
    let placement = format!("{{clusterAffinity: {{clusterNames: [{}]}}}}", members.join(", "));
    let image = stage.web_image().await?;
    let port = stage.bed.spec.registry_port;
    anyhow::ensure!(port.is_some() || stage.is_simulated(), "demo overrides needs the registry of the testbed");
    let registry = format!("localhost:{}", port.unwrap_or(REGISTRY_PORT));
    let overriding = format!(
        "---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {{name: overrides, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: overrides}}]
  overrideRules:
  - targetCluster: {{clusterNames: [{special}]}}
    overriders:
      imageOverrider: [{{component: Registry, operator: add, value: '{registry}'}}]
      labelsOverrider: [{{operator: add, value: {{place: special}}}}]
"
    );
    stage
        .apply(&(overriding + "---\n" + &deployment(&image, "overrides", 1) + &policy("overrides", "", &placement)))
        .await?;
    for member in &members {
        let client = stage.member(member)?;
        let image = if *member == special { format!("{registry}/{image}") } else { image.clone() };
        let what = format!("{member} has the image {image}");
        stage.wait(&what, CROSSING, async || image_is(&client, "overrides", &image).await).await?;
    }
    for member in &members {
        let client = stage.member(member)?;
        let what = format!("{member} runs it");
        stage.wait(&what, CROSSING, async || ready_replicas(&client, "overrides", 1).await).await?;
    }
    stage.show(Some(&special), &["get", "deployment", "overrides", "-o", "wide", "--show-labels"]).await
}

async fn image_is(client: &ClusterClient, name: &str, image: &str) -> anyhow::Result<Result<(), String>> {
    let deployment = match object_in(client, target(&DEPLOYMENTS, name)).await? {
        Ok(deployment) => deployment,
        Err(why) => return Ok(Err(why)),
    };
    let found = &deployment.items(&["spec", "template", "spec", "containers"])[0]["image"];
    Ok(if found == image { Ok(()) } else { Err(format!("its image is {found}")) })
}

pub async fn spread(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    let members = stage.members();
    let [first, second, ..] = members.as_slice() else { anyhow::bail!("spread needs two members") };
    let placement = format!(
        "{{clusterAffinity: {{clusterNames: [{first}, {second}]}}, replicaScheduling: {{replicaSchedulingType: Divided, \
         replicaDivisionPreference: Weighted, weightPreference: {{staticWeightList: [\
         {{targetCluster: {{clusterNames: [{first}]}}, weight: 2}}, {{targetCluster: {{clusterNames: [{second}]}}, weight: 1}}]}}}}}}"
    );
    let image = stage.web_image().await?;
    stage.apply(&(deployment(&image, "spread", 9) + &policy("spread", "", &placement))).await?;
    for (member, replicas) in [(first, 6), (second, 3)] {
        let client = stage.member(member)?;
        let what = format!("{member} runs {replicas} of 9");
        stage.wait(&what, CROSSING, async || ready_replicas(&client, "spread", replicas).await).await?;
    }
    stage.show(None, &["get", "resourcebinding", "spread-deployment"]).await?;
    stage.say("at most two clusters, whichever they are")?;
    let placement = "{spreadConstraints: [{spreadByField: cluster, minGroups: 2, maxGroups: 2}]}";
    stage.apply(&(deployment(&image, "few", 1) + &policy("few", "", placement))).await?;
    let clients: Vec<ClusterClient> = members.iter().map(|member| stage.member(member)).collect::<Result<_, _>>()?;
    stage
        .wait("exactly two members run it", CROSSING, async || {
            let mut count = 0;
            for client in &clients {
                count += usize::from(client.find(target(&DEPLOYMENTS, "few")).await?.is_some());
            }
            Ok(if count == 2 { Ok(()) } else { Err(format!("{count} have it")) })
        })
        .await
}

pub async fn dependencies(stage: &mut DemoContext<'_>) -> anyhow::Result<()> {
    let members = stage.members();
    let Some(first) = members.first() else { anyhow::bail!("dependencies needs a member") };
    let config = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {color: blue}
---
";
    let mut workload = deployment(&stage.web_image().await?, "dependencies", 1);
    workload.push_str("      volumes: [{name: settings, configMap: {name: settings}}]\n");
    let placement = format!("{{clusterAffinity: {{clusterNames: [{first}]}}}}");
    stage
        .apply(&(config.to_owned() + &workload + &policy("dependencies", "  propagateDeps: true\n", &placement)))
        .await?;
    let client = stage.member(first)?;
    let what = format!("{first} has the ConfigMap that no policy selects");
    stage
        .wait(&what, CROSSING, async || {
            let found = object_in(&client, target(&CONFIG_MAPS, "settings")).await?;
            Ok(found.map(drop))
        })
        .await?;
    if let Some(other) = members.get(1) {
        let absent = stage.member(other)?.find(target(&CONFIG_MAPS, "settings")).await?.is_none();
        anyhow::ensure!(absent, "{other} has the ConfigMap without needing it");
        stage.say(format!("✔ {other} does not have it"))?;
    }
    stage.show(Some(first), &["get", "configmap", "settings", "-o", "yaml"]).await
}

pub async fn ready_replicas(client: &ClusterClient, name: &str, wanted: i64) -> anyhow::Result<Result<(), String>> {
    let deployment = match object_in(client, target(&DEPLOYMENTS, name)).await? {
        Ok(deployment) => deployment,
        Err(why) => return Ok(Err(why)),
    };
    let ready = deployment.i64_at(&["status", "readyReplicas"]).unwrap_or_default();
    Ok(if ready == wanted { Ok(()) } else { Err(format!("{ready} replicas are ready")) })
}

pub fn target(resource: &Resource, name: &str) -> ResourceRef {
    ResourceRef::namespaced(&resource.gvr(), "default", name)
}
