//! Devices and the claims on them (dynamic resource allocation).

mod claims;
mod slices;

use std::collections::BTreeSet;
use std::sync::Arc;

use object::names;

use crate::strategies::fields::Field;
use crate::strategy::Strategy;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "ResourceClaim" => Arc::new(claims::Claim),
        "ResourceClaimTemplate" => Arc::new(claims::Template),
        "DeviceClass" => Arc::new(claims::DeviceClass),
        "ResourceSlice" => Arc::new(slices::Slice),
        _ => return None,
    })
}

/// Checks a list with a maximum length; a longer list is not checked further.
fn validate_list<'a>(list: Field<'a>, max: usize, mut check: impl FnMut(Field<'a>)) {
    if list.len() > max {
        return list.too_many(list.len(), max);
    }
    list.items().for_each(&mut check);
}

/// A list whose entries must have unique keys.
fn validate_set<'a>(list: Field<'a>, max: usize, check: impl FnMut(Field<'a>), key: impl Fn(Field<'a>) -> &'a str) {
    validate_list(list, max, check);
    if list.len() <= max {
        let mut seen = BTreeSet::new();
        for item in list.items() {
            if !seen.insert(key(item)) {
                item.duplicate_as(key(item));
            }
        }
    }
}

fn validate_driver(driver: Field<'_>) {
    if !driver.require() {
        return;
    }
    if driver.len() > 63 {
        driver.too_long(63);
    }
    driver.problems(names::dns1123_subdomain(&driver.text().to_lowercase()));
}

fn validate_taint(taint: Field<'_>) {
    let key = taint.field("key");
    key.problems_as(key.text(), names::qualified_name(key.text()));
    taint.field("value").problems(names::label_value(taint.field("value").text()));
    taint.field("effect").required_one_of(EFFECTS);
}
