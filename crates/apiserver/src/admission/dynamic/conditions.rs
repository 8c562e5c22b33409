//! Match conditions: expressions that must all hold before a webhook is called or a policy is applied.

use std::sync::Arc;

use access::{Action, PolicyIndex, ResourceAction};
use cel::{
    Activation, Authorization, Authorizer, AuthorizerDecision, Budget, CheckSubject, Env, EvalError, Map, Program,
    ResourceTarget,
};
use object::request::{Subresource, User};
use object::{Object, Status};
use serde_json::{Map as JsonMap, Value};

use super::facts::Facts;

/// An expression and the result of compiling it. A stored expression compiled once; a newer release may refuse it.
pub struct Expression {
    text: String,
    program: Result<Program, String>,
}

pub struct Conditions(Vec<Expression>);

/// The reason why an expression gave no value.
pub enum Failure {
    /// This expression failed; the next ones are still evaluated.
    Expression(String),
    /// The budget is spent, and with it the whole evaluation.
    Budget(String),
}

impl Expression {
    pub fn compile(env: &Env, text: &str) -> Self {
        Self { text: text.to_owned(), program: env.compile(text).map_err(|error| error.to_string()) }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref().ok()
    }

    pub fn uses(&self, variable: &str) -> bool {
        self.program().is_some_and(|program| program.uses_variable(variable))
    }

    pub fn uses_authorizer(&self) -> bool {
        self.uses("authorizer") || self.uses("authorizer.requestResource")
    }

    pub fn eval<'a>(&self, variables: &Activation<'a>, budget: &mut Budget) -> Result<cel::Value<'a>, Failure> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Err(Failure::Expression(format!("compilation error: {error}"))),
        };
        program.eval(variables, budget).map_err(|error| match error {
            EvalError::OutOfBudget => Failure::Budget(error.to_string()),
            error => Failure::Expression(format!("expression '{}' resulted in error: {error}", self.text)),
        })
    }
}

impl Conditions {
    /// Reads `matchConditions`.
    pub fn compile(env: &Env, conditions: &Value) -> Self {
        let conditions = conditions.as_array().into_iter().flatten();
        let text = |condition: &Value| condition["expression"].as_str().unwrap_or_default().to_owned();
        Self(conditions.map(|condition| Expression::compile(env, &text(condition))).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn expressions(&self) -> &[Expression] {
        &self.0
    }

    /// One condition that is false decides; errors count only when all others are true.
    pub fn hold(&self, variables: &Activation<'_>) -> Result<bool, String> {
        let mut budget = Budget::for_match_conditions();
        let mut failures = Vec::new();
        for condition in &self.0 {
            match condition.eval(variables, &mut budget) {
                Ok(cel::Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(Failure::Expression(text)) if failures.contains(&text) => {}
                Err(Failure::Expression(text)) => failures.push(text),
                Err(Failure::Budget(text)) => return Err(text),
            }
        }
        match &failures[..] {
            [] => Ok(true),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// The variables of a write for expressions.
pub struct Shown<'a> {
    pub object: Option<&'a Object>,
    pub old: Option<&'a Object>,
    pub request: &'a JsonMap<String, Value>,
    pub namespace: Option<&'a JsonMap<String, Value>>,
}

impl<'a> Shown<'a> {
    pub fn activation(&self) -> Activation<'a> {
        Activation::new()
            .with("object", map(self.object.map(Object::as_map)))
            .with("oldObject", map(self.old.map(Object::as_map)))
            .with("request", map(Some(self.request)))
            .with("namespaceObject", map(self.namespace))
    }
}

pub fn map<'a>(data: Option<&'a JsonMap<String, Value>>) -> cel::Value<'a> {
    data.map_or(cel::Value::Null, |data| cel::Value::Map(Map::Json { data, schema: None }))
}

/// Answers `authorizer` in expressions from the roles at the time of the write.
pub struct Rights {
    user: Arc<User>,
    /// A copy, as expressions ask while they run; few policies ask at all.
    rules: PolicyIndex,
}

impl Rights {
    pub async fn of(facts: &Facts<'_>) -> Result<Arc<Self>, Status> {
        let rules = facts.scope.auth.policy().read(facts.scope.resources, PolicyIndex::clone).await?;
        Ok(Arc::new(Self { user: facts.ctx.user.clone(), rules }))
    }

    /// Makes `authorizer` and `authorizer.requestResource` known.
    pub fn give<'a>(self: &Arc<Self>, facts: &Facts<'_>, variables: Activation<'a>) -> Activation<'a> {
        let kind = &facts.attributes.resource.kind;
        let asked = ResourceTarget {
            group: kind.gvk.group.clone(),
            resource: kind.plural.clone(),
            subresource: Subresource::name_of(facts.attributes.subresource).to_owned(),
            namespace: facts.namespace.to_owned(),
            name: facts.attributes.name.to_owned(),
            ..ResourceTarget::default()
        };
        variables
            .with("authorizer", Authorization::start(self.clone()))
            .with("authorizer.requestResource", Authorization::request_resource(self.clone(), asked))
    }
}

impl Authorizer for Rights {
    fn authorize(&self, asked: &cel::Attributes) -> AuthorizerDecision {
        let service_account;
        let user = match &asked.subject {
            CheckSubject::Requester => &*self.user,
            CheckSubject::ServiceAccount { namespace, name } => {
                service_account = User::service_account(namespace, name);
                &service_account
            }
        };
        if user.is_master() {
            return AuthorizerDecision { allowed: true, ..AuthorizerDecision::default() };
        }
        let action = match &asked.target {
            cel::CheckTarget::Path(path) => Action::NonResource { verb: &asked.verb, path },
            cel::CheckTarget::Resource(target) => Action::Resource(ResourceAction {
                verb: &asked.verb,
                group: &target.group,
                version: "*",
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
            }),
        };
        let verdict = self.rules.authorize(user, &action);
        AuthorizerDecision { allowed: verdict.allowed, reason: verdict.reason, error: None }
    }
}
