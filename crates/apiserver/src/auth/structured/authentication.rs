//! `AuthenticationConfiguration`: issuers of tokens and requests without credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::names;
use pki::jwt::Algorithm;
use pki::tls::client::{ClientTls, ClientTlsOptions, ServerTrust};
use serde::Deserialize;

use super::claims::{ClaimRules, Mapping};
use super::expression::{CLAIMS, TokenCondition, USER, condition, reads_claim};
use super::{ConfigError, Problems, decode};
use crate::auth::anonymous::AnonymousAccess;
use crate::auth::oidc::{OidcConfig, TokenRules};
use crate::auth::oidc_sign_in::SignInConfig;

/// A configuration without errors.
pub struct AuthenticationConfig {
    pub issuers: Vec<OidcConfig>,
    /// `None` leaves the decision to the flag `--anonymous-auth`.
    pub anonymous: Option<AnonymousAccess>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuthenticationFile {
    #[serde(default)]
    jwt: Vec<JwtAuthenticator>,
    anonymous: Option<AnonymousFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnonymousFile {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    conditions: Vec<PathCondition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathCondition {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JwtAuthenticator {
    issuer: Issuer,
    #[serde(default)]
    claim_validation_rules: Vec<ClaimValidationRule>,
    #[serde(default)]
    claim_mappings: ClaimMappings,
    #[serde(default)]
    user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Issuer {
    #[serde(default)]
    url: String,
    #[serde(default, rename = "discoveryURL")]
    discovery_url: String,
    #[serde(default)]
    certificate_authority: String,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: String,
    #[serde(default)]
    egress_selector_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimValidationRule {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    required_value: String,
    #[serde(default)]
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserValidationRule {
    #[serde(default)]
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimMappings {
    #[serde(default)]
    username: ClaimOrExpression,
    #[serde(default)]
    groups: ClaimOrExpression,
    #[serde(default)]
    uid: ClaimOrExpression,
    #[serde(default)]
    extra: Vec<ExtraMapping>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimOrExpression {
    #[serde(default)]
    claim: String,
    prefix: Option<String>,
    #[serde(default)]
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExtraMapping {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value_expression: String,
}

/// Reads a configuration. Tokens of `own_issuer` are those of ServiceAccounts and cannot be configured.
pub fn read_authentication(text: &str, own_issuer: &str) -> Result<AuthenticationConfig, ConfigError> {
    let file: AuthenticationFile = decode(text, "AuthenticationConfiguration")?;
    let mut problems = Problems::default();
    let mut issuers = Vec::new();
    let (mut urls, mut discovery_urls) = (BTreeSet::from([own_issuer]), BTreeSet::new());
    for (index, jwt) in file.jwt.iter().enumerate() {
        let path = format!("jwt[{index}]");
        if jwt.issuer.url == own_issuer {
            problems.add(&format!("{path}.issuer.url"), "is the issuer of this server's ServiceAccount tokens");
        } else if !urls.insert(&jwt.issuer.url) {
            problems.add(&format!("{path}.issuer.url"), format!("{:?} occurs twice", jwt.issuer.url));
        }
        if !jwt.issuer.discovery_url.is_empty() && !discovery_urls.insert(&jwt.issuer.discovery_url) {
            problems.add(&format!("{path}.issuer.discoveryURL"), "occurs twice");
        }
        issuers.extend(read_issuer(jwt, &path, &mut problems));
    }
    let anonymous = file.anonymous.map(|anonymous| read_anonymous(&anonymous, &mut problems));
    problems.into_result(AuthenticationConfig { issuers, anonymous })
}

fn read_anonymous(file: &AnonymousFile, problems: &mut Problems) -> AnonymousAccess {
    if !file.enabled && !file.conditions.is_empty() {
        problems.add("anonymous.conditions", "enabled must be true when there are conditions");
    }
    for (index, condition) in file.conditions.iter().enumerate().filter(|(_, c)| !c.path.starts_with('/')) {
        let problem = format!("{:?} must be a path that begins with /", condition.path);
        problems.add(&format!("anonymous.conditions[{index}].path"), problem);
    }
    match (file.enabled, file.conditions.is_empty()) {
        (false, _) => AnonymousAccess::Off,
        (true, true) => AnonymousAccess::Default,
        (true, false) => AnonymousAccess::Paths(file.conditions.iter().map(|c| c.path.clone()).collect()),
    }
}

fn read_issuer(jwt: &JwtAuthenticator, path: &str, problems: &mut Problems) -> Option<OidcConfig> {
    let trust = check_issuer(&jwt.issuer, &format!("{path}.issuer"), problems);
    let (required_claims, claim_conditions) = read_claim_rules(&jwt.claim_validation_rules, path, problems);
    let user_conditions = read_user_rules(&jwt.user_validation_rules, path, problems);
    let mappings = &jwt.claim_mappings;
    let at = format!("{path}.claimMappings");
    let username = read_mapping(&mappings.username, &format!("{at}.username"), Prefix::Required, problems);
    if username.is_none() && mappings.username.claim.is_empty() && mappings.username.expression.is_empty() {
        problems.add(&format!("{at}.username"), "claim or expression is required");
    }
    let groups = read_mapping(&mappings.groups, &format!("{at}.groups"), Prefix::Required, problems);
    let uid = read_mapping(&mappings.uid, &format!("{at}.uid"), Prefix::Unknown, problems);
    let extra = read_extra(&mappings.extra, &format!("{at}.extra"), problems);
    require_verified_email(jwt, &at, problems);
    let rules = ClaimRules {
        issuer: jwt.issuer.url.clone(),
        audiences: jwt.issuer.audiences.clone(),
        required_claims,
        claim_conditions,
        username: username?,
        groups,
        uid,
        extra,
        user_conditions,
    };
    Some(OidcConfig {
        rules: TokenRules::Configured(Arc::new(rules)),
        discovery_url: Some(jwt.issuer.discovery_url.clone()).filter(|url| !url.is_empty()),
        trust,
        algorithms: Algorithm::ALL.to_vec(),
        sign_in: SignInConfig::default(),
    })
}

fn read_claim_rules(
    rules: &[ClaimValidationRule],
    path: &str,
    problems: &mut Problems,
) -> (BTreeMap<String, String>, Vec<TokenCondition>) {
    let (mut required, mut conditions) = (BTreeMap::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}.claimValidationRules[{index}]");
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (false, false) => problems.add(&path, "claim and expression cannot both be set"),
            (true, true) => problems.add(&path, "claim or expression is required"),
            (false, true) if !rule.message.is_empty() => {
                problems.add(&format!("{path}.message"), "cannot be set with claim");
            }
            (false, true) => {
                if required.insert(rule.claim.clone(), rule.required_value.clone()).is_some() {
                    problems.add(&format!("{path}.claim"), format!("{:?} occurs twice", rule.claim));
                }
            }
            (true, false) if !rule.required_value.is_empty() => {
                problems.add(&format!("{path}.requiredValue"), "cannot be set with expression");
            }
            (true, false) => {
                conditions.extend(read_condition(&CLAIMS, (&rule.expression, &rule.message), &path, problems));
            }
        }
    }
    refuse_repeated(rules.iter().map(|rule| &rule.expression), &format!("{path}.claimValidationRules"), problems);
    (required, conditions)
}

fn read_user_rules(rules: &[UserValidationRule], path: &str, problems: &mut Problems) -> Vec<TokenCondition> {
    let path = format!("{path}.userValidationRules");
    let mut conditions = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}[{index}]");
        match rule.expression.is_empty() {
            true => problems.add(&format!("{path}.expression"), "is required"),
            false => conditions.extend(read_condition(&USER, (&rule.expression, &rule.message), &path, problems)),
        }
    }
    refuse_repeated(rules.iter().map(|rule| &rule.expression), &path, problems);
    conditions
}

fn check_issuer(issuer: &Issuer, path: &str, problems: &mut Problems) -> ServerTrust {
    check_url(&issuer.url, &format!("{path}.url"), problems);
    if !issuer.discovery_url.is_empty() {
        let at = format!("{path}.discoveryURL");
        if issuer.discovery_url.trim_end_matches('/') == issuer.url.trim_end_matches('/') {
            problems.add(&at, "must differ from url");
        }
        check_url(&issuer.discovery_url, &at, problems);
    }
    let mut seen = BTreeSet::new();
    if issuer.audiences.is_empty() {
        problems.add(&format!("{path}.audiences"), "at least one audience is required");
    }
    for (index, audience) in issuer.audiences.iter().enumerate() {
        if audience.is_empty() {
            problems.add(&format!("{path}.audiences[{index}]"), "must not be empty");
        } else if !seen.insert(audience) {
            problems.add(&format!("{path}.audiences[{index}]"), format!("{audience:?} occurs twice"));
        }
    }
    match (issuer.audience_match_policy.as_str(), issuer.audiences.len()) {
        ("MatchAny", _) | ("", 0 | 1) => {}
        ("", _) => problems.add(&format!("{path}.audienceMatchPolicy"), "must be MatchAny for several audiences"),
        (other, _) => problems.add(&format!("{path}.audienceMatchPolicy"), format!("{other:?} must be MatchAny")),
    }
    if !issuer.egress_selector_type.is_empty() {
        problems.add(&format!("{path}.egressSelectorType"), "is not supported: this server has no egress selectors");
    }
    if issuer.certificate_authority.is_empty() {
        return ServerTrust::System;
    }
    let trust = ServerTrust::Bundle(issuer.certificate_authority.clone().into_bytes());
    if let Err(error) = ClientTls::build(ClientTlsOptions::trusting(trust.clone())) {
        problems.add(&format!("{path}.certificateAuthority"), format!("is not a bundle of PEM certificates: {error}"));
    }
    trust
}

fn check_url(url: &str, path: &str, problems: &mut Problems) {
    let parsed = url.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    match parsed {
        None => problems.add(path, format!("{url:?} must be an https URL")),
        Some(uri) if uri.scheme_str() != Some("https") => problems.add(path, format!("{url:?} must be an https URL")),
        Some(uri) if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
            problems.add(path, "must not contain a user name or password");
        }
        Some(uri) if uri.query().is_some() || url.contains('#') => {
            problems.add(path, format!("{url:?} must not contain a query or a fragment"));
        }
        Some(_) => {}
    }
}

fn read_condition(
    env: &cel::Env,
    (expression, message): (&str, &str),
    path: &str,
    problems: &mut Problems,
) -> Option<TokenCondition> {
    match condition(env, expression) {
        Ok(program) => Some(TokenCondition { program, message: message.to_owned() }),
        Err(error) => {
            problems.add(&format!("{path}.expression"), error);
            None
        }
    }
}

fn refuse_repeated<'a>(expressions: impl Iterator<Item = &'a String>, path: &str, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (index, expression) in expressions.enumerate().filter(|(_, expression)| !expression.is_empty()) {
        if !seen.insert(expression) {
            problems.add(&format!("{path}[{index}].expression"), "occurs twice");
        }
    }
}

/// The rule for the prefix of a claim; the uid has none.
#[derive(PartialEq)]
enum Prefix {
    Required,
    Unknown,
}

fn read_mapping(source: &ClaimOrExpression, path: &str, prefix: Prefix, problems: &mut Problems) -> Option<Mapping> {
    if source.prefix.is_some() && (prefix == Prefix::Unknown || !source.expression.is_empty()) {
        problems.add(&format!("{path}.prefix"), "can only be set with claim, for username and groups");
    }
    match (source.claim.is_empty(), source.expression.is_empty()) {
        (false, false) => problems.add(path, "claim and expression cannot both be set"),
        (true, true) => {}
        (true, false) => match CLAIMS.compile(&source.expression) {
            Ok(program) => return Some(Mapping::Expression(program)),
            Err(error) => problems.add(&format!("{path}.expression"), error),
        },
        (false, true) if prefix == Prefix::Required && source.prefix.is_none() => {
            problems.add(&format!("{path}.prefix"), "is required with claim; \"\" adds no prefix");
        }
        (false, true) => {
            let prefix = source.prefix.clone().unwrap_or_default();
            return Some(Mapping::Claim { name: source.claim.clone(), prefix });
        }
    }
    None
}

fn read_extra(mappings: &[ExtraMapping], path: &str, problems: &mut Problems) -> Vec<(String, cel::Program)> {
    let mut found: Vec<(String, cel::Program)> = Vec::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if let Some(problem) = key_problem(&mapping.key) {
            problems.add(&format!("{at}.key"), format!("{:?} {problem}", mapping.key));
        }
        if mappings[..index].iter().any(|earlier| earlier.key == mapping.key) {
            problems.add(&format!("{at}.key"), format!("{:?} occurs twice", mapping.key));
        }
        match CLAIMS.compile(&mapping.value_expression) {
            _ if mapping.value_expression.is_empty() => problems.add(&format!("{at}.valueExpression"), "is required"),
            Ok(program) => found.push((mapping.key.clone(), program)),
            Err(error) => problems.add(&format!("{at}.valueExpression"), error),
        }
    }
    found
}

fn key_problem(key: &str) -> Option<&'static str> {
    let Some((domain, rest)) = key.split_once('/') else {
        return Some("must be a domain and a path: example.org/team");
    };
    let is_reserved = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|reserved| domain == *reserved || domain.ends_with(&format!(".{reserved}")));
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    match () {
        () if key.chars().any(char::is_uppercase) => Some("must be lowercase"),
        () if !names::dns1123_subdomain(domain).is_empty() => Some("must begin with a domain: example.org/team"),
        () if rest.is_empty() || !rest.chars().all(is_path) => {
            Some("must have a path after the domain: example.org/team")
        }
        () if is_reserved => Some("must not be in the domains k8s.io and kubernetes.io, which are reserved"),
        () => None,
    }
}

/// A name from `claims.email` in an expression counts only if some expression looks at `claims.email_verified`.
fn require_verified_email(jwt: &JwtAuthenticator, path: &str, problems: &mut Problems) {
    let mappings = &jwt.claim_mappings;
    let looks = |expression: &String| reads_claim(expression, "email_verified");
    let is_checked = looks(&mappings.username.expression)
        || mappings.extra.iter().any(|extra| looks(&extra.value_expression))
        || jwt.claim_validation_rules.iter().any(|rule| looks(&rule.expression));
    if reads_claim(&mappings.username.expression, "email") && !is_checked {
        problems.add(
            &format!("{path}.username.expression"),
            "an expression with claims.email requires claims.email_verified there, in claimMappings.extra or in \
             claimValidationRules",
        );
    }
}
