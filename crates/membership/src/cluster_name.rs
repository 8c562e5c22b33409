//! Rules for the names of member clusters.

use crate::MembershipError;

/// Maximum length: the execution namespace adds a prefix to it.
const NAME_LENGTH_MAX: usize = 48;

/// Checks that a cluster can have this name.
pub fn check_name(name: &str) -> Result<(), MembershipError> {
    let problems = match name.len() {
        length if length > NAME_LENGTH_MAX => vec![object::names::too_many_characters(NAME_LENGTH_MAX)],
        _ => object::names::dns1123_label(name),
    };
    match problems.is_empty() {
        true => Ok(()),
        false => Err(MembershipError::InvalidName { name: name.to_owned(), problems: problems.join(";") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_of_at_most_48_characters() {
        assert!(check_name(&"a".repeat(48)).is_ok());
        assert_eq!(
            check_name(&"a".repeat(49)).expect_err("too long").to_string(),
            format!("invalid cluster name({}): must be no more than 48 characters", "a".repeat(49))
        );
        assert!(check_name("M_1").is_err());
    }
}
