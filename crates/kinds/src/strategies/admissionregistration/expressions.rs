//! CEL expressions in admission: they must compile with the available variables, and to the expected type.

use cel::types::opaque;
use cel::{Env, EnvBuilder, Library, Type};

use crate::strategies::fields::Field;

/// The variables available besides the write itself.
#[derive(Clone, Copy)]
pub struct ExpressionScope {
    pub params: bool,
    pub authorizer: bool,
}

impl ExpressionScope {
    /// The environment without a policy's own variables. Validation and admission compile in the same one.
    pub fn environment(self) -> EnvBuilder {
        let mut env = Env::builder()
            .variable("object", Type::Dyn)
            .variable("oldObject", Type::Dyn)
            .variable("namespaceObject", namespace_type())
            .variable("request", request_type());
        if self.params {
            env = env.variable("params", Type::Dyn);
        }
        if self.authorizer {
            env = env
                .variable("authorizer", Type::Opaque(opaque::AUTHORIZER))
                .variable("authorizer.requestResource", Type::Opaque(opaque::RESOURCE_CHECK));
        }
        env
    }

    /// The environment with a policy's own variables, given with their types.
    pub fn with_variables(self, known: &[(String, Type)]) -> Env {
        self.composed(known).build()
    }

    /// The same, for expressions that build patches.
    pub fn for_patches(self, known: &[(String, Type)]) -> Env {
        self.composed(known).library(Library::Patches).build()
    }

    fn composed(self, known: &[(String, Type)]) -> EnvBuilder {
        self.environment().variable("variables", Type::object("kubernetes.variables", known.to_vec()))
    }
}

/// The variables an expression may use besides `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Clone, Copy)]
pub(super) struct Variables<'a> {
    params: bool,
    authorizer: bool,
    /// The policy's own variables, and how many of them precede the expression.
    composed: Option<(Field<'a>, usize)>,
}

impl<'a> Variables<'a> {
    pub(super) fn without_params() -> Self {
        Self { params: false, authorizer: true, composed: None }
    }

    pub(super) fn of(variables: Field<'a>, params: bool) -> Self {
        Self { params, authorizer: true, composed: Some((variables, variables.len())) }
    }

    /// Without the policy's own variables, as match conditions are evaluated before them.
    pub(super) fn alone(self) -> Self {
        Self { composed: None, ..self }
    }

    /// With only those of the policy's own variables that come before the given one.
    pub(super) fn up_to(self, index: usize) -> Self {
        Self { composed: self.composed.map(|(variables, _)| (variables, index)), ..self }
    }

    fn without_authorizer(self) -> Self {
        Self { authorizer: false, ..self }
    }

    fn env(self) -> Env {
        match self.known_types() {
            None => self.scope().environment().build(),
            Some(known) => self.scope().with_variables(&known),
        }
    }

    /// The policy's own variables with their types.
    fn known_types(self) -> Option<Vec<(String, Type)>> {
        let (variables, count) = self.composed?;
        // A variable sees those before it; an invalid one is reported at its position and unknown after it.
        let mut known: Vec<(String, Type)> = Vec::new();
        for variable in variables.items().take(count) {
            if let Ok(program) = self.scope().with_variables(&known).compile(variable.field("expression").text()) {
                known.push((variable.field("name").text().to_owned(), program.result_type().clone()));
            }
        }
        Some(known)
    }

    fn patch_env(self) -> Env {
        self.scope().for_patches(&self.known_types().unwrap_or_default())
    }

    fn scope(self) -> ExpressionScope {
        ExpressionScope { params: self.params, authorizer: self.authorizer }
    }
}

/// Rejects an expression that does not compile to a bool.
pub(super) fn check_condition<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>) {
    check(field, expression, variables, &[Type::Bool]);
}

/// Rejects an expression that does not compile to a string. Messages must not depend on the caller's permissions.
pub(super) fn check_text<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>) {
    check(field, expression, variables.without_authorizer(), &[Type::String]);
}

pub(super) fn check_text_or_null<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>) {
    check(field, expression, variables, &[Type::String, Type::Null]);
}

/// Rejects an expression that does not compile.
pub(super) fn check_any<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>) {
    check(field, expression, variables, &[]);
}

/// Rejects an expression that does not compile to an apply configuration.
pub(super) fn check_apply_configuration<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>) {
    check_in(&variables.patch_env(), field, expression, &[Type::apply_configuration()]);
}

/// Rejects an expression that does not compile to a list of patch operations.
pub(super) fn check_json_patch<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>) {
    check_in(&variables.patch_env(), field, expression, &[Type::list(Type::json_patch())]);
}

fn check<'a>(field: Field<'a>, expression: &str, variables: Variables<'a>, wanted: &[Type]) {
    check_in(&variables.env(), field, expression, wanted);
}

fn check_in(env: &Env, field: Field<'_>, expression: &str, wanted: &[Type]) {
    let program = match env.compile(expression) {
        Ok(program) => program,
        Err(error) => return field.invalid_as(expression, format!("compilation failed: {error}")),
    };
    let got = program.result_type();
    let detail = match wanted {
        [] => return,
        wanted if wanted.contains(got) => return,
        [only] => format!("must evaluate to {} but got {}", type_name(only), type_name(got)),
        several => {
            let several: Vec<String> = several.iter().map(type_name).collect();
            format!("must evaluate to one of [{}] but got {}", several.join(" "), type_name(got))
        }
    };
    field.invalid_as(expression, detail);
}

/// These messages use the long names of types, unlike the checker's own.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        other => other.to_string(),
    }
}

fn fields(names: &[&str], ty: Type) -> Vec<(String, Type)> {
    names.iter().map(|name| ((*name).to_owned(), ty.clone())).collect()
}

/// The request as expressions see it.
fn request_type() -> Type {
    let kind = Type::object("kubernetes.GroupVersionKind", fields(&["group", "version", "kind"], Type::String));
    let resource =
        Type::object("kubernetes.GroupVersionResource", fields(&["group", "version", "resource"], Type::String));
    let texts = Type::list(Type::String);
    let mut user = fields(&["username", "uid"], Type::String);
    user.extend(fields(&["groups"], texts.clone()));
    user.extend(fields(&["extra"], Type::map(Type::String, texts)));
    let mut request = fields(&["subResource", "requestSubResource", "name", "namespace", "operation"], Type::String);
    request.extend(fields(&["kind", "requestKind"], kind));
    request.extend(fields(&["resource", "requestResource"], resource));
    request.extend(fields(&["userInfo"], Type::object("kubernetes.UserInfo", user)));
    request.extend(fields(&["dryRun"], Type::Bool));
    request.extend(fields(&["options"], Type::Dyn));
    Type::object("kubernetes.AdmissionRequest", request)
}

/// The request's namespace as expressions see it; missing fields are also missing upstream.
fn namespace_type() -> Type {
    let texts = Type::list(Type::String);
    let labels = Type::map(Type::String, Type::String);
    let mut metadata = fields(&["name", "generateName", "namespace", "UID", "resourceVersion"], Type::String);
    metadata.extend(fields(&["labels", "annotations"], labels));
    metadata.extend(fields(&["creationTimestamp", "deletionTimestamp"], Type::Timestamp));
    metadata.extend(fields(&["deletionGracePeriodSeconds", "generation"], Type::Int));
    metadata.extend(fields(&["finalizers"], texts.clone()));
    let mut condition = fields(&["status", "type", "message", "reason"], Type::String);
    condition.extend(fields(&["lastTransitionTime"], Type::Timestamp));
    let conditions = Type::list(Type::object("kubernetes.NamespaceCondition", condition));
    let mut status = fields(&["conditions"], conditions);
    status.extend(fields(&["phase"], Type::String));
    let spec = Type::object("kubernetes.NamespaceSpec", fields(&["finalizers"], texts));
    let mut namespace = fields(&["metadata"], Type::object("kubernetes.NamespaceMetadata", metadata));
    namespace.extend(fields(&["spec"], spec));
    namespace.extend(fields(&["status"], Type::object("kubernetes.NamespaceStatus", status)));
    Type::object("kubernetes.Namespace", namespace)
}
