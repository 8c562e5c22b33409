//! Flags for estimators: those of karmada-scheduler to ask them, and those of karmada-scheduler-estimator to serve estimates.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, Args};
use control_plane::settings::{EstimatorServerSettings, EstimatorSettings};

#[derive(Args)]
#[command(next_help_heading = "Estimators")]
pub struct EstimatorClientArgs {
    /// Ask karmada-scheduler-estimator of each candidate cluster before a placement.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    enable_scheduler_estimator: bool,
    /// Do not ask the estimators of pull-mode clusters.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    disable_scheduler_estimator_in_pull_mode: bool,
    /// Maximum time to wait for the answers of all estimators; clusters that do not answer are estimated without.
    #[arg(long, value_parser = karmadactl::durations::parse, default_value = "3s", value_name = "DURATION")]
    scheduler_estimator_timeout: Duration,
    /// Namespace of the Services that name estimators.
    #[arg(long, default_value = "karmada-system", value_name = "NAMESPACE")]
    scheduler_estimator_service_namespace: String,
    /// Prefix of the names of these Services; the name of the cluster follows.
    #[arg(long, default_value = "karmada-scheduler-estimator", value_name = "PREFIX")]
    scheduler_estimator_service_prefix: String,
    /// Port of estimators.
    #[arg(long, default_value_t = 10352, value_name = "PORT")]
    scheduler_estimator_port: u16,
    /// Client certificate for estimators.
    #[arg(long, requires = "scheduler_estimator_key_file", value_name = "FILE")]
    scheduler_estimator_cert_file: Option<PathBuf>,
    /// Key of that certificate.
    #[arg(long, requires = "scheduler_estimator_cert_file", value_name = "FILE")]
    scheduler_estimator_key_file: Option<PathBuf>,
    /// CA of the certificates of estimators; without it and --insecure-skip-estimator-verify, connections are plain text.
    #[arg(long, value_name = "FILE")]
    scheduler_estimator_ca_file: Option<PathBuf>,
    /// Do not verify the certificates of estimators.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    insecure_skip_estimator_verify: bool,
}

impl EstimatorClientArgs {
    /// `None` if estimators are not asked.
    pub fn read(self) -> anyhow::Result<Option<EstimatorSettings>> {
        if !self.enable_scheduler_estimator {
            return Ok(None);
        }
        if self.scheduler_estimator_timeout.is_zero() {
            bail!("--scheduler-estimator-timeout must be positive");
        }
        let settings = EstimatorSettings {
            timeout: self.scheduler_estimator_timeout,
            port: self.scheduler_estimator_port,
            namespace: self.scheduler_estimator_service_namespace,
            prefix: self.scheduler_estimator_service_prefix,
            ca: self.scheduler_estimator_ca_file,
            identity: self.scheduler_estimator_cert_file.zip(self.scheduler_estimator_key_file),
            skip_verify: self.insecure_skip_estimator_verify,
            skip_pull: self.disable_scheduler_estimator_in_pull_mode,
        };
        settings.check().context("--scheduler-estimator-ca-file, -cert-file and -key-file")?;
        Ok(Some(settings))
    }
}

#[derive(Args)]
#[command(next_help_heading = "Estimators")]
pub struct EstimatorServerArgs {
    /// Address at which karmada-scheduler and karmada-descheduler can ask for estimates.
    #[arg(long, value_name = "HOST:PORT")]
    estimator_bind_address: Option<SocketAddr>,
    /// Certificate of that address; required unless it is a loopback address.
    #[arg(long, requires = "grpc_auth_key_file", value_name = "FILE")]
    grpc_auth_cert_file: Option<PathBuf>,
    /// Key of that certificate.
    #[arg(long, requires = "grpc_auth_cert_file", value_name = "FILE")]
    grpc_auth_key_file: Option<PathBuf>,
    /// CA of the certificates of clients; required with a certificate unless --insecure-skip-grpc-client-verify is given.
    #[arg(long, value_name = "FILE")]
    grpc_client_ca_file: Option<PathBuf>,
    /// Answer clients without a certificate.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    insecure_skip_grpc_client_verify: bool,
}

impl EstimatorServerArgs {
    /// `None` if no estimates are served.
    pub fn read(self) -> anyhow::Result<Option<EstimatorServerSettings>> {
        let certificate = self.grpc_auth_cert_file.zip(self.grpc_auth_key_file);
        let Some(bind) = self.estimator_bind_address else {
            if certificate.is_some() || self.grpc_client_ca_file.is_some() {
                bail!("--grpc-auth-cert-file and --grpc-client-ca-file need --estimator-bind-address");
            }
            return Ok(None);
        };
        if certificate.is_none() && !bind.ip().is_loopback() {
            bail!("--estimator-bind-address {bind} is not a loopback address: it needs --grpc-auth-cert-file");
        }
        let verifies = certificate.is_some() && !self.insecure_skip_grpc_client_verify;
        if verifies && self.grpc_client_ca_file.is_none() {
            bail!("--grpc-auth-cert-file needs --grpc-client-ca-file or --insecure-skip-grpc-client-verify");
        }
        let client_ca = self.grpc_client_ca_file.filter(|_| verifies);
        Ok(Some(EstimatorServerSettings { bind, certificate, client_ca }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        client: EstimatorClientArgs,
        #[command(flatten)]
        server: EstimatorServerArgs,
    }

    fn parse(line: &str) -> Line {
        Line::try_parse_from(std::iter::once("server").chain(line.split_whitespace())).expect(line)
    }

    #[test]
    fn estimators_are_configured_by_the_flags_of_karmada_scheduler() {
        assert_eq!(parse("--scheduler-estimator-port=1").client.read().expect("fine"), None);
        let defaults = parse("--enable-scheduler-estimator").client.read().expect("fine");
        assert_eq!(defaults, Some(EstimatorSettings::default()));
        let line = "--enable-scheduler-estimator=true --disable-scheduler-estimator-in-pull-mode \
            --scheduler-estimator-timeout=5s --scheduler-estimator-port=99 --insecure-skip-estimator-verify=true \
            --scheduler-estimator-service-namespace=ns --scheduler-estimator-service-prefix=p";
        let given = parse(line).client.read().expect("fine").expect("enabled");
        assert_eq!((given.timeout, given.port), (Duration::from_secs(5), 99));
        assert_eq!((given.namespace.as_str(), given.prefix.as_str()), ("ns", "p"));
        assert!(given.skip_pull && given.skip_verify);
        let missing = "--enable-scheduler-estimator --scheduler-estimator-ca-file=/nowhere/ca.crt";
        assert!(parse(missing).client.read().is_err());
    }

    #[test]
    fn estimates_are_served_in_plain_text_on_loopback_only() {
        let read = |line: &str| parse(line).server.read();
        assert_eq!(read("").expect("fine"), None);
        assert!(read("--estimator-bind-address=127.0.0.1:0").expect("fine").is_some());
        assert!(read("--estimator-bind-address=0.0.0.0:10352").is_err());
        let tls = "--estimator-bind-address=0.0.0.0:10352 --grpc-auth-cert-file=c --grpc-auth-key-file=k";
        assert!(read(tls).is_err(), "clients are verified");
        let verified = read(&format!("{tls} --grpc-client-ca-file=ca")).expect("fine").expect("served");
        assert_eq!(verified.client_ca, Some(PathBuf::from("ca")));
        let open = read(&format!("{tls} --insecure-skip-grpc-client-verify")).expect("fine").expect("served");
        assert_eq!(open.client_ca, None);
        assert!(read("--grpc-auth-cert-file=c --grpc-auth-key-file=k").is_err());
    }
}
