//! The rules of authentication.k8s.io: token requests, which are not stored.

use std::sync::Arc;

use object::{FieldError, Object};

use crate::strategies::defaults::{map_or_new, set_absent};
use crate::strategies::fields::Report;
use crate::strategy::Strategy;

const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "TokenRequest" => Some(Arc::new(TokenRequest)),
        _ => None,
    }
}

struct TokenRequest;

impl Strategy for TokenRequest {
    fn default(&self, request: &mut Object) {
        if let Some(spec) = map_or_new(request.as_map_mut(), "spec") {
            set_absent(spec, "expirationSeconds", 3600);
        }
    }

    fn validate_create(&self, request: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let seconds = report.field(request, "spec").field("expirationSeconds");
        if seconds.int_or(0) < SECONDS_MIN {
            seconds.invalid("may not specify a duration less than 10 minutes");
        }
        if seconds.int_or(0) > SECONDS_MAX {
            seconds.invalid("may not specify a duration larger than 2^32 seconds");
        }
        report.finish()
    }
}
