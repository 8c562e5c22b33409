//! Names for objects with `metadata.generateName`.

use rand::RngExt;

/// A name of at most 63 characters from `metadata.generateName`.
pub fn generate_name(base: &str) -> String {
    // No vowels and no look-alikes: no accidental words, nothing to misread.
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rng = rand::rng();
    let mut end = base.len().min(58);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let suffix = (0..5).map(|_| ALPHABET[rng.random_range(0..ALPHABET.len())] as char);
    base[..end].chars().chain(suffix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit_and_differ() {
        let long = "x".repeat(100);
        assert_eq!(generate_name(&long).len(), 63);
        assert_ne!(generate_name("a-"), generate_name("a-"));
        assert!(generate_name("job-").starts_with("job-"));
    }
}
