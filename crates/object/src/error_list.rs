//! Several errors as one text, as Kubernetes' aggregate errors show them.

use std::fmt::Display;

/// One error as it is, several in brackets, none twice. Empty if there are none.
pub fn joined(errors: impl IntoIterator<Item = impl Display>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 | 1 => texts.pop().unwrap_or_default(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_joined_and_deduplicated() {
        for (errors, expected) in
            [(&[][..], ""), (&["a"][..], "a"), (&["a", "a"][..], "a"), (&["a", "b", "a"][..], "[a, b]")]
        {
            assert_eq!(joined(errors), expected);
        }
    }
}
