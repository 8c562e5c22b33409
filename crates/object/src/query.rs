//! The query string of a URL, read as Go's `net/url` reads it.

use crate::percent;

/// The parameters of a query string in order, with their escapes resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string; a pair with a semicolon or a broken escape is dropped, as by `url.ParseQuery`.
    pub fn parse(text: &str) -> Self {
        let is_valid = |pair: &&str| !pair.contains(';') && percent::is_whole(pair);
        let pairs = text.split('&').filter(is_valid).flat_map(|pair| form_urlencoded::parse(pair.as_bytes()));
        Self(pairs.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of a parameter, if it is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// The first value of a parameter, which may be empty.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The values of a parameter that may be given several times.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns true for any value but `false` and `0`, the empty one included: the way Kubernetes reads booleans in queries.
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let Query(found) = Query::parse(text);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn queries_are_read_as_go_reads_them() {
        check("", &[]);
        check("&&", &[]);
        check("a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]);
        check("a&b=&=c", &[("a", ""), ("b", ""), ("", "c")]);
        check("a=b=c", &[("a", "b=c")]);
        check("q=a+b%26c%20%C3%A9", &[("q", "a b&c é")]);
        check("a%20b=1&c+d=2", &[("a b", "1"), ("c d", "2")]);
        check("%+=1", &[]);
    }

    #[test]
    fn broken_pairs_are_dropped_and_the_others_kept() {
        for bad in ["b=%", "b=%4", "b=%zz", "%zz=b", "b=1;c=2", "b;c"] {
            check(&format!("a=1&{bad}&d=2"), &[("a", "1"), ("d", "2")]);
        }
    }

    #[test]
    fn booleans_are_true_unless_set_to_false() {
        let query = Query::parse("a&b=true&c=maybe&d=false&e=False&f=0&g=1");
        let set: Vec<&str> =
            ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().filter(|name| query.flag(name)).collect();
        assert_eq!(set, ["a", "b", "c", "g"]);
    }

    #[test]
    fn empty_values_count_as_absent_if_requested() {
        let query = Query::parse("a=&b=1");
        assert_eq!(
            (query.get("a"), query.first("a"), query.get("b"), query.first("c")),
            (None, Some(""), Some("1"), None)
        );
    }
}
