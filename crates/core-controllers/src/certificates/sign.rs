//! Signs approved requests, or reports why that fails.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use object::Object;
use object::conditions::{self, NewCondition};
use object::time::format_seconds;
use pki::authority::{CertificateAuthority, LEAF_LIFETIME};
use pki::csr::Csr;
use pki::usage::CertificateUsage;
use serde_json::Value;

use super::recognize;

const DURATION_MIN: Duration = Duration::from_secs(600);

/// Returns the request with its status filled in; `None` for signers of other controllers.
pub fn answer(request: &Object, csr: &Csr, authority: &CertificateAuthority, now: Timestamp) -> Option<Object> {
    let usages = recognize::usages(request);
    let in_order: Vec<&str> = request.items(&["spec", "usages"]).iter().filter_map(Value::as_str).collect();
    let verdict = match request.str_at(&["spec", "signerName"]) {
        "kubernetes.io/kube-apiserver-client" => recognize::api_client(&usages, &in_order),
        "kubernetes.io/kube-apiserver-client-kubelet" => recognize::kubelet_client(csr, &usages),
        "kubernetes.io/kubelet-serving" => recognize::kubelet_serving(csr, &usages),
        // This signer predates signer names and accepts any request.
        "kubernetes.io/legacy-unknown" => Ok(()),
        _ => return None,
    };
    // Admission refuses such requests to the client signer. A request from before it, or to another signer, is not signed either.
    let verdict = verdict.and_then(|()| recognize::not_masters(csr));
    let granted = verdict.map_err(|text| ("SignerValidationFailure", text)).and_then(|()| {
        let usages: Result<Vec<CertificateUsage>, _> =
            in_order.iter().map(|name| CertificateUsage::from_kubernetes(name)).collect();
        let signed = usages.and_then(|usages| authority.sign_csr(csr, &usages, duration(request), now));
        signed.map_err(|error| ("SigningFailure", error.to_string()))
    });
    let mut answered = request.clone();
    match granted {
        Ok(certificate) => answered.set(&["status", "certificate"], STANDARD.encode(certificate.to_pem())),
        Err((reason, message)) => {
            let new = NewCondition { kind: "Failed", status: "True", reason, message: &message };
            conditions::edit(&mut answered, new.kind, |condition| {
                condition.write(&new);
                condition.set("lastUpdateTime", format_seconds(now));
            });
        }
    }
    Some(answered)
}

fn duration(request: &Object) -> Duration {
    let asked = request.i64_at(&["spec", "expirationSeconds"]).and_then(|seconds| u64::try_from(seconds).ok());
    asked.map_or(LEAF_LIFETIME, |seconds| Duration::from_secs(seconds).clamp(DURATION_MIN, LEAF_LIFETIME))
}

#[cfg(test)]
mod tests {
    use pki::certificate::Certificate;

    use super::*;
    use crate::certificates::testing::{RequestFixture, csr, request};

    fn answered(asked: &RequestFixture) -> Option<Object> {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let authority = CertificateAuthority::self_signed("ca", now).expect("an authority");
        answer(&request(asked), &csr(asked), &authority, now)
    }

    /// Expects the failure message, or a certificate if it is empty.
    #[track_caller]
    fn check(asked: &RequestFixture, expected: &str) {
        let answered = answered(asked).expect("one of our signers");
        let failure = answered.items(&["status", "conditions"]).first().map(|c| c["message"].clone());
        let failure = failure.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(failure, expected);
        let pem = STANDARD.decode(answered.str_at(&["status", "certificate"])).expect("base64");
        assert_eq!(pem.is_empty(), !expected.is_empty());
        if !pem.is_empty() {
            let certificate = Certificate::from_pem(&pem).expect("a certificate");
            assert_eq!(certificate.subject().common_name, asked.common_name);
            let lifetime = certificate.not_after().duration_since(certificate.not_before()).as_secs();
            assert!((3600..=3900).contains(&lifetime), "{lifetime}");
        }
    }

    const CLIENT: &[&str] = &["digital signature", "key encipherment", "client auth"];

    #[test]
    fn signers_follow_their_rules() {
        let any = "kubernetes.io/kube-apiserver-client";
        check(
            &RequestFixture { signer: any, common_name: "jane", usages: &["client auth"], ..RequestFixture::default() },
            "",
        );
        let wrong = "invalid usage for client certificate: server auth";
        check(
            &RequestFixture { signer: any, common_name: "jane", usages: &["server auth"], ..RequestFixture::default() },
            wrong,
        );
        let missing = "missing required usage for client certificate: client auth";
        check(
            &RequestFixture {
                signer: any,
                common_name: "jane",
                usages: &["digital signature"],
                ..RequestFixture::default()
            },
            missing,
        );

        let kubelet = RequestFixture {
            signer: "kubernetes.io/kube-apiserver-client-kubelet",
            common_name: "system:node:a",
            organization: "system:nodes",
            usages: CLIENT,
            ..RequestFixture::default()
        };
        check(&kubelet, "");
        check(&RequestFixture { organization: "", ..kubelet }, "subject organization is not system:nodes");
        check(
            &RequestFixture {
                organization: "system:nodes",
                dns_name: "a.b",
                common_name: "system:node:a",
                usages: CLIENT,
                ..RequestFixture { signer: kubelet.signer, ..RequestFixture::default() }
            },
            "DNS subjectAltNames are not allowed",
        );
        let serving = RequestFixture {
            signer: "kubernetes.io/kubelet-serving",
            common_name: "system:node:a",
            organization: "system:nodes",
            usages: &["digital signature", "server auth"],
            ..RequestFixture::default()
        };
        check(&serving, "DNS or IP subjectAltName is required");
        check(&RequestFixture { dns_name: "a.b", ..serving }, "");
        let legacy = RequestFixture {
            signer: "kubernetes.io/legacy-unknown",
            common_name: "x",
            usages: CLIENT,
            ..RequestFixture::default()
        };
        check(&legacy, "");
        let masters = "subject organization system:masters is not allowed";
        check(&RequestFixture { organization: "system:masters", ..legacy }, masters);
        let client = RequestFixture { signer: any, common_name: "jane", usages: CLIENT, ..RequestFixture::default() };
        check(&RequestFixture { organization: "system:masters", ..client }, masters);
    }

    #[test]
    fn foreign_signers_are_ignored() {
        let asked = RequestFixture {
            signer: "example.com/mine",
            common_name: "x",
            usages: CLIENT,
            ..RequestFixture::default()
        };
        assert_eq!(answered(&asked), None);
    }
}
