//! Templates as users of kubectl write them, and what they print.

use serde_json::json;

use super::*;

fn data() -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"b": "2", "a": "1"}, "annotations": {}},
        "spec": {"replicas": 3, "big": 12345678, "half": 0.5, "paused": false, "containers": [
            {"name": "nginx", "image": "nginx:1"}, {"name": "sidecar", "image": "envoy:2", "ports": [80, 443]}]},
        "data": {"password": "c2VjcmV0"},
        "nothing": null,
    })
}

#[track_caller]
fn check(template: &str, expected: &str) {
    let rendered = GoTemplate::parse(template).and_then(|parsed| parsed.render(&data()));
    match rendered {
        Ok(text) => assert_eq!(text, expected, "{template}"),
        Err(error) => panic!("{template}: {error:#}"),
    }
}

#[track_caller]
fn check_error(template: &str, expected: &str) {
    let result = GoTemplate::parse(template).and_then(|parsed| parsed.render(&data()));
    let error = format!("{:#}", result.expect_err(template));
    assert!(error.contains(expected), "{template}: {error}");
}

#[test]
fn values_print_as_go_prints_them() {
    check("{{.metadata.name}}", "web");
    check("{{.spec.replicas}} {{.spec.half}} {{.spec.paused}}", "3 0.5 false");
    check("{{.spec.big}}", "12345678");
    check("{{.metadata.labels}}", "map[a:1 b:2]");
    check("{{(index .spec.containers 1).ports}}", "[80 443]");
    check("{{.missing}} {{.nothing}}", "<no value> <no value>");
    check("{{printf \"%v\" .nothing}}", "<nil>");
    check("{{1}} {{1.5}} {{true}} {{\"x\\ty\"}} {{`raw\\n`}} {{0x10}} {{'a'}}", "1 1.5 true x\ty raw\\n 16 97");
}

#[test]
fn actions_behave_as_in_go() {
    check("{{range .spec.containers}}{{.name}} {{end}}", "nginx sidecar ");
    check("{{range $i, $c := .spec.containers}}{{$i}}={{$c.name}};{{end}}", "0=nginx;1=sidecar;");
    check("{{range $k, $v := .metadata.labels}}{{$k}}:{{$v}},{{end}}", "a:1,b:2,");
    check("{{range .missing}}x{{else}}none{{end}}", "none");
    check("{{range .spec.containers}}{{if eq .name \"sidecar\"}}{{break}}{{end}}{{.name}}{{end}}", "nginx");
    check("{{range .spec.containers}}{{if eq .name \"nginx\"}}{{continue}}{{end}}{{.name}}{{end}}", "sidecar");
    check("{{if .spec.paused}}a{{else if .metadata.labels}}b{{else}}c{{end}}", "b");
    check("{{if .metadata.annotations}}a{{else}}c{{end}}", "c");
    check("{{with .metadata}}{{.name}} {{$.spec.replicas}}{{end}}", "web 3");
    check("{{with .missing}}x{{else with .spec}}{{.replicas}}{{end}}", "3");
    check("{{$x := 1}}{{if true}}{{$x = 2}}{{$y := 5}}{{end}}{{$x}}", "2");
    check("a {{- /* why */ -}} b\n{{- .metadata.name -}}\n c", "abwebc");
    check(
        "{{define \"one\"}}<{{.name}}>{{end}}{{range .spec.containers}}{{template \"one\" .}}{{end}}",
        "<nginx><sidecar>",
    );
    check("{{block \"b\" .metadata}}{{.name}}{{end}}", "web");
    check("{{\"}}\"}}", "}}");
}

#[test]
fn functions_behave_as_in_go_and_kubectl() {
    check("{{len .spec.containers}} {{len .metadata.name}} {{len .metadata.labels}}", "2 3 2");
    check("{{index .metadata.labels \"a\"}} {{index .spec.containers 0 \"name\"}}", "1 nginx");
    check("{{index .metadata.labels \"zz\"}}", "<no value>");
    check("{{.data.password | base64decode}}", "secret");
    check("{{exists .spec \"containers\" 1 \"ports\"}} {{exists . \"a\" \"b\"}}", "true false");
    check("{{and .spec.paused .x}} {{or .spec.paused .metadata.name}} {{not .spec.paused}}", "false web true");
    check(
        "{{eq .metadata.name \"a\" \"web\"}} {{ne .metadata.name \"web\"}} {{eq .spec.replicas 3}}",
        "true false true",
    );
    check("{{lt 1 2}} {{ge \"b\" \"a\"}} {{gt .spec.replicas 2}}", "true true true");
    check(
        "{{printf \"%s|%-6s|%6s|%q|%v|%.1f|%03d|%5.2f%%\" .metadata.name \"a\" \"b\" \"c\" 3 0.25 7 1.005}}",
        "web|a     |     b|\"c\"|3|0.2|007| 1.00%",
    );
    check("{{printf \"%d\" .spec.replicas}}", "3");
    check("{{.metadata.name | printf \"%s-%s\" \"a\"}}", "a-web");
    check("{{print 1 2 \"a\" 3}} {{println 1 \"a\"}}", "1 2a3 1 a\n");
    check("{{slice .metadata.name 1}} {{len (slice .spec.containers 0 1)}}", "eb 1");
    check("{{html \"<a>\"}} {{urlquery \"a b&c\"}}", "&lt;a&gt; a+b%26c");
}

#[test]
fn errors_are_reported() {
    check_error("{{.a.b}}", "nil pointer evaluating interface {}.b");
    check_error("{{.metadata.name.x}}", "can't evaluate field x in type string");
    check_error("{{range .spec.containers}}", "unexpected EOF");
    check_error("{{end}}", "unexpected {{end}}");
    check_error("{{.metadata.name", "unclosed action");
    check_error("{{$x}}", "undefined variable \"$x\"");
    check_error("{{nope 1}}", "function \"nope\" not defined");
    check_error(
        "{{eq .spec.replicas 3.0}}",
        "incompatible types for comparison; whole numbers of objects are integers",
    );
    check_error("{{index .spec.containers 9}}", "out of range");
    check_error("{{define \"r\"}}{{template \"r\" .}}{{end}}{{template \"r\" .}}", "maximum template depth");
    check_error(&"{{if true}}".repeat(100), "nested too deeply");
    check_error("{{break}}", "outside");
}

#[test]
fn endless_templates_are_refused() {
    check_error(
        "{{range $x := 1111111111111111111}}a{{end}}",
        "range over 1111111111111111111 has too many iterations",
    );
    check_error("{{range 9223372036854775807}}{{end}}", "too many iterations");
    check_error("{{$x := `a`}}{{range 100}}{{$x = print $x $x}}{{end}}", "bytes of text");
    let run = |text: &str| GoTemplate::parse(text).and_then(|parsed| parsed.render_within(&data(), 1_000));
    assert!(run("{{range 30}}{{range 30}}{{end}}{{end}}").is_ok());
    for text in [
        "{{range 900}}{{range 900}}{{end}}{{end}}",
        &("{{range $.spec.containers}}".repeat(20) + &"{{end}}".repeat(20)),
        "{{define `r`}}{{if lt (len .) 30}}{{template `r` print . `a`}}{{template `r` print . `b`}}{{end}}{{end}}{{template `r` `a`}}",
    ] {
        let error = format!("{:#}", run(text).expect_err(text));
        assert!(error.contains("too many"), "{text}: {error}");
    }
}
