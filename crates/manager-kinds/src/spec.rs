//! Reads the spec of an instance: which fields apply, which have no effect, which are refused.
//!
//! A setting becomes a flag of `flotilla server`, so that an instance in the manager's process, one in a process of its own
//! and a server started by hand mean the same.

mod components;
mod extra_args;

use object::{FieldError, FieldPath, Object};
use serde_json::Value;

use crate::annotations::{self, Mode};
use crate::instance::resource_name;

/// Validity of certificates that `flotilla server` issues for itself.
const LEAF_DAYS: std::ops::RangeInclusive<i64> = 1..=3650;

/// The least size limit of a storage: a control plane without objects of users has space in it.
pub const STORAGE_BYTES_MIN: u64 = 16 << 20;

/// An etcd that others run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalEtcd {
    pub endpoints: Vec<String>,
    /// Secret with ca.crt, tls.crt and tls.key.
    pub secret: Option<String>,
    /// Key prefix; `/flotilla/UID` when absent.
    pub prefix: Option<String>,
}

/// The control plane that a spec describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaneSpec {
    /// Flags of `flotilla server`.
    pub flags: Vec<String>,
    pub etcd: Option<ExternalEtcd>,
    /// Secret with the CA of the API server.
    pub ca_secret: Option<String>,
    /// Serve on a port of its own in addition to the manager's address.
    pub has_own_port: bool,
    pub is_suspended: bool,
    /// Zero replicas of the API server.
    pub is_stopped: bool,
}

/// A spec with the verdict on each field.
#[derive(Clone, Debug, Default)]
pub struct SpecReading {
    pub plane: PlaneSpec,
    /// Fields without effect, each with the reason.
    pub ignored: Vec<String>,
    pub errors: Vec<FieldError>,
}

impl SpecReading {
    fn flag(&mut self, name: &str, value: impl std::fmt::Display) {
        self.plane.flags.push(format!("--{name}={value}"));
    }

    fn ignore(&mut self, path: &FieldPath, why: &str) {
        self.ignored.push(format!("{}: {why}", path.as_str()));
    }

    fn refuse(&mut self, error: FieldError) {
        self.errors.push(error);
    }
}

/// Reads the spec of an instance of a mode.
pub fn read(instance: &Object, mode: Mode) -> SpecReading {
    let mut reading = SpecReading::default();
    let root = FieldPath::new("spec");
    reading.plane.is_suspended = instance.bool_at(&["spec", "suspend"]).unwrap_or(false);
    read_host_cluster(&mut reading, instance, &root.child("hostCluster"));
    read_sources(&mut reading, instance, &root);
    read_certificates(&mut reading, instance, &root.child("customCertificate"));
    if mode == Mode::Imported {
        ignore_settings_of_import(&mut reading, instance, &root);
        return reading;
    }
    components::read_all(&mut reading, instance);
    reading
}

/// An imported control plane is configured where it runs: what describes a control plane of the manager has no effect.
fn ignore_settings_of_import(reading: &mut SpecReading, instance: &Object, root: &FieldPath) {
    reading.plane.flags.clear();
    reading.plane.ca_secret = None;
    let configured = "has no effect: an imported control plane is configured where it runs";
    let certificates = "has no effect: an imported control plane has its own certificates";
    let networking = root.child("hostCluster").child("networking");
    for (at, path, why) in [
        (&["spec", "components"][..], root.child("components"), configured),
        (&["spec", "featureGates"], root.child("featureGates"), configured),
        (&["spec", "customCertificate"], root.child("customCertificate"), certificates),
        (&["spec", "hostCluster", "networking"], networking, certificates),
    ] {
        if instance.get(at).is_some() {
            reading.ignore(&path, why);
        }
    }
    for key in annotations::WITHOUT_EFFECT_ON_IMPORTS {
        if instance.annotation(key).is_some() {
            let path = FieldPath::new("metadata").child("annotations").key(key);
            reading.ignore(&path, "has no effect: an imported control plane is not started, stopped or served here");
        }
    }
}

/// Reports whether two states of an instance differ in what they take from others: Secrets of the manager, and storage that
/// other instances may share.
pub fn refers_elsewhere(old: &Object, new: &Object) -> bool {
    let references = |instance: &Object| {
        let settings = annotations::read(instance).0;
        let plane = read(instance, settings.mode).plane;
        (settings.mode, settings.import, plane.etcd, plane.ca_secret)
    };
    references(old) != references(new)
}

fn read_host_cluster(reading: &mut SpecReading, instance: &Object, path: &FieldPath) {
    if instance.get(&["spec", "hostCluster", "secretRef"]).is_some() {
        let why = "installing into another cluster is not supported yet: install it there and import it with \
            the annotation flotilla.dev/mode: imported";
        reading.refuse(FieldError::forbidden(path.child("secretRef"), why));
    }
    let domain = instance.str_at(&["spec", "hostCluster", "networking", "dnsDomain"]);
    if domain.is_empty() {
        return;
    }
    if let Some(problem) = object::names::dns1123_subdomain(domain).into_iter().next() {
        return reading.refuse(FieldError::invalid(path.child("networking").child("dnsDomain"), domain, problem));
    }
    let service = resource_name(instance.name(), "apiserver");
    reading.flag("tls-san", format_args!("{service}.{}.svc.{domain}", instance.namespace()));
}

fn read_sources(reading: &mut SpecReading, instance: &Object, root: &FieldPath) {
    if instance.get(&["spec", "privateRegistry"]).is_some() {
        reading.ignore(&root.child("privateRegistry"), "has no effect: the control plane uses no images");
    }
    if instance.get(&["spec", "crdTarball"]).is_none() {
        return;
    }
    let tarball = root.child("crdTarball");
    let urls = [
        (&["spec", "crdTarball", "httpSource", "url"][..], "url"),
        (&["spec", "crdTarball", "httpSource", "proxy", "proxyURL"], "proxy.proxyURL"),
    ];
    for (at, name) in urls {
        let url = instance.str_at(at);
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            let path = tarball.child("httpSource").child(name);
            reading.refuse(FieldError::invalid(path, url, "must be a URL that begins with http:// or https://"));
        }
    }
    reading.ignore(&tarball, "has no effect: Karmada's kinds are built in, nothing is downloaded");
}

fn read_certificates(reading: &mut SpecReading, instance: &Object, path: &FieldPath) {
    let at = ["spec", "customCertificate", "apiServerCACert"];
    if let Some(reference) = instance.get(&at) {
        let namespace = reference["namespace"].as_str().unwrap_or_default();
        let name = reference["name"].as_str().unwrap_or_default();
        if !namespace.is_empty() && namespace != instance.namespace() {
            let field = path.child("apiServerCACert").child("namespace");
            reading.refuse(FieldError::invalid(field, namespace, "must be the namespace of the instance"));
        } else if name.is_empty() {
            let field = path.child("apiServerCACert").child("name");
            reading.refuse(FieldError::required(field, "names the Secret with tls.crt and tls.key"));
        } else {
            reading.plane.ca_secret = Some(name.to_owned());
        }
    }
    if let Some(days) = instance.i64_at(&["spec", "customCertificate", "leafCertValidityDays"]) {
        match LEAF_DAYS.contains(&days) {
            true => reading.flag("leaf-cert-validity-days", days),
            false => {
                let text = format!("must be {} to {}", LEAF_DAYS.start(), LEAF_DAYS.end());
                reading.refuse(FieldError::invalid(path.child("leafCertValidityDays"), days, text));
            }
        }
    }
}

/// Returns the entries of a map of texts or booleans, as text.
fn entries<'a>(instance: &'a Object, path: &[&str]) -> Vec<(&'a str, String)> {
    let Some(map) = instance.get(path).and_then(Value::as_object) else { return Vec::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    map.iter().map(|(key, value)| (key.as_str(), text(value))).collect()
}

#[cfg(test)]
mod every_field;
#[cfg(test)]
mod tests;
