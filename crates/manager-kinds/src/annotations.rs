//! Annotations of an instance: the settings that karmada-operator's spec has no field for.

use std::time::Duration;

use object::{FieldError, FieldPath, Object};

const PREFIX: &str = "flotilla.dev/";
pub const MODE: &str = "flotilla.dev/mode";
pub const IMPORT_KUBECONFIG: &str = "flotilla.dev/import-kubeconfig";
pub const DISPLAY_NAME: &str = "flotilla.dev/display-name";
pub const DESCRIPTION: &str = "flotilla.dev/description";
pub const HIBERNATE_AFTER: &str = "flotilla.dev/hibernate-after";
pub const EXPOSE: &str = "flotilla.dev/expose";
/// Refuses the deletion of the instance while it is "true".
pub const PROTECTED: &str = "flotilla.dev/protected";
/// A new value restarts the control plane once, as `kubectl rollout restart` does for a Deployment.
pub const RESTARTED_AT: &str = "flotilla.dev/restarted-at";
/// A new value stops the control plane once no cluster is joined; a request starts it again.
pub const HIBERNATED_AT: &str = "flotilla.dev/hibernated-at";
/// The Prometheus that has metrics of this instance only.
pub const PROMETHEUS_URL: &str = "flotilla.dev/prometheus-url";
/// The backup of the instance whose data replaces the present data once.
pub const RESTORE: &str = "flotilla.dev/restore";

/// Annotations about starting, stopping and serving a control plane, which an imported one does elsewhere.
pub const WITHOUT_EFFECT_ON_IMPORTS: &[&str] = &[HIBERNATE_AFTER, EXPOSE, HIBERNATED_AT];

const DISPLAY_NAME_MAX: usize = 60;
const DESCRIPTION_MAX: usize = 1000;
const BACKUP_ID_MAX: usize = 64;
const HIBERNATE_MIN: Duration = Duration::from_secs(1);

/// The place where a control plane runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the manager's process.
    #[default]
    InProcess,
    /// In a child process.
    Process,
    /// Run by others; the manager only connects to it.
    Imported,
}

impl Mode {
    pub const NAMES: &[&str] = &["in-process", "process", "imported"];

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "in-process" => Some(Self::InProcess),
            "process" => Some(Self::Process),
            "imported" => Some(Self::Imported),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Process => "process",
            Self::Imported => "imported",
        }
    }
}

/// A key in a Secret of the instance's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    pub name: String,
    pub key: String,
}

/// The address of a listener of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expose {
    pub host: String,
    /// Any free port when absent.
    pub port: Option<u16>,
}

/// The annotations of an instance as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceSettings {
    pub mode: Mode,
    pub import: Option<SecretKey>,
    pub expose: Option<Expose>,
    pub hibernate_after: Option<Duration>,
    pub is_protected: bool,
    pub restarted_at: Option<String>,
    pub hibernated_at: Option<String>,
    /// The id of the backup that the data comes from.
    pub restore: Option<String>,
    pub prometheus: Option<String>,
}

/// Reads the annotations. Unknown ones with our prefix are errors: they would have no effect.
pub fn read(instance: &Object) -> (InstanceSettings, Vec<FieldError>) {
    let (mut settings, mut errors) = (InstanceSettings::default(), Vec::new());
    for (key, value) in instance.annotations().filter(|(key, _)| key.starts_with(PREFIX)) {
        if let Err(problem) = apply(&mut settings, key, value) {
            let path = FieldPath::new("metadata").child("annotations").key(key);
            errors.push(FieldError::invalid(path, value, problem));
        }
    }
    let path = || FieldPath::new("metadata").child("annotations").key(IMPORT_KUBECONFIG);
    if settings.mode == Mode::Imported && settings.restore.is_some() {
        let path = FieldPath::new("metadata").child("annotations").key(RESTORE);
        errors.push(FieldError::forbidden(path, "the data of an imported instance is not the manager's"));
    }
    match (settings.mode, &settings.import) {
        (Mode::Imported, None) => {
            errors.push(FieldError::required(path(), "names the Secret with the kubeconfig of an imported instance"));
        }
        (Mode::InProcess | Mode::Process, Some(_)) => {
            errors.push(FieldError::forbidden(path(), format!("is only for instances with {MODE}: imported")));
        }
        _ => {}
    }
    (settings, errors)
}

fn apply(settings: &mut InstanceSettings, key: &str, value: &str) -> Result<(), String> {
    match key {
        MODE => {
            settings.mode = Mode::parse(value).ok_or_else(|| format!("must be one of {}", Mode::NAMES.join(", ")))?;
        }
        IMPORT_KUBECONFIG => settings.import = Some(secret_key(value)?),
        DISPLAY_NAME => at_most(value, DISPLAY_NAME_MAX)?,
        DESCRIPTION => at_most(value, DESCRIPTION_MAX)?,
        HIBERNATE_AFTER => settings.hibernate_after = Some(hibernate_after(value)?),
        EXPOSE => settings.expose = Some(expose(value)?),
        PROTECTED => settings.is_protected = value.parse().map_err(|_| "must be \"true\" or \"false\"".to_owned())?,
        PROMETHEUS_URL => settings.prometheus = Some(prometheus_url(value)?),
        RESTORE => settings.restore = Some(backup_id(value)?),
        RESTARTED_AT => settings.restarted_at = Some(value.to_owned()),
        HIBERNATED_AT => settings.hibernated_at = Some(value.to_owned()),
        _ => return Err("is not a known annotation".to_owned()),
    }
    Ok(())
}

fn secret_key(value: &str) -> Result<SecretKey, String> {
    let (name, key) = value.split_once('/').unwrap_or((value, "kubeconfig"));
    let mut problems = object::names::dns1123_subdomain(name);
    problems.extend(object::names::config_map_key(key));
    match problems.into_iter().next() {
        None => Ok(SecretKey { name: name.to_owned(), key: key.to_owned() }),
        Some(problem) => Err(format!("must be SECRET or SECRET/KEY: {problem}")),
    }
}

/// Returns true for the id of a backup; it is part of a file name.
pub fn is_backup_id(id: &str) -> bool {
    (1..=BACKUP_ID_MAX).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn backup_id(value: &str) -> Result<String, String> {
    match is_backup_id(value) {
        true => Ok(value.to_owned()),
        false => Err("must be the id of a backup of this instance".to_owned()),
    }
}

/// Reads the URL of an HTTP server, without user name, query or fragment.
fn prometheus_url(value: &str) -> Result<String, String> {
    let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    let is_plain = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['@', '?', '#', ' ']);
    match rest.is_some_and(is_plain) {
        true => Ok(value.trim_end_matches('/').to_owned()),
        false => Err("must be a URL such as https://HOST:9090, without user name and query".to_owned()),
    }
}

fn at_most(value: &str, characters_max: usize) -> Result<(), String> {
    match value.chars().count() > characters_max {
        true => Err(object::names::too_many_characters(characters_max)),
        false => Ok(()),
    }
}

fn hibernate_after(value: &str) -> Result<Duration, String> {
    let parsed = object::duration::parse(value).map_err(|error| format!("must be a duration such as 30m: {error}"))?;
    let duration = Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())?;
    if duration < HIBERNATE_MIN { Err("must be at least 1s".to_owned()) } else { Ok(duration) }
}

fn expose(value: &str) -> Result<Expose, String> {
    let (host, port) = match value.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| format!("{port:?} is not a port"))?)),
        None => (value, None),
    };
    if host.is_empty() || host.contains(['/', ' ', '@']) || host.contains("..") {
        return Err("must be HOST or HOST:PORT".to_owned());
    }
    Ok(Expose { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(annotations: &[(&str, &str)]) -> Object {
        let mut object = crate::KARMADAS.object("karmada-system", "demo");
        object.set(&["spec"], json!({}));
        for (key, value) in annotations {
            object.set_annotation(key, value);
        }
        object
    }

    #[track_caller]
    fn check(annotations: &[(&str, &str)], expected: Result<InstanceSettings, &str>) {
        match (read(&instance(annotations)), expected) {
            ((found, errors), Ok(expected)) => {
                assert!(errors.is_empty(), "{errors:?}");
                assert_eq!(found, expected);
            }
            ((_, errors), Err(expected)) => {
                let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                assert!(text.contains(expected), "{text:?} lacks {expected:?}");
            }
        }
    }

    #[test]
    fn annotations_are_read_and_unknown_ones_are_refused() {
        check(&[], Ok(InstanceSettings::default()));
        check(&[(MODE, "process")], Ok(InstanceSettings { mode: Mode::Process, ..InstanceSettings::default() }));
        let import = Some(SecretKey { name: "kc".into(), key: "config".into() });
        let imported = InstanceSettings { mode: Mode::Imported, import, ..InstanceSettings::default() };
        check(&[(MODE, "imported"), (IMPORT_KUBECONFIG, "kc/config")], Ok(imported));
        let expose = Some(Expose { host: "0.0.0.0".into(), port: Some(7443) });
        check(&[(EXPOSE, "0.0.0.0:7443")], Ok(InstanceSettings { expose, ..InstanceSettings::default() }));
        let hibernate_after = Some(Duration::from_secs(1800));
        check(&[(HIBERNATE_AFTER, "30m")], Ok(InstanceSettings { hibernate_after, ..InstanceSettings::default() }));
        check(&[("other.dev/x", "y")], Ok(InstanceSettings::default()));
        check(&[(MODE, "remote")], Err("must be one of in-process, process, imported"));
        check(&[(MODE, "imported")], Err("names the Secret with the kubeconfig"));
        check(&[(IMPORT_KUBECONFIG, "kc")], Err("only for instances with"));
        check(&[(MODE, "imported"), (IMPORT_KUBECONFIG, "../etc/passwd")], Err("must be SECRET or SECRET/KEY"));
        check(&[(HIBERNATE_AFTER, "soon")], Err("must be a duration"));
        check(&[(HIBERNATE_AFTER, "10ms")], Err("at least 1s"));
        check(&[(EXPOSE, "https://x/y")], Err("is not a port"));
        check(&[(PROTECTED, "yes")], Err("must be \"true\" or \"false\""));
        let prometheus = Some("http://prometheus:9090".to_owned());
        let expected = InstanceSettings { prometheus, ..InstanceSettings::default() };
        check(&[(PROMETHEUS_URL, "http://prometheus:9090/")], Ok(expected));
        check(&[(PROMETHEUS_URL, "https://a:b@prometheus")], Err("must be a URL"));
        check(&[(PROMETHEUS_URL, "file:///etc/passwd")], Err("must be a URL"));
        check(&[(DISPLAY_NAME, &"n".repeat(61))], Err("60"));
        check(&[(RESTORE, "../x")], Err("must be the id of a backup"));
        check(&[(MODE, "imported"), (IMPORT_KUBECONFIG, "kc"), (RESTORE, "x")], Err("is not the manager's"));
        check(&[("flotilla.dev/hibernate", "30m")], Err("is not a known annotation"));
    }
}
