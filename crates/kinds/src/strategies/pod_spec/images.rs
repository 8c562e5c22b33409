//! Images and pull secrets.

use super::super::fields::Field;

pub const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

pub fn validate_pull_policy(policy: Field<'_>) {
    policy.required_one_of(&PULL_POLICIES);
}

pub fn refuse_padding(image: Field<'_>) {
    if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

pub fn validate_pull_secrets(secrets: Field<'_>) {
    for secret in secrets.items() {
        if secret.names().any(|name| name != "name") {
            secret.invalid("only name may be set");
        }
    }
}
