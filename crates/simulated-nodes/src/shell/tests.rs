//! Scripts with their expected output, exit code and duration.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod() -> Object {
    Object::from_value(json!({"metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1"}}))
    .expect("a map")
}

fn container(script: &str) -> Value {
    json!({"name": "main", "image": "busybox", "command": ["sh", "-c", script],
        "env": [{"name": "GREETING", "value": "hello"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "BOTH", "value": "$(GREETING) $(NODE) $(NONE)"},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}]})
}

/// Checks the output and exit code of a script, and how long it takes.
#[track_caller]
fn check(script: &str, expected: &str, code: i32, seconds: u64) {
    let container = container(script);
    let length = PredictionLimits { start: Timestamp::UNIX_EPOCH, horizon: crate::duration::FOREVER, commands: 5000 };
    let (written, end) = simulate_run(&pod(), &container, &command_of(&container), length).expect("simulated");
    let text: Vec<u8> = written.iter().flat_map(|output| output.bytes.to_vec()).collect();
    assert_eq!(String::from_utf8_lossy(&text), expected, "{script}");
    assert_eq!(end, Some((Duration::from_secs(seconds), code)), "{script}");
}

#[test]
fn scripts_are_interpreted() {
    check("echo hi", "hi\n", 0, 0);
    check("echo one; echo two; exit 3", "one\ntwo\n", 3, 0);
    check("sleep 5 && echo done || echo failed", "done\n", 0, 5);
    check("false && echo no || echo yes", "yes\n", 0, 0);
    check("! false && echo yes", "yes\n", 0, 0);
    check("echo $GREETING from $NODE, ${APP}, ${MISSING:-default}", "hello from node-1, web, default\n", 0, 0);
    check("echo \"$BOTH\"", "hello node-1 $(NONE)\n", 0, 0);
    check("echo '$GREETING'  \"a  b\" \\$x", "$GREETING a  b $x\n", 0, 0);
    check("x=1; x=$((x + 41)); echo $x", "42\n", 0, 0);
    check("echo $(hostname) `echo inner`", "web-0 inner\n", 0, 0);
    check("for i in 1 2 3; do echo -n $i; sleep 1; done", "123", 0, 3);
    check("i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done", "0\n1\n2\n", 0, 0);
    check("until test -f /tmp/x; do touch /tmp/x; sleep 2; done; echo ok", "ok\n", 0, 2);
    check("if [ -d /etc ]; then echo dir; elif true; then echo no; else echo no; fi", "dir\n", 0, 0);
    check("echo a > /tmp/f; echo b >> /tmp/f; cat /tmp/f | wc -l", "2\n", 0, 0);
    check("cat /missing 2>/dev/null; echo $?", "1\n", 0, 0);
    check("cat /missing", "cat: /missing: No such file or directory\n", 1, 0);
    check("(cd /tmp; pwd); pwd", "/tmp\n/\n", 0, 0);
    check("{ echo a; echo b; } > /tmp/g; head -n 1 /tmp/g", "a\n", 0, 0);
    check("set -e; false; echo never", "", 1, 0);
    check("printf '%s=%d\\n' a 1; seq 2 | tail -n 1", "a=1\n2\n", 0, 0);
    check("echo b a | tr ' ' '\\n' | sort", "a\nb\n", 0, 0);
    check("exec sleep 7", "", 0, 7);
    check("sleep 61; date +%H:%M:%S", "00:01:01\n", 0, 61);
    check("# nothing\n\necho \\\n two", "two\n", 0, 0);
    check("mkdir -p /a/b && cp /etc/hostname /a/b/ && ls /a/b && mv /a/b /c && ls /c", "hostname\nhostname\n", 0, 0);
    check(
        "tar cf /tmp/t.tar /etc/hostname && rm /etc/hostname && tar xf /tmp/t.tar -C / && cat /etc/hostname",
        "web-0\n",
        0,
        0,
    );
}

#[test]
fn endless_scripts_are_recognized() {
    for script in ["while true; do date; sleep 1; done", "sleep infinity", "while :; do :; done", "yes"] {
        assert_eq!(predict_end(&pod(), &container(script)), Some(None), "{script}");
    }
}

#[test]
fn unknown_programs_are_not_predicted() {
    for script in ["nginx -g 'daemon off;'", "echo hi; java -jar app.jar", "cat <<EOF", "server &"] {
        assert_eq!(predict_end(&pod(), &container(script)), None, "{script}");
    }
    assert_eq!(predict_end(&pod(), &json!({"name": "main", "image": "nginx"})), None);
}

#[test]
fn output_has_its_time() {
    let container = container("echo start; while true; do echo tick; sleep 10; done");
    let written = output(&pod(), &container, Timestamp::UNIX_EPOCH, Duration::from_secs(25)).expect("simulated");
    let times: Vec<u64> = written.iter().map(|output| output.after.as_secs()).collect();
    assert_eq!(times, [0, 0, 10, 20]);
}

proptest! {
    #[test]
    fn no_script_panics(script in "[a-z0-9$(){}'\"`;|&<>! \n\\-=\\[\\]*?#]{0,80}") {
        let _ = predict_end(&pod(), &container(&script));
    }

    #[test]
    fn no_nesting_is_too_deep(opening in prop::sample::select(vec!["(", "$(", "{ ", "if ", "! ", "while ", "\"$(", "echo $("]), depth in 1usize..3000) {
        let _ = predict_end(&pod(), &container(&opening.repeat(depth)));
    }
}
