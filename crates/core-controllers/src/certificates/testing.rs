//! Certificate requests for the tests of this module.

use object::Object;
use pki::csr::{Csr, create_csr};
use pki::key::PrivateKey;
use pki::subject::{AlternativeNames, CertificateSubject};
use serde_json::json;

#[derive(Clone, Copy, Default)]
pub struct RequestFixture {
    pub signer: &'static str,
    pub common_name: &'static str,
    pub organization: &'static str,
    pub dns_name: &'static str,
    pub usages: &'static [&'static str],
}

pub fn csr(asked: &RequestFixture) -> Csr {
    let key = PrivateKey::generate().expect("a key");
    let names = |name: &str| if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
    let subject = CertificateSubject::new(asked.common_name, &names(asked.organization));
    let alternative = AlternativeNames { dns_names: names(asked.dns_name), ..AlternativeNames::default() };
    let pem = create_csr(&key, &subject, &alternative).expect("a request");
    Csr::from_pem(pem.as_bytes()).expect("our own request")
}

pub fn request(asked: &RequestFixture) -> Object {
    let request = json!({"spec": {"signerName": asked.signer, "usages": asked.usages, "expirationSeconds": 3600}});
    Object::from_value(request).expect("a map")
}
