//! Label and field selectors: parsed once from a query string or an object, then matched without allocation.

use serde_json::Value;
use thiserror::Error;

use crate::names;

/// A selector with more requirements is treated as abuse.
const REQUIREMENTS_MAX: usize = 1000;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// A conjunction of requirements on labels; the empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    matches_nothing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelRequirement {
    pub fn new(key: impl Into<String>, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let requirement = Self { key: key.into(), operator, values };
        requirement.check()?;
        Ok(requirement)
    }

    fn check(&self) -> Result<(), SelectorError> {
        let refuse = |text: String| Err(SelectorError(text));
        if let Some(problem) = names::qualified_name(&self.key).first() {
            return refuse(format!("key: Invalid value: {:?}: {problem}", self.key));
        }
        match self.operator {
            Operator::In | Operator::NotIn if self.values.is_empty() => {
                return refuse(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".into(),
                );
            }
            Operator::Exists | Operator::DoesNotExist if !self.values.is_empty() => {
                return refuse("values: Invalid value: values set must be empty for exists and does not exist".into());
            }
            Operator::GreaterThan | Operator::LessThan => match &self.values[..] {
                [one] if one.parse::<i64>().is_ok() => {}
                [one] => {
                    return refuse(format!(
                        "values[0]: Invalid value: {one:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                }
                _ => {
                    return refuse(
                        "values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required".into(),
                    );
                }
            },
            _ => {}
        }
        for (index, value) in self.values.iter().enumerate() {
            if let Some(problem) = names::label_value(value).first() {
                return refuse(format!("values[{index}][{}]: Invalid value: {value:?}: {problem}", self.key));
            }
        }
        Ok(())
    }

    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match (self.operator, label) {
            (Operator::In, value) => value.is_some_and(listed),
            (Operator::NotIn, value) => !value.is_some_and(listed),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::GreaterThan, value) => self.compares(value).is_some_and(|(have, want)| have > want),
            (Operator::LessThan, value) => self.compares(value).is_some_and(|(have, want)| have < want),
        }
    }

    fn compares(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl LabelSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), matches_nothing: true }
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.matches_nothing
    }

    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Parses the query form: `a=b,c!=d,e in (f,g),h,!i,j>5`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = LabelParser { tokens: tokenize(text)?, at: 0 }.selector()?;
        // kube-apiserver sorts by key; the order is only visible in error texts.
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, matches_nothing: false })
    }

    /// Parses `{matchLabels, matchExpressions}`. A missing selector selects nothing, an empty one everything.
    pub fn from_value(value: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(Value::Object(map)) = value.filter(|v| !v.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, label) in map.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let label = label.as_str().unwrap_or_default().to_owned();
            requirements.push(LabelRequirement::new(key, Operator::In, vec![label])?);
        }
        for expression in map.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let key = expression["key"].as_str().unwrap_or_default();
            requirements.push(LabelRequirement::new(key, operator, values)?);
        }
        Ok(Self { requirements, matches_nothing: false })
    }

    /// The selector with more requirements; one that matches nothing still does.
    #[must_use]
    pub fn and(mut self, more: impl IntoIterator<Item = LabelRequirement>) -> Self {
        self.requirements.extend(more);
        self
    }

    /// Matches by a lookup of label values, so that callers can use any map type.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.matches_nothing && self.requirements.iter().all(|r| r.matches(lookup(&r.key)))
    }

    pub fn matches(&self, object: &crate::Object) -> bool {
        self.matches_with(|key| object.label(key))
    }
}

/// The query form, which `parse` reads back.
impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl std::fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, operator, values } = self;
        match (operator, &values[..]) {
            (Operator::In, [one]) => write!(f, "{key}={one}"),
            (Operator::In, many) => write!(f, "{key} in ({})", many.join(",")),
            (Operator::NotIn, [one]) => write!(f, "{key}!={one}"),
            (Operator::NotIn, many) => write!(f, "{key} notin ({})", many.join(",")),
            (Operator::Exists, _) => f.write_str(key),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            (Operator::GreaterThan, many) => write!(f, "{key}>{}", many.join(",")),
            (Operator::LessThan, many) => write!(f, "{key}<{}", many.join(",")),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Equals,
    DoubleEquals,
    NotEquals,
    Not,
    Greater,
    Less,
}

fn tokenize(text: &str) -> Result<Vec<Token>, SelectorError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let (token, length) = match c {
            ',' => (Token::Comma, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '=' if rest.starts_with("==") => (Token::DoubleEquals, 2),
            '=' => (Token::Equals, 1),
            '!' if rest.starts_with("!=") => (Token::NotEquals, 2),
            '!' => (Token::Not, 1),
            '>' => (Token::Greater, 1),
            '<' => (Token::Less, 1),
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || "=!(),><".contains(c)).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), end)
            }
        };
        tokens.push(token);
        if tokens.len() > REQUIREMENTS_MAX * 8 {
            return Err(SelectorError(format!("selector is too long: more than {REQUIREMENTS_MAX} requirements")));
        }
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct LabelParser {
    tokens: Vec<Token>,
    at: usize,
}

impl LabelParser {
    fn selector(&mut self) -> Result<Vec<LabelRequirement>, SelectorError> {
        let mut requirements = Vec::new();
        if self.tokens.is_empty() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            if requirements.len() > REQUIREMENTS_MAX {
                return Err(SelectorError(format!("more than {REQUIREMENTS_MAX} requirements")));
            }
            match self.next() {
                None => return Ok(requirements),
                Some(Token::Comma) if self.at < self.tokens.len() => {}
                other => return Err(unexpected(other.as_ref(), "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        if self.peek() == Some(&Token::Not) {
            self.at += 1;
            let key = self.word("identifier")?;
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        let key = self.word("!, identifier, or 'end of string'")?;
        let operator = match self.peek() {
            None | Some(Token::Comma) => return LabelRequirement::new(key, Operator::Exists, Vec::new()),
            Some(Token::Word(word)) if word == "in" => Operator::In,
            Some(Token::Word(word)) if word == "notin" => Operator::NotIn,
            Some(Token::Equals | Token::DoubleEquals) => {
                self.at += 1;
                let value = self.optional_word();
                return LabelRequirement::new(key, Operator::In, vec![value]);
            }
            Some(Token::NotEquals) => {
                self.at += 1;
                let value = self.optional_word();
                return LabelRequirement::new(key, Operator::NotIn, vec![value]);
            }
            Some(Token::Greater) => {
                self.at += 1;
                let value = self.word("identifier")?;
                return LabelRequirement::new(key, Operator::GreaterThan, vec![value]);
            }
            Some(Token::Less) => {
                self.at += 1;
                let value = self.word("identifier")?;
                return LabelRequirement::new(key, Operator::LessThan, vec![value]);
            }
            other => return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        };
        self.at += 1;
        let values = self.values()?;
        LabelRequirement::new(key, operator, values)
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Some(Token::Open) => {}
            other => return Err(unexpected(other.as_ref(), "'('")),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.optional_word());
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => break,
                other => return Err(unexpected(other.as_ref(), "',' or ')'")),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    fn word(&mut self, expected: &str) -> Result<String, SelectorError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(unexpected(other.as_ref(), expected)),
        }
    }

    fn optional_word(&mut self) -> String {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                word
            }
            _ => String::new(),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }
}

fn unexpected(found: Option<&Token>, expected: &str) -> SelectorError {
    let text = match found {
        None => "",
        Some(Token::Word(word)) => word,
        Some(Token::Comma) => ",",
        Some(Token::Open) => "(",
        Some(Token::Close) => ")",
        Some(Token::Equals) => "=",
        Some(Token::DoubleEquals) => "==",
        Some(Token::NotEquals) => "!=",
        Some(Token::Not) => "!",
        Some(Token::Greater) => ">",
        Some(Token::Less) => "<",
    };
    SelectorError(format!("unable to parse requirement: found '{text}', expected: {expected}"))
}

/// A conjunction of `field=value` and `field!=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    pub terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub equal: bool,
    pub value: String,
}

impl FieldSelector {
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Parses `a=b,c!=d`; `\,`, `\=` and `\\` are escapes in values.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (field, equal, value) = split_term(&part)
                .ok_or_else(|| SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            terms.push(FieldTerm { field: field.to_owned(), equal, value: unescape(value)? });
            if terms.len() > REQUIREMENTS_MAX {
                return Err(SelectorError(format!("more than {REQUIREMENTS_MAX} requirements")));
            }
        }
        Ok(Self { terms })
    }

    /// The value `field` must have, if the selector requires one exact value.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }

    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|term| (lookup(&term.field) == term.value) == term.equal)
    }
}

fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in part.char_indices() {
        let rest = &part[index..];
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((&part[..index], false, value));
        }
        if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            return Some((&part[..index], true, value));
        }
    }
    None
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        parts.last_mut().expect("starts with one part").push(c);
    }
    parts
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence = other.map_or_else(|| "\\".to_owned(), |c| format!("\\{c}"));
                    return Err(SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}")));
                }
            },
            ',' | '=' => {
                return Err(SelectorError(format!("invalid field selector: unescaped character in value: {c}")));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label_matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let parsed = LabelSelector::parse(selector).unwrap_or_else(|e| panic!("{selector}: {e}"));
        parsed.matches_with(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn label_selectors_match_as_kubectl_users_expect() {
        let labels = [("app", "web"), ("tier", "front"), ("rank", "5")];
        let cases = [
            ("", true),
            ("app=web", true),
            ("app == web", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (web, api),tier", true),
            ("app notin (web)", false),
            ("!missing", true),
            ("!app", false),
            ("rank>4,rank<6", true),
            ("rank>5", false),
            ("app=", false),
            ("in in (in)", false),
        ];
        for (selector, expected) in cases {
            assert_eq!(label_matches(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn oversized_selectors_are_refused() {
        for selector in ["a=b,", "=", "a in ()x", "a in (", "a,,b", "(", "a=b c", "a>b", "-a=b", "a/b/c=d"] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
        assert!(LabelSelector::parse(&"a,".repeat(100_000)).is_err());
    }

    #[test]
    fn field_selectors_read_escapes_and_both_operators() {
        let parsed = FieldSelector::parse("metadata.name=a\\,b,status.phase!=Running").expect("valid");
        assert_eq!(parsed.exact("metadata.name"), Some("a,b"));
        assert!(parsed.matches_with(|field| if field == "metadata.name" { "a,b" } else { "Pending" }));
        assert!(FieldSelector::parse("metadata.name").is_err());
    }

    #[test]
    fn absent_object_selector_selects_nothing_and_empty_selects_all() {
        let nothing = LabelSelector::from_value(None).expect("valid");
        assert!(!nothing.matches_with(|_| None));
        let all = LabelSelector::from_value(Some(&serde_json::json!({}))).expect("valid");
        assert!(all.matches_with(|_| None));
    }
}
