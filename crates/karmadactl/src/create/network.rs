//! `create service` and `create ingress`.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use object::Object;
use serde_json::{Value, json};

use crate::create::CreateOptions;
use crate::create::generators::{make, pair};

/// The types of services.
#[derive(Subcommand, Debug)]
pub enum ServiceCommand {
    /// Create a ClusterIP service
    Clusterip(ServiceArgs),
    /// Create a NodePort service
    Nodeport(ServiceArgs),
    /// Create a LoadBalancer service
    Loadbalancer(ServiceArgs),
    /// Create an ExternalName service
    Externalname(ServiceArgs),
}

#[derive(Args, Debug)]
pub struct ServiceArgs {
    /// Name of the service
    name: String,
    #[command(flatten)]
    common: CreateOptions,
    /// Ports: PORT[:TARGET]
    #[arg(long, value_delimiter = ',', value_name = "PORT[:TARGET]")]
    tcp: Vec<String>,
    /// Address, or None for a headless service (clusterip)
    #[arg(long, value_name = "ADDRESS")]
    clusterip: Option<String>,
    /// Port on the nodes (nodeport)
    #[arg(long, value_name = "PORT")]
    node_port: Option<u16>,
    /// Name outside of the cluster (externalname)
    #[arg(long, value_name = "NAME")]
    external_name: Option<String>,
}

#[derive(Args, Debug)]
pub struct IngressArgs {
    /// Name of the ingress
    name: String,
    #[command(flatten)]
    pub common: CreateOptions,
    /// Rule: HOST/PATH=SERVICE:PORT[,tls[=SECRET]]; a path that ends with * is a prefix
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// Service for other requests: SERVICE:PORT
    #[arg(long, value_name = "SERVICE:PORT")]
    default_backend: Option<String>,
    /// Class of the ingress
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Annotation of the ingress
    #[arg(long, value_name = "KEY=VALUE")]
    annotation: Vec<String>,
}

impl ServiceCommand {
    pub fn object(self) -> anyhow::Result<(Object, CreateOptions)> {
        let (args, kind) = match self {
            Self::Clusterip(args) => (args, "ClusterIP"),
            Self::Nodeport(args) => (args, "NodePort"),
            Self::Loadbalancer(args) => (args, "LoadBalancer"),
            Self::Externalname(args) => (args, "ExternalName"),
        };
        Ok((args.object(kind)?, args.common))
    }
}

impl ServiceArgs {
    fn object(&self, kind: &str) -> anyhow::Result<Object> {
        self.check(kind)?;
        let mut service = make("v1", "Service", &self.name);
        let ports: anyhow::Result<Vec<Value>> = self.tcp.iter().map(|text| self.port(text)).collect();
        let ports = ports?;
        let labels = json!({"app": self.name});
        service.set(&["metadata", "labels"], labels.clone());
        service.set(&["spec"], json!({"selector": labels, "type": kind}));
        if !ports.is_empty() {
            service.set(&["spec", "ports"], ports);
        }
        if let Some(address) = &self.clusterip {
            service.set(&["spec", "clusterIP"], address.as_str());
        }
        if let Some(name) = &self.external_name {
            service.set(&["spec", "externalName"], name.as_str());
        }
        Ok(service)
    }

    /// Refuses flags without an effect for this type.
    fn check(&self, kind: &str) -> anyhow::Result<()> {
        for (flag, is_set, of) in [
            ("clusterip", self.clusterip.is_some(), "ClusterIP"),
            ("node-port", self.node_port.is_some(), "NodePort"),
            ("external-name", self.external_name.is_some(), "ExternalName"),
        ] {
            if is_set && kind != of {
                bail!("--{flag} is only for a service of type {of}");
            }
        }
        let is_headless = self.clusterip.as_deref() == Some("None");
        match kind {
            "ExternalName" if self.external_name.is_none() => bail!("--external-name is required"),
            "ExternalName" => Ok(()),
            _ if self.tcp.is_empty() && !is_headless => bail!("at least one --tcp PORT[:TARGET] is required"),
            _ => Ok(()),
        }
    }

    fn port(&self, text: &str) -> anyhow::Result<Value> {
        let (port, target) = text.split_once(':').unwrap_or((text, text));
        let number: u16 = port.parse().with_context(|| format!("--tcp: {port:?} is not a port"))?;
        let name = text.replace(':', "-");
        let target = target.parse::<u16>().map_or_else(|_| json!(target), |number| json!(number));
        let mut value = json!({"name": name, "port": number, "protocol": "TCP", "targetPort": target});
        if let Some(port) = self.node_port {
            value["nodePort"] = port.into();
        }
        Ok(value)
    }
}

fn backend(text: &str, flag: &str) -> anyhow::Result<Value> {
    let Some((service, port)) = text.split_once(':').filter(|(service, port)| !service.is_empty() && !port.is_empty())
    else {
        bail!("--{flag}: {text:?} is not SERVICE:PORT");
    };
    let port = port.parse::<u16>().map_or_else(|_| json!({"name": port}), |number| json!({"number": number}));
    Ok(json!({"service": {"name": service, "port": port}}))
}

impl IngressArgs {
    pub fn object(&self) -> anyhow::Result<Object> {
        if self.rule.is_empty() && self.default_backend.is_none() {
            bail!("not enough information provided: every ingress has to either specify a default-backend or --rule");
        }
        let mut ingress = make("networking.k8s.io/v1", "Ingress", &self.name);
        for text in &self.annotation {
            let (key, value) = pair(text, "annotation")?;
            ingress.set_annotation(key, value);
        }
        if let Some(class) = &self.class {
            ingress.set(&["spec", "ingressClassName"], class.as_str());
        }
        if let Some(text) = &self.default_backend {
            ingress.set(&["spec", "defaultBackend"], backend(text, "default-backend")?);
        }
        let mut rules: Vec<(String, Vec<Value>)> = Vec::new();
        let mut tls: Vec<(String, Vec<String>)> = Vec::new();
        for text in &self.rule {
            let rule = IngressRule::parse(text)?;
            if let Some(secret) = rule.tls {
                match tls.iter_mut().find(|(other, _)| *other == secret) {
                    Some((_, hosts)) => hosts.push(rule.host.clone()),
                    None => tls.push((secret, vec![rule.host.clone()])),
                }
            }
            match rules.iter_mut().find(|(host, _)| *host == rule.host) {
                Some((_, paths)) => paths.push(rule.path),
                None => rules.push((rule.host, vec![rule.path])),
            }
        }
        if !rules.is_empty() {
            let rules = rules.into_iter().map(|(host, paths)| match host.as_str() {
                "" => json!({"http": {"paths": paths}}),
                host => json!({"host": host, "http": {"paths": paths}}),
            });
            ingress.set(&["spec", "rules"], rules.collect::<Vec<Value>>());
        }
        if !tls.is_empty() {
            let tls = tls.into_iter().map(|(secret, mut hosts)| {
                hosts.dedup();
                let mut value = json!({});
                hosts.retain(|host| !host.is_empty());
                if !hosts.is_empty() {
                    value["hosts"] = json!(hosts);
                }
                if !secret.is_empty() {
                    value["secretName"] = secret.into();
                }
                value
            });
            ingress.set(&["spec", "tls"], tls.collect::<Vec<Value>>());
        }
        Ok(ingress)
    }
}

struct IngressRule {
    host: String,
    path: Value,
    /// The secret; empty for the default certificate of the ingress controller.
    tls: Option<String>,
}

impl IngressRule {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut parts = text.split(',');
        let route = parts.next().unwrap_or_default();
        let tls = match parts.next() {
            None => None,
            Some("tls") => Some(String::new()),
            Some(option) => match option.strip_prefix("tls=") {
                Some(secret) => Some(secret.to_owned()),
                None => bail!("--rule: {option:?} is not tls or tls=SECRET"),
            },
        };
        let (place, service) = pair(route, "rule")?;
        let Some((host, path)) = place.split_once('/') else {
            bail!("--rule: {place:?} has no path; use HOST/PATH=SERVICE:PORT");
        };
        let (path, kind) = match path.strip_suffix('*') {
            Some(prefix) => (prefix, "Prefix"),
            None => (path, "Exact"),
        };
        let path = json!({"path": format!("/{path}"), "pathType": kind, "backend": backend(service, "rule")?});
        Ok(Self { host: host.to_owned(), path, tls })
    }
}
