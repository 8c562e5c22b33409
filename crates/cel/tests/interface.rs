//! The interface beyond single expressions: budgets, interruption, composed variables, authorizers, libraries.

use cel::{
    Activation, Attributes, Authorization, Authorizer, AuthorizerDecision, Budget, CheckSubject, CheckTarget, Env,
    EvalError, Library, ResourceTarget, Type, Value, types::opaque,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn shown(result: Result<Value, EvalError>) -> String {
    match result {
        Ok(Value::String(text)) => text.to_string(),
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn check(env: &Env, variables: &Activation, expression: &str, expected: &str) {
    let found = match env.compile(expression) {
        Ok(program) => shown(program.eval(variables, &mut Budget::for_validation())),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn extra_libraries_are_opt_in() {
    let env = Env::builder().library(Library::Math).library(Library::Encoders).library(Library::Bindings).build();
    for (expression, expected) in [
        ("math.greatest(1, 5, 3)", "Int(5)"),
        ("math.greatest([1.5, 2.5])", "Double(2.5)"),
        ("math.least(2u, 1u)", "Uint(1)"),
        ("math.least(1, 0.5)", "Double(0.5)"),
        ("math.abs(-3)", "Int(3)"),
        ("math.abs(-9223372036854775808)", "error: integer overflow"),
        ("math.ceil(1.2)", "Double(2.0)"),
        ("math.floor(-1.2)", "Double(-2.0)"),
        ("math.round(2.5)", "Double(3.0)"),
        ("math.trunc(-1.9)", "Double(-1.0)"),
        ("math.sign(-7)", "Int(-1)"),
        ("math.sqrt(16)", "Double(4.0)"),
        ("math.isNaN(0.0 / 0.0)", "Bool(true)"),
        ("math.isInf(1.0 / 0.0)", "Bool(true)"),
        ("math.isFinite(1.0)", "Bool(true)"),
        ("math.bitAnd(6, 3)", "Int(2)"),
        ("math.bitOr(6u, 1u)", "Uint(7)"),
        ("math.bitXor(6, 3)", "Int(5)"),
        ("math.bitNot(0)", "Int(-1)"),
        ("math.bitShiftLeft(1, 4)", "Int(16)"),
        ("math.bitShiftRight(-1, 60)", "Int(15)"),
        ("math.bitShiftLeft(1, 64)", "Int(0)"),
        ("math.bitShiftLeft(1, -1)", "error: math.bitShiftLeft() negative offset: -1"),
        ("base64.encode(b'hello')", "aGVsbG8="),
        ("string(base64.decode('aGVsbG8'))", "hello"),
        ("cel.bind(x, 'a' + 'b', x + x)", "abab"),
        ("cel.bind(x, 1 / 0, true)", "Bool(true)"),
    ] {
        check(&env, &Activation::new(), expression, expected);
    }
}

#[test]
fn evaluation_stops_at_the_cost_limit() {
    let env = Env::builder().build();
    let program = env.compile("lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))").expect("well-typed");
    let mut budget = Budget::for_validation();
    assert_eq!(program.eval(&Activation::new(), &mut budget).unwrap_err(), EvalError::CostLimit);
    assert!(budget.last_cost() <= cel::PER_CALL_COST_LIMIT + 1_000);
    for greedy in ["lists.range(1000000000000).size()", "lists.range(1500).distinct().size()"] {
        let program = env.compile(greedy).expect("well-typed");
        let mut budget = Budget::for_validation();
        assert_eq!(program.eval(&Activation::new(), &mut budget).unwrap_err(), EvalError::CostLimit, "{greedy}");
    }
}

#[test]
fn results_beyond_the_budget_are_withheld() {
    let env = Env::builder().build();
    let program = env.compile("[1, 2, 3].all(x, x > 0)").expect("well-typed");
    let mut budget = Budget::new(20);
    assert!(program.eval(&Activation::new(), &mut budget).is_ok());
    assert_eq!(budget.remaining(), 20 - 16);
    assert_eq!(program.eval(&Activation::new(), &mut budget).unwrap_err(), EvalError::OutOfBudget);
    assert!(budget.remaining() < 0);
}

#[test]
fn a_raised_flag_interrupts_comprehensions() {
    let env = Env::builder().build();
    let program = env.compile("lists.range(1000).all(x, x >= 0)").expect("well-typed");
    let flag = Arc::new(AtomicBool::new(false));
    let mut budget = Budget::for_validation().interruptible(flag.clone());
    assert!(program.eval(&Activation::new(), &mut budget).is_ok());
    flag.store(true, Ordering::Relaxed);
    assert_eq!(program.eval(&Activation::new(), &mut budget).unwrap_err(), EvalError::Interrupted);
}

#[test]
fn composed_variables_are_computed_once_and_only_when_read() {
    let object = json!({"n": 3});
    let base = Env::builder().variable("object", Type::Dyn);
    let one = base.clone().build().compile("object.n * 2").expect("well-typed");
    let fields = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Type::Dyn)).collect::<Vec<_>>();
    let two = base
        .clone()
        .variable("variables", Type::object("Variables", fields(&["one"])))
        .build()
        .compile("variables.one + 1")
        .expect("well-typed");
    let bad = base.clone().build().compile("object.missing").expect("well-typed");
    let env = base.variable("variables", Type::object("Variables", fields(&["one", "two", "bad"]))).build();
    let variables = Activation::new()
        .with("object", Value::from_json(&object))
        .with_composed("variables", vec![("one".to_owned(), one), ("two".to_owned(), two), ("bad".to_owned(), bad)]);
    check(&env, &variables, "variables.two", "Int(7)");
    check(&env, &variables, "variables.two + variables.one", "Int(13)");
    check(&env, &variables, "variables.two == 7 || variables.bad", "Bool(true)");
    let failed = "error: composited variable \"bad\" fails to evaluate: no such key: missing";
    check(&env, &variables, "variables.bad", failed);
    check(
        &env,
        &variables,
        "variables.nope",
        "ERROR: <input>:1:10: undefined field 'nope'\n | variables.nope\n | .........^",
    );
    let program = env.compile("variables.two").expect("well-typed");
    let fresh = Activation::new().with("object", Value::from_json(&object));
    assert!(program.eval(&fresh, &mut Budget::for_validation()).is_err());
}

struct OnlyBob;

impl Authorizer for OnlyBob {
    fn authorize(&self, attributes: &Attributes) -> AuthorizerDecision {
        let is_bob = matches!(&attributes.subject, CheckSubject::ServiceAccount { name, .. } if name == "bob");
        let on_pods = matches!(&attributes.target, CheckTarget::Resource(target) if target.resource == "pods");
        match (&attributes.target, attributes.verb.as_str()) {
            (CheckTarget::Path(path), "get") if path == "/healthz" => {
                AuthorizerDecision { allowed: true, reason: "everyone".to_owned(), error: None }
            }
            (CheckTarget::Resource(target), _) if target.name == "broken" => {
                AuthorizerDecision { allowed: false, reason: String::new(), error: Some("no answer".to_owned()) }
            }
            _ => AuthorizerDecision {
                allowed: is_bob && on_pods,
                reason: format!("{:?}", attributes.target),
                error: None,
            },
        }
    }
}

#[test]
fn the_authorizer_is_called() {
    let authorizer: Arc<dyn Authorizer> = Arc::new(OnlyBob);
    let requested =
        ResourceTarget { resource: "pods".to_owned(), name: "broken".to_owned(), ..ResourceTarget::default() };
    let env = Env::builder()
        .variable("authorizer", Type::Opaque(opaque::AUTHORIZER))
        .variable("authorizer.requestResource", Type::Opaque(opaque::RESOURCE_CHECK))
        .build();
    let variables = Activation::new()
        .with("authorizer", Authorization::start(authorizer.clone()))
        .with("authorizer.requestResource", Authorization::request_resource(authorizer, requested));
    for (expression, expected) in [
        ("authorizer.path('/healthz').check('get').allowed()", "Bool(true)"),
        ("authorizer.path('/healthz').check('get').reason()", "everyone"),
        ("authorizer.path('/other').check('get').allowed()", "Bool(false)"),
        ("authorizer.group('').resource('pods').check('list').allowed()", "Bool(false)"),
        ("authorizer.serviceAccount('ns', 'bob').group('').resource('pods').check('list').allowed()", "Bool(true)"),
        (
            "authorizer.serviceAccount('ns', 'bob').group('').resource('pods').subresource('log').namespace('d')\
             .name('n').fieldSelector('a=b').labelSelector('c').check('get').allowed()",
            "Bool(true)",
        ),
        ("authorizer.requestResource.check('delete').errored()", "Bool(true)"),
        ("authorizer.requestResource.check('delete').error()", "no answer"),
        ("authorizer.requestResource.name('x').check('delete').errored()", "Bool(false)"),
        ("authorizer.path(' ').check('get').allowed()", "error: path must not be empty"),
        (
            "authorizer.serviceAccount('ns', 'B').path('/').check('get').allowed()",
            "error: Invalid service account name",
        ),
        ("authorizer.path('/').check('a').allowed() || authorizer.path('/').check('b').allowed()", "Bool(false)"),
    ] {
        check(&env, &variables, expression, expected);
    }
    let three = "[1, 2, 3].exists(x, authorizer.path('/').check(string(x)).allowed())";
    check(&env, &variables, three, "error: operation cancelled: actual cost limit exceeded");
}

#[test]
fn expressions_that_are_too_large_are_refused() {
    // Unoptimized code takes more stack per level than a test thread has; optimized code needs 600 KiB in total.
    let deep = std::thread::Builder::new().stack_size(16 << 20).spawn(refuse_large_expressions).expect("a thread");
    deep.join().expect("no expression overflows the stack");
}

fn refuse_large_expressions() {
    let env = Env::builder().build();
    let refusal = |expression: &str| env.compile(expression).expect_err("too large").to_string();
    let long = "1 ".repeat(cel::EXPRESSION_SIZE_MAX);
    assert!(refusal(&long).contains("expression code point size exceeds limit"));
    for deep in [
        format!("{}1{}", "(".repeat(300), ")".repeat(300)),
        format!("{}1{}", "[".repeat(300), "]".repeat(300)),
        format!("1{}", " + 1".repeat(300)),
        format!("a{}", ".a".repeat(300)),
        format!("{}true{}", "[1].all(x, ".repeat(300), ")".repeat(300)),
        format!("{}1{}", "true ? 1 : (".repeat(300), ")".repeat(300)),
        format!("1{}", " < 1".repeat(300)),
        format!("{}a", "-".repeat(90_000)),
    ] {
        let message = refusal(&deep);
        assert!(
            message.contains("expression recursion limit exceeded") || message.contains("undeclared reference"),
            "{message:.200}"
        );
    }
    let wide = format!("true{}", " && true".repeat(5_000));
    check(&env, &Activation::new(), &wide, "Bool(true)");
}
