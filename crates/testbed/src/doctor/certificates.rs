//! Certificates: in the kubeconfigs, and in the directories of processes of this host.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use pki::certificate::Certificate;

use super::subject::{Hints, load};
use super::{Check, DoctorSubject, Evidence, Finding, Layer, broken};
use crate::hint::{Hint, quoted};
use crate::host_cluster::HOST;
use crate::place::PLANE;

/// Certificates that expire sooner are reported. Servers renew their own long before.
const DAYS_LEFT_MIN: i64 = 7;
/// Directories are looked through this deep, for this many files.
const DEPTH_MAX: usize = 3;
const FILES_MAX: usize = 200;

#[derive(Debug)]
pub struct CertificateSeen {
    /// Which file.
    pub file: String,
    /// `client certificate` and the like.
    pub role: &'static str,
    pub state: Result<Term, String>,
    /// The machine that renews it by itself when it starts.
    pub machine: Option<String>,
}

#[derive(Debug)]
pub struct Term {
    pub subject: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

pub struct Certificates;

#[async_trait]
impl Check for Certificates {
    fn layer(&self) -> Layer {
        Layer::Certificates
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let mut kubeconfigs = vec![subject.hints().kubeconfig.clone()];
        let mut folders = Vec::new();
        if let Some((place, spec)) = subject.bed() {
            for member in &spec.members {
                kubeconfigs.push(place.member_config(&member.name));
                kubeconfigs.push(place.agent_plane_config(&member.name));
                kubeconfigs.push(place.agent_member_config(&member.name));
                folders.push((member.name.clone(), place.machine_data(&member.name)));
            }
            if spec.host.is_some() {
                kubeconfigs.push(place.member_config(HOST));
                folders.push((HOST.to_owned(), place.machine_data(HOST)));
            }
            folders.push((PLANE.to_owned(), place.machine_data(PLANE)));
        }
        let read = move || {
            let mut seen: Vec<CertificateSeen> = kubeconfigs.iter().flat_map(|file| of_kubeconfig(file)).collect();
            seen.extend(folders.iter().flat_map(|(machine, folder)| of_folder(machine, folder)));
            seen
        };
        Evidence::Certificates(tokio::task::spawn_blocking(read).await.unwrap_or_default())
    }
}

fn of_kubeconfig(file: &Path) -> Vec<CertificateSeen> {
    if !file.exists() {
        return Vec::new();
    }
    let name = file.display().to_string();
    let seen = |role, state| CertificateSeen { file: name.clone(), role, state, machine: None };
    let remote = match load(file, None) {
        Ok(remote) => remote,
        Err(error) => return vec![seen("kubeconfig", Err(format!("{error:#}")))],
    };
    let client = remote.credentials.client_certificate.as_ref().map(|pair| ("client certificate", &pair.certificate));
    let authority = remote.ca.as_ref().map(|ca| ("certificate authority", ca));
    let read = |(role, pem): (&'static str, &cluster_client::remote::config::Pem)| {
        seen(role, pem.read().map_err(|error| error.to_string()).and_then(|text| term(&text)))
    };
    client.into_iter().chain(authority).map(read).collect()
}

fn of_folder(machine: &str, folder: &Path) -> Vec<CertificateSeen> {
    let mut files = Vec::new();
    collect(folder, 0, &mut files);
    let read = |file: PathBuf| CertificateSeen {
        state: std::fs::read(&file).map_err(|error| error.to_string()).and_then(|text| term(&text)),
        file: file.display().to_string(),
        role: "certificate",
        machine: Some(machine.to_owned()),
    };
    files.into_iter().map(read).collect()
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if files.len() >= FILES_MAX {
            return;
        }
        if path.extension().is_some_and(|extension| extension == "crt") {
            files.push(path);
        } else if depth < DEPTH_MAX && path.is_dir() {
            collect(&path, depth + 1, files);
        }
    }
}

/// The validity of the first certificate; the others of a file are its issuers.
fn term(text: &[u8]) -> Result<Term, String> {
    let certificates = Certificate::bundle_from_pem(text).map_err(|error| error.to_string())?;
    let first = certificates.first().ok_or("it has no certificate")?;
    let subject = format!("{:?}", first.subject().common_name);
    Ok(Term { subject, not_before: first.not_before(), not_after: first.not_after() })
}

pub fn judge(seen: &[CertificateSeen], hints: &Hints, now: Timestamp) -> Vec<Finding> {
    seen.iter().filter_map(|certificate| judge_one(certificate, hints, now)).collect()
}

fn judge_one(seen: &CertificateSeen, hints: &Hints, now: Timestamp) -> Option<Finding> {
    let term = match &seen.state {
        Ok(term) => term,
        Err(why) => {
            let what = format!("the {} cannot be read", seen.role);
            let elsewhere = format!("openssl x509 -noout -text -in {}", quoted(Path::new(&seen.file)));
            return Some(broken(Layer::Certificates, &seen.file, what, why.clone(), hints.repair(&elsewhere)));
        }
    };
    let soon = now.checked_add((24 * DAYS_LEFT_MIN).hours()).unwrap_or(now);
    let role = format!("the {} of {}", seen.role, term.subject);
    let (what, why) = if now > term.not_after {
        (format!("{role} has expired on {}", day(term.not_after)), "servers reject it")
    } else if now < term.not_before {
        let what = format!("{role} is only valid from {} on", day(term.not_before));
        (what, "it was created by a machine whose clock is ahead")
    } else if soon > term.not_after {
        (
            format!("{role} expires on {}", day(term.not_after)),
            "it was not renewed yet; a server renews its own when it starts",
        )
    } else {
        return None;
    };
    Some(broken(Layer::Certificates, &seen.file, what, why, renewal(seen, hints)))
}

/// Returns the renewal command. Servers renew due certificates when they start, and write kubeconfigs again.
fn renewal(seen: &CertificateSeen, hints: &Hints) -> String {
    if hints.place.is_none() {
        return "restart the server, which renews expiring certificates, then copy DATA-DIR/karmada-apiserver.config"
            .to_owned();
    }
    match seen.machine.as_deref() {
        Some(machine) if machine != PLANE && machine != HOST => {
            format!("{} && {}", hints.flotilla(&Hint::Stop(machine)), hints.flotilla(&Hint::Start(machine)))
        }
        _ => format!("{} && {}", hints.flotilla(&Hint::Down), hints.flotilla(&Hint::Up)),
    }
}

fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
