//! The user of a verified OIDC token, under kube-apiserver's `--oidc-*` rules.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One trusted issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcRules {
    pub issuer: String,
    /// The token must name one of these.
    pub audiences: Vec<String>,
    pub username_claim: String,
    /// `None` prefixes every name that is not an e-mail address with `issuer#`; `-` adds no prefix.
    pub username_prefix: Option<String>,
    pub groups_claim: Option<String>,
    pub groups_prefix: String,
    pub required_claims: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcUser {
    pub username: String,
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    #[error("the token was issued by {0:?}")]
    Issuer(String),
    #[error("the token's audience does not include this server")]
    Audience,
    #[error("the claim {0:?} is missing")]
    MissingClaim(String),
    #[error("the claim {0:?} has the wrong type")]
    ClaimType(String),
    #[error("the claim {0:?} is empty")]
    EmptyClaim(String),
    #[error("the e-mail address is not verified")]
    EmailNotVerified,
    #[error("the claim {0:?} does not have the required value")]
    RequiredClaim(String),
}

impl OidcRules {
    /// The user of claims whose signature and times have been verified.
    pub fn user(&self, claims: &Map<String, Value>) -> Result<OidcUser, OidcError> {
        let issuer = claim_text(claims, "iss")?;
        if issuer != self.issuer {
            return Err(OidcError::Issuer(issuer.to_owned()));
        }
        check_audience(claims, &self.audiences)?;
        let user = OidcUser { username: self.username(claims)?, groups: self.groups(claims)? };
        for (claim, required) in &self.required_claims {
            if claim_text(claims, claim)? != required {
                return Err(OidcError::RequiredClaim(claim.clone()));
            }
        }
        Ok(user)
    }

    fn username(&self, claims: &Map<String, Value>) -> Result<String, OidcError> {
        let name = username_claim(claims, &self.username_claim)?;
        let is_email = self.username_claim == "email";
        Ok(match self.username_prefix.as_deref() {
            Some("-") => name.to_owned(),
            None if is_email => name.to_owned(),
            None => format!("{}#{name}", self.issuer),
            Some(prefix) => format!("{prefix}{name}"),
        })
    }

    fn groups(&self, claims: &Map<String, Value>) -> Result<Vec<String>, OidcError> {
        let Some(claim) = self.groups_claim.as_deref().filter(|claim| claims.contains_key(*claim)) else {
            return Ok(Vec::new());
        };
        let groups = claim_texts(claims, claim)?;
        Ok(groups.into_iter().map(|group| format!("{}{group}", self.groups_prefix)).collect())
    }
}

/// An error unless the token is meant for one of `accepted`.
pub fn check_audience(claims: &Map<String, Value>, accepted: &[String]) -> Result<(), OidcError> {
    let audiences = claim_texts(claims, "aud")?;
    let meant = audiences.iter().any(|audience| accepted.iter().any(|ours| ours == audience));
    if meant { Ok(()) } else { Err(OidcError::Audience) }
}

/// The claim that holds the user's name. An e-mail address that the issuer marks as not verified is refused.
pub fn username_claim<'a>(claims: &'a Map<String, Value>, claim: &str) -> Result<&'a str, OidcError> {
    let name = claim_text(claims, claim)?;
    if name.is_empty() {
        return Err(OidcError::EmptyClaim(claim.to_owned()));
    }
    if claim == "email" {
        match claims.get("email_verified") {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err(OidcError::EmailNotVerified),
            Some(_) => return Err(OidcError::ClaimType("email_verified".into())),
        }
    }
    Ok(name)
}

/// The value of a claim that must be a string.
pub fn claim_text<'a>(claims: &'a Map<String, Value>, claim: &str) -> Result<&'a str, OidcError> {
    let value = claims.get(claim).ok_or_else(|| OidcError::MissingClaim(claim.to_owned()))?;
    value.as_str().ok_or_else(|| OidcError::ClaimType(claim.to_owned()))
}

/// The values of a claim that may be one string or a list of strings, as audiences and groups are.
pub fn claim_texts<'a>(claims: &'a Map<String, Value>, claim: &str) -> Result<Vec<&'a str>, OidcError> {
    match claims.get(claim) {
        None => Err(OidcError::MissingClaim(claim.to_owned())),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(many)) => {
            let texts: Option<Vec<_>> = many.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| OidcError::ClaimType(claim.to_owned()))
        }
        Some(_) => Err(OidcError::ClaimType(claim.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> OidcRules {
        OidcRules {
            issuer: "https://id.test".into(),
            audiences: vec!["flotilla".into()],
            username_claim: "sub".into(),
            username_prefix: None,
            groups_claim: Some("groups".into()),
            groups_prefix: "oidc:".into(),
            required_claims: BTreeMap::from([("hd".into(), "corp".into())]),
        }
    }

    #[track_caller]
    fn check(rules: &OidcRules, change: Value, expected: Result<(&str, &[&str]), OidcError>) {
        let mut claims =
            json!({"iss": "https://id.test", "aud": "flotilla", "sub": "ann", "hd": "corp", "email": "a@b"});
        for (claim, value) in change.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        let groups = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect();
        let expected = expected.map(|(name, of)| OidcUser { username: name.to_owned(), groups: groups(of) });
        assert_eq!(rules.user(claims.as_object().unwrap()), expected, "{change}");
    }

    #[test]
    fn claims_become_a_user_or_a_reason() {
        let plain = rules();
        check(&plain, json!({}), Ok(("https://id.test#ann", &[])));
        check(
            &plain,
            json!({"aud": ["x", "flotilla"], "groups": ["a", "b"]}),
            Ok(("https://id.test#ann", &["oidc:a", "oidc:b"])),
        );
        check(&plain, json!({"groups": "solo"}), Ok(("https://id.test#ann", &["oidc:solo"])));
        check(&plain, json!({"iss": "https://evil"}), Err(OidcError::Issuer("https://evil".into())));
        check(&plain, json!({"aud": ["x"]}), Err(OidcError::Audience));
        check(&plain, json!({"aud": []}), Err(OidcError::Audience));
        check(&plain, json!({"sub": 7}), Err(OidcError::ClaimType("sub".into())));
        check(&plain, json!({"sub": ""}), Err(OidcError::EmptyClaim("sub".into())));
        check(&plain, json!({"groups": [1]}), Err(OidcError::ClaimType("groups".into())));
        check(&plain, json!({"hd": "other"}), Err(OidcError::RequiredClaim("hd".into())));
    }

    #[test]
    fn the_prefix_depends_on_setting_and_claim() {
        let with = |claim: &str, prefix: Option<&str>| OidcRules {
            username_claim: claim.into(),
            username_prefix: prefix.map(Into::into),
            ..rules()
        };
        check(&with("sub", Some("-")), json!({}), Ok(("ann", &[])));
        check(&with("sub", Some("o:")), json!({}), Ok(("o:ann", &[])));
        check(&with("email", None), json!({}), Ok(("a@b", &[])));
        check(&with("email", None), json!({"email_verified": true}), Ok(("a@b", &[])));
        check(&with("email", None), json!({"email_verified": false}), Err(OidcError::EmailNotVerified));
        check(
            &with("email", None),
            json!({"email_verified": "true"}),
            Err(OidcError::ClaimType("email_verified".into())),
        );
        check(&with("nick", None), json!({}), Err(OidcError::MissingClaim("nick".into())));
    }
}
