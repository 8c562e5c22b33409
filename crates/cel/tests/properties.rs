//! Compiling and evaluating any text terminates within its limits and without panicking.

use cel::rules::CompiledRules;
use cel::{Activation, Budget, Env, PER_CALL_COST_LIMIT, Schema, Type, Value, type_of_schema};
use object::FieldPath;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Fragments that make well-formed expressions likely enough to get past the parser.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "self",
        "self.a",
        "self.l",
        "self.m",
        "self.s",
        "x",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'b'",
        "true",
        "null",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "?",
        ".",
        " + ",
        " - ",
        " * ",
        " / ",
        " % ",
        " == ",
        " != ",
        " < ",
        " in ",
        " && ",
        " || ",
        "!",
        "-",
        ".size()",
        ".all(x, ",
        ".exists(x, ",
        ".map(x, ",
        ".filter(x, ",
        ".?a",
        "[?0]",
        "[0]",
        ".orValue(",
        "has(self.a)",
        "has(",
        "quantity('1')",
        "duration('1s')",
        "timestamp(0)",
        ".matches('a+')",
        ".replace('a', 'bb')",
        ".split('')",
        ".join()",
        "string(",
        "int(",
        "dyn(",
        "type(",
        "optional.of(",
        ".format([",
        "lists.range(",
        ".sortBy(x, ",
        ".transformMap(k, v, ",
        "ip('1.2.3.4')",
        ".flatten()",
        "'",
        "\\",
        "\"",
        "é",
        "\n",
    ];
    prop::sample::select(pieces.to_vec()).prop_map(str::to_owned)
}

/// Expressions that are well-formed by construction.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "self.a",
        "self.l",
        "self.m",
        "self.s",
        "1",
        "2u",
        "1.5",
        "'abc'",
        "true",
        "false",
        "null",
        "[1, 2]",
        "['a']",
        "{'k': 1}",
        "dyn(1)",
        "dyn('x')",
        "duration('1s')",
        "timestamp(0)",
        "self",
        "b'xy'",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operators = prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"]);
        let methods = prop::sample::select(vec![
            ".size()",
            ".upperAscii()",
            "[0]",
            "['k']",
            ".k",
            ".?k",
            ".reverse()",
            ".sort()",
            ".sum()",
            ".max()",
            ".split('')",
            ".distinct()",
            ".first()",
            ".hasValue()",
            ".value()",
            ".getFullYear()",
            ".flatten()",
        ]);
        let macros = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter", "sortBy"]);
        let calls =
            prop::sample::select(vec!["string", "int", "double", "size", "type", "dyn", "optional.of", "!", "-"]);
        prop_oneof![
            (inner.clone(), operators, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), methods).prop_map(|(a, method)| format!("{a}{method}")),
            (inner.clone(), macros, inner.clone()).prop_map(|(a, name, b)| format!("{a}.{name}(x, {b})")),
            (calls, inner.clone()).prop_map(|(name, a)| format!("{name}({a})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
        ]
    })
}

fn schema() -> Json {
    json!({"type": "object", "properties": {
        "a": {"type": "integer"},
        "l": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
        "m": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string", "maxLength": 5}},
        "s": {"type": "string", "maxLength": 9},
    }})
}

/// Compiles and runs; the actual cost of a success stays within the limit and within the estimate.
fn check(text: &str) -> Result<(), TestCaseError> {
    let schema = Schema::from_json(&schema());
    let decl = type_of_schema(&schema, "selfType1").expect("the schema has a type");
    let typed = Env::builder().variable("self", decl.ty.clone()).size_root(decl).build();
    let untyped = Env::builder().variable("self", Type::Dyn).build();
    let data = json!({"a": 3, "l": [1, 2], "m": {"k": "v"}, "s": "text"});
    for (env, is_typed) in [(typed, true), (untyped, false)] {
        let Ok(program) = env.compile(text) else { continue };
        let value = match is_typed {
            true => Value::from_json_with_schema(&data, &schema).expect("the data fits"),
            false => Value::from_json(&data),
        };
        let mut budget = Budget::for_validation();
        let result = program.eval(&Activation::new().with("self", value), &mut budget);
        if result.is_ok() {
            prop_assert!(budget.last_cost() <= PER_CALL_COST_LIMIT);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_parsed_without_panic(text in "\\PC{0,60}") {
        check(&text)?;
    }

    #[test]
    fn any_mix_of_tokens_is_parsed_without_panic(pieces in prop::collection::vec(piece(), 0..25)) {
        check(&pieces.concat())?;
    }

    #[test]
    fn any_expression_is_evaluated_without_panic(text in expression()) {
        check(&text)?;
    }

    #[test]
    fn any_rule_and_object_are_evaluated_without_panic(text in expression(), a in -3i64..3, wrong in any::<bool>()) {
        let mut schema = schema();
        schema["x-kubernetes-validations"] = json!([{"rule": text, "messageExpression": "string(self.a)"}]);
        let (rules, _) = CompiledRules::compile(&schema, &FieldPath::root());
        let new = if wrong { json!({"a": "x", "l": {}, "m": [null]}) } else { json!({"a": a, "l": [a], "m": {"k": "v"}}) };
        let mut budget = Budget::for_validation();
        rules.validate(&FieldPath::root(), &new, Some(&json!({"a": 1})), &mut budget);
    }
}
