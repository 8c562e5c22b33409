//! Decides when to replace a certificate, from its dates.

use jiff::Timestamp;

use crate::certificate::Certificate;

/// The time to renew: 70 % of the lifetime, up to 80 % with `jitter` (0 to 1) so that many holders do not renew in
/// sync.
pub fn renew_at(not_before: Timestamp, not_after: Timestamp, jitter: f64) -> Timestamp {
    let life = not_after.as_second().saturating_sub(not_before.as_second()).max(0);
    let share = 0.7 + 0.1 * if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
    let seconds = not_before.as_second().saturating_add((life as f64 * share).round() as i64);
    Timestamp::from_second(seconds).unwrap_or(not_after)
}

/// Reports whether the certificate is due. True from the earliest time [`renew_at`] can return, so that its timer
/// never finds the certificate "still good"; also true before its start, as after a clock was set back.
pub fn needs_renewal(certificate: &Certificate, now: Timestamp) -> bool {
    now < certificate.not_before() || now >= renew_at(certificate.not_before(), certificate.not_after(), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{CertificateAuthority, CertificateRequest};

    #[test]
    fn renewal_falls_between_seventy_and_eighty_percent_of_the_life() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        for (jitter, expected) in [(0.0, 1700), (1.0, 1800), (0.5, 1750), (-3.0, 1700), (9.0, 1800), (f64::NAN, 1700)] {
            assert_eq!(renew_at(at(1000), at(2000), jitter), at(expected), "jitter {jitter}");
        }
        assert_eq!(renew_at(at(2000), at(1000), 0.0), at(2000), "a life that ends before it starts is over");
        assert!(renew_at(Timestamp::MIN, Timestamp::MAX, 1.0) < Timestamp::MAX);
    }

    #[test]
    fn a_certificate_is_due_late_in_its_life_and_before_its_start() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let authority = CertificateAuthority::self_signed("ca", now).unwrap();
        let leaf = authority.issue(&CertificateRequest::client("a", &[]), now).unwrap().certificate;
        let days = |count: i64| now + jiff::SignedDuration::from_hours(24 * count);
        for (day, due) in [(0, false), (250, false), (256, true), (400, true), (-1, true)] {
            assert_eq!(needs_renewal(&leaf, days(day)), due, "day {day}");
        }
    }
}
