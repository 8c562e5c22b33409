//! The user of a verified token under the rules of an AuthenticationConfiguration.

use std::collections::BTreeMap;

use cel::{Activation, Budget, Program};
use object::request::User;
use pki::oidc::{OidcError, check_audience, claim_text, claim_texts, username_claim};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::expression::TokenCondition;
use crate::auth::oidc::credential_id;

/// The rules for tokens of one issuer.
#[derive(Debug)]
pub struct ClaimRules {
    pub issuer: String,
    /// The token must name one of these.
    pub audiences: Vec<String>,
    pub(super) required_claims: BTreeMap<String, String>,
    pub(super) claim_conditions: Vec<TokenCondition>,
    pub(super) username: Mapping,
    pub(super) groups: Option<Mapping>,
    pub(super) uid: Option<Mapping>,
    /// Keys and the expressions of their values.
    pub(super) extra: Vec<(String, Program)>,
    pub(super) user_conditions: Vec<TokenCondition>,
}

/// The source of one attribute of the user.
#[derive(Debug)]
pub(super) enum Mapping {
    Claim { name: String, prefix: String },
    Expression(Program),
}

#[derive(Debug, Error)]
pub enum ClaimsRefused {
    #[error("{0}")]
    Claims(#[from] OidcError),
    #[error("{attribute}: {problem}")]
    Expression { attribute: &'static str, problem: String },
    #[error("{0}")]
    Condition(String),
}

impl ClaimRules {
    /// The user of claims whose signature and times have been verified.
    pub fn user(&self, claims: &Map<String, Value>) -> Result<User, ClaimsRefused> {
        let issuer = claim_text(claims, "iss")?;
        if issuer != self.issuer {
            return Err(OidcError::Issuer(issuer.to_owned()).into());
        }
        check_audience(claims, &self.audiences)?;
        let mut budget = Budget::for_validation();
        let user = self.mapped(claims, &mut budget)?;
        for (claim, required) in &self.required_claims {
            if claim_text(claims, claim)? != required {
                return Err(OidcError::RequiredClaim(claim.clone()).into());
            }
        }
        check_all(&self.claim_conditions, &activation("claims", claims), &mut budget)?;
        let shown = json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra});
        if let Some(shown) = shown.as_object() {
            check_all(&self.user_conditions, &activation("user", shown), &mut budget)?;
        }
        Ok(user)
    }

    fn mapped(&self, claims: &Map<String, Value>, budget: &mut Budget) -> Result<User, ClaimsRefused> {
        let name = match &self.username {
            Mapping::Claim { name, prefix } => format!("{prefix}{}", username_claim(claims, name)?),
            Mapping::Expression(program) => text(program, "username", claims, budget)?,
        };
        if name.is_empty() {
            return Err(ClaimsRefused::Expression { attribute: "username", problem: "is empty".to_owned() });
        }
        let groups = match &self.groups {
            None => Vec::new(),
            Some(Mapping::Claim { name, .. }) if !claims.contains_key(name) => Vec::new(),
            Some(Mapping::Claim { name, prefix }) => {
                claim_texts(claims, name)?.into_iter().map(|group| format!("{prefix}{group}")).collect()
            }
            Some(Mapping::Expression(program)) => values(program, "groups", claims, budget)?,
        };
        let uid = match &self.uid {
            None => String::new(),
            Some(Mapping::Claim { name, .. }) => claim_text(claims, name)?.to_owned(),
            Some(Mapping::Expression(program)) => text(program, "uid", claims, budget)?,
        };
        let mut extra: BTreeMap<_, _> = credential_id(claims).into_iter().collect();
        for (key, program) in &self.extra {
            let found = values(program, "extra", claims, budget)?;
            if !found.is_empty() {
                extra.insert(key.clone(), found);
            }
        }
        Ok(User { name, uid, groups, extra })
    }
}

fn activation<'a>(variable: &str, data: &'a Map<String, Value>) -> Activation<'a> {
    Activation::new().with(variable, cel::Value::Map(cel::Map::Json { data, schema: None }))
}

fn check_all(
    conditions: &[TokenCondition],
    variables: &Activation<'_>,
    budget: &mut Budget,
) -> Result<(), ClaimsRefused> {
    for condition in conditions {
        let refused = match condition.program.eval(variables, budget) {
            Ok(cel::Value::Bool(true)) => continue,
            Ok(_) if !condition.message.is_empty() => condition.message.clone(),
            Ok(_) => format!("validation expression '{}' failed", condition.program.expression()),
            Err(error) => format!("validation expression '{}': {error}", condition.program.expression()),
        };
        return Err(ClaimsRefused::Condition(refused));
    }
    Ok(())
}

/// The strings an expression gives: one, a list of them, or null for none. Empty strings are left out.
fn values(
    program: &Program,
    attribute: &'static str,
    claims: &Map<String, Value>,
    budget: &mut Budget,
) -> Result<Vec<String>, ClaimsRefused> {
    let refused = |problem: String| ClaimsRefused::Expression { attribute, problem };
    let found = program.eval(&activation("claims", claims), budget).map_err(|error| refused(error.to_string()))?;
    let wrong = || refused("the expression must give a string, a list of strings or null".to_owned());
    let found = match found {
        cel::Value::Null => Vec::new(),
        cel::Value::String(text) => vec![text.to_string()],
        cel::Value::List(list) => {
            let items = list.items().map_err(|error| refused(error.to_string()))?;
            let text = |item| if let cel::Value::String(text) = item { Some(text.to_string()) } else { None };
            items.into_iter().map(text).collect::<Option<Vec<String>>>().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    Ok(found.into_iter().filter(|text| !text.is_empty()).collect())
}

/// The string an expression gives.
fn text(
    program: &Program,
    attribute: &'static str,
    claims: &Map<String, Value>,
    budget: &mut Budget,
) -> Result<String, ClaimsRefused> {
    let refused = |problem: String| ClaimsRefused::Expression { attribute, problem };
    match program.eval(&activation("claims", claims), budget) {
        Ok(cel::Value::String(text)) => Ok(text.to_string()),
        Ok(_) => Err(refused("the expression must give a string".to_owned())),
        Err(error) => Err(refused(error.to_string())),
    }
}
