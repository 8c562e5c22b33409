//! `create deployment`, `create job` and `create cronjob`.

use anyhow::bail;
use api::Resource;
use clap::Args;
use cluster_client::{ClusterClient, ResourceRef};
use object::Object;
use serde_json::{Value, json};

use crate::create::CreateOptions;
use crate::create::generators::{Generated, make};

const CRON_JOBS: Resource = Resource::namespaced("batch", "v1", "CronJob", "cronjobs");

#[derive(Args, Debug)]
pub struct DeploymentArgs {
    /// Name of the deployment
    name: String,
    #[command(flatten)]
    pub common: CreateOptions,
    /// Image of a container; several make several containers
    #[arg(long, value_delimiter = ',', value_name = "IMAGE", required = true)]
    image: Vec<String>,
    /// Number of replicas
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    replicas: i32,
    /// Port of the container
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Command of the container, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct JobArgs {
    /// Name of the job
    name: String,
    #[command(flatten)]
    common: CreateOptions,
    /// Image of the container
    #[arg(long, value_name = "IMAGE", required_unless_present = "from")]
    image: Option<String>,
    /// Run the template of a cron job: cronjob/NAME
    #[arg(long, value_name = "cronjob/NAME", conflicts_with_all = ["image", "command"])]
    from: Option<String>,
    /// Command of the container, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct CronJobArgs {
    /// Name of the cron job
    name: String,
    #[command(flatten)]
    pub common: CreateOptions,
    /// Image of the container
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Times to run at, in the form of cron
    #[arg(long, value_name = "SCHEDULE")]
    schedule: String,
    /// Restart policy: OnFailure or Never
    #[arg(long, default_value = "OnFailure", value_name = "POLICY")]
    restart: String,
    /// Command of the container, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Returns the name of a container: the last part of its image, without tag and digest.
fn container_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let name = last.split(['@', ':']).next().unwrap_or(last);
    name.replace('_', "-").to_lowercase()
}

fn container(image: &str, name: &str, command: &[String]) -> Value {
    let mut container = json!({"image": image, "name": name, "resources": {}});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    container
}

impl DeploymentArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        if self.image.len() > 1 && !self.command.is_empty() {
            bail!("cannot specify multiple --image options and command");
        }
        let containers = self.image.iter().map(|image| {
            let mut container = container(image, &container_name(image), &self.command);
            if let Some(port) = self.port {
                container["ports"] = json!([{"containerPort": port}]);
            }
            container
        });
        let containers: Vec<Value> = containers.collect();
        let labels = json!({"app": self.name});
        let mut deployment = make("apps/v1", "Deployment", &self.name);
        deployment.set(&["metadata", "labels"], labels.clone());
        deployment.set(
            &["spec"],
            json!({
                "replicas": self.replicas, "selector": {"matchLabels": labels}, "strategy": {},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            }),
        );
        deployment.set(&["status"], json!({}));
        Ok(deployment)
    }
}

/// Returns the job of an image, or the cron job whose template is used.
pub fn job(args: JobArgs) -> anyhow::Result<(Generated, CreateOptions)> {
    if let Some(from) = &args.from {
        let Some(cron_job) = from.strip_prefix("cronjob/").or_else(|| from.strip_prefix("cronjobs/")) else {
            bail!("--from {from:?}: must be an existing cron job, written as cronjob/NAME");
        };
        return Ok((Generated::JobFrom { cron_job: cron_job.to_owned(), name: args.name }, args.common));
    }
    let image = args.image.unwrap_or_default();
    let mut job = make("batch/v1", "Job", &args.name);
    let containers = json!([container(&image, &args.name, &args.command)]);
    job.set(
        &["spec"],
        json!({"template": {"metadata": {}, "spec": {"containers": containers, "restartPolicy": "Never"}}}),
    );
    Ok((Generated::Object(Box::new(job)), args.common))
}

/// Returns a job with the template of a cron job, owned by it.
pub async fn job_from(client: &ClusterClient, namespace: &str, cron_job: &str, name: &str) -> anyhow::Result<Object> {
    let owner = client.get(ResourceRef::namespaced(&CRON_JOBS.gvr(), namespace, cron_job)).await?;
    let mut job = make("batch/v1", "Job", name);
    let template = owner.get(&["spec", "jobTemplate"]).cloned().unwrap_or_default();
    if let Some(labels) = template["metadata"]["labels"].as_object() {
        job.set(&["metadata", "labels"], labels.clone());
    }
    if let Some(annotations) = template["metadata"]["annotations"].as_object() {
        job.set(&["metadata", "annotations"], annotations.clone());
    }
    job.set_annotation("cronjob.kubernetes.io/instantiate", "manual");
    let reference = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "name": owner.name(), "uid": owner.uid(), "controller": true,
    });
    job.set(&["metadata", "ownerReferences"], json!([reference]));
    job.set(&["spec"], template["spec"].clone());
    Ok(job)
}

impl CronJobArgs {
    pub fn object(&self) -> Object {
        let mut cron_job = make("batch/v1", "CronJob", &self.name);
        let containers = json!([container(&self.image, &self.name, &self.command)]);
        let pod = json!({"metadata": {}, "spec": {"containers": containers, "restartPolicy": self.restart}});
        let template = json!({"metadata": {"name": self.name}, "spec": {"template": pod}});
        cron_job.set(&["spec"], json!({"jobTemplate": template, "schedule": self.schedule}));
        cron_job
    }
}
