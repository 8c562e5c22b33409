//! Capabilities and limits of scripts.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

/// The time of a call.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn vm() -> Vm {
    Vm::new(pod::PodOptions::default(), &[], ScriptEnvironment::for_tests())
}

fn object(value: Json) -> Object {
    Object::from_value(value).expect("a map")
}

fn thing(rest: Json) -> Object {
    let mut object = object(json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "x"}}));
    object.set(&["spec"], rest);
    object
}

/// Runs a body as the status reflection function; its result is wrapped so that any value is visible.
fn eval_with(vm: &Vm, body: &str) -> InterpretResult<Json> {
    let script: Arc<str> = format!(
        "local function body(observed) {body} end function ReflectStatus(observed) return {{r = body(observed)}} end"
    )
    .into();
    vm.at(NOW).reflect_status(&script, &thing(json!({"n": 3}))).map(|status| status["r"].clone())
}

fn eval(body: &str) -> InterpretResult<Json> {
    eval_with(&vm(), body)
}

fn error_of(body: &str) -> String {
    match eval(body) {
        Ok(value) => panic!("{body} gave {value}"),
        Err(error) => error.0,
    }
}

#[test]
fn each_operation_has_its_function_and_its_types() {
    let vm = vm();
    let script: Arc<str> = r#"
        function GetReplicas(obj) return obj.spec.n, {resourceRequest = {cpu = "100m"}} end
        function GetComponents(obj) return {{name = "a", replicas = 2, replicaRequirements = {resourceRequest = {cpu = 0.05}}}, {name = "b", replicas = obj.spec.n}} end
        function ReviseReplica(obj, n) obj.spec.n = n return obj end
        function Retain(desired, observed) desired.spec.kept = observed.spec.n return desired end
        function AggregateStatus(obj, items)
          obj.status = {n = 0}
          if items == nil then return obj end
          for _, item in ipairs(items) do
            if item.status ~= nil then obj.status.n = obj.status.n + item.status.n end
            if item.applied and item.health == "Healthy" then obj.status[item.clusterName] = item.appliedMessage end
          end
          return obj
        end
        function GetDependencies(obj) return {{apiVersion = "v1", kind = "Secret", namespace = "ns", name = "s"}} end
        function ReflectStatus(obj) return {n = obj.spec.n} end
        function InterpretHealth(obj) return obj.spec.n == 3 end
    "#
    .into();
    let object = thing(json!({"n": 3, "empty": {}, "none": []}));
    let (replicas, requirements) = vm.at(NOW).replicas(&script, &object).expect("replicas");
    assert_eq!((replicas, requirements.expect("some").resource_request["cpu"].0.as_str()), (3, "100m"));
    let components = vm.at(NOW).components(&script, &object).expect("components");
    assert_eq!(components.iter().map(|c| (c.name.as_str(), c.replicas)).collect::<Vec<_>>(), [("a", 2), ("b", 3)]);
    let wanted = components[0].replica_requirements.as_ref().expect("some");
    assert_eq!(wanted.resource_request["cpu"].0.as_str(), "50m", "written as amounts are everywhere");
    let revised = vm.at(NOW).revise_replicas(&script, &object, 7).expect("revised");
    assert_eq!(revised.get(&["spec"]), Some(&json!({"n": 7, "empty": {}, "none": []})));
    let retained = vm.at(NOW).retain(&script, &object, &thing(json!({"n": 9}))).expect("retained");
    assert_eq!(retained.get(&["spec"]), Some(&json!({"n": 3, "kept": 9, "empty": {}, "none": []})));
    let items = [
        AggregatedStatusItem {
            cluster_name: "m1".into(),
            status: Some(json!({"n": 4})),
            applied: true,
            applied_message: "fine".into(),
            health: "Healthy".into(),
        },
        AggregatedStatusItem { cluster_name: "m2".into(), ..Default::default() },
    ];
    let aggregated = vm.at(NOW).aggregate_status(&script, &object, &items).expect("aggregated");
    assert_eq!(aggregated.get(&["status"]), Some(&json!({"n": 4, "m1": "fine"})));
    assert_eq!(aggregated.get(&["spec"]), Some(&json!({"n": 3})), "without references empty tables go");
    let aggregated = vm.at(NOW).aggregate_status(&script, &object, &[]).expect("aggregated");
    assert_eq!(aggregated.get(&["status"]), Some(&json!({"n": 0})));
    assert_eq!(vm.at(NOW).dependencies(&script, &object), Ok(vec![pod::reference("v1", "Secret", "ns", "s")]));
    assert_eq!(vm.at(NOW).reflect_status(&script, &object), Ok(json!({"n": 3})));
    assert_eq!(vm.at(NOW).is_healthy(&script, &object), Ok(true));
}

#[test]
fn empty_results_take_the_type_of_their_operation() {
    let vm = vm();
    let script: Arc<str> = r#"
        function GetComponents() return {} end
        function GetDependencies() return {} end
        function ReflectStatus() return {} end
        function GetReplicas() return 1.9, {} end
        function AggregateStatus(obj) obj.status = {conditions = {}} return obj end
    "#
    .into();
    let object = thing(json!({}));
    assert_eq!(vm.at(NOW).components(&script, &object), Ok(Vec::new()));
    assert_eq!(vm.at(NOW).dependencies(&script, &object), Ok(Vec::new()));
    assert_eq!(vm.at(NOW).reflect_status(&script, &object), Ok(json!({})));
    assert_eq!(vm.at(NOW).replicas(&script, &object), Ok((1, Some(ReplicaRequirements::default()))));
    let aggregated = vm.at(NOW).aggregate_status(&script, &object, &[]).expect("aggregated");
    assert_eq!(aggregated.get(&["status"]), Some(&json!({})));
}

#[test]
fn results_of_another_type_are_refused() {
    let vm = vm();
    let object = thing(json!({}));
    let script =
        |function: &str, result: &str| -> Arc<str> { format!("function {function}() return {result} end").into() };
    let check = |result: Result<(), InterpretError>, expected: &str| {
        let error = result.expect_err(expected);
        assert!(error.0.contains(expected), "{error}");
    };
    check(vm.at(NOW).replicas(&script("GetReplicas", "'3'"), &object).map(drop), "is number but got string");
    check(vm.at(NOW).replicas(&script("GetReplicas", "3, 4"), &object).map(drop), "is table but got");
    check(
        vm.at(NOW).components(&script("GetComponents", "1"), &object).map(drop),
        "'table' or 'nil' from GetComponents",
    );
    check(vm.at(NOW).revise_replicas(&script("ReviseReplica", "nil"), &object, 1).map(drop), "is table but got nil");
    check(vm.at(NOW).retain(&script("Retain", "true"), &object, &object).map(drop), "is table but got boolean");
    check(
        vm.at(NOW).aggregate_status(&script("AggregateStatus", "'x'"), &object, &[]).map(drop),
        "is table but got string",
    );
    check(vm.at(NOW).dependencies(&script("GetDependencies", "nil"), &object).map(drop), "is table but got nil");
    check(vm.at(NOW).reflect_status(&script("ReflectStatus", "nil"), &object).map(drop), "is table but got nil");
    check(vm.at(NOW).is_healthy(&script("InterpretHealth", "1"), &object).map(drop), "is bool but got");
    check(
        vm.at(NOW).revise_replicas(&script("ReviseReplica", "{a = 1}"), &object, 1).map(drop),
        "Object 'Kind' is missing",
    );
    check(vm.at(NOW).components(&script("GetComponents", "{a = 1}"), &object).map(drop), "json unmarshal obj failed");
    check(vm.at(NOW).is_healthy(&script("Other", "1"), &object).map(drop), "not found function InterpretHealth");
    check(
        vm.at(NOW).is_healthy(&"InterpretHealth = 3".into(), &object).map(drop),
        "InterpretHealth is not a function: ",
    );
    check(vm.at(NOW).is_healthy(&"function (".into(), &object).map(drop), "script:1:");
}

#[test]
fn scripts_do_not_share_state() {
    let vm = vm();
    let spoil = "string.format = nil table.insert = nil math.floor = nil leaked = 1 require('kube').resourceAdd = nil \
        package.preload.kube = nil return 1";
    assert_eq!(eval_with(&vm, spoil), Ok(json!(1)));
    let look = "return leaked == nil and string.format('%d', math.floor(1.5)) .. ('%s'):format(require('kube').resourceAdd('1'))";
    assert_eq!(eval_with(&vm, look), Ok(json!("11")));
    assert_eq!(vm.idle.lock().len(), 1, "one state was enough");
}

#[test]
fn the_language_is_lua_5_1_with_the_libraries_karmada_gives() {
    let cases = [
        ("return 7 % 4 + 2 ^ 3", json!(11)),
        ("return #'abc' .. 'd'", json!("3d")),
        (
            "local t = {} table.insert(t, 'b') table.insert(t, 1, 'a') table.insert(t, 'c') return table.concat(t, ',')",
            json!("a,b,c"),
        ),
        ("local t = {'a', 'b', 'c'} table.remove(t, 1) table.remove(t) return t", json!(["b"])),
        ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t", json!([3, 2, 1])),
        ("return table.getn({1, 2}) + table.maxn({1, 2, [9] = 3})", json!(11)),
        ("return select('#', unpack({1, 2, 3}))", json!(3)),
        ("return tonumber('0x10') + tonumber('11', 2) + math.max(1, 5)", json!(24)),
        (
            "return tostring(nil) .. tostring(true) .. tostring(1e15) .. tostring(0.1)",
            json!("niltrue10000000000000000.1"),
        ),
        ("return type(os.time()) .. os.date('!%Y-%m-%d', 0) .. os.date('!*t', 0).year", json!("number1970-01-011970")),
        ("return os.time() .. os.date(' %Y-%m-%d %Z')", json!("0 1970-01-01 UTC")),
        (
            "return ('AbC'):lower() .. string.upper('x') .. ('abc'):sub(-2) .. ('abc'):reverse() .. ('abc'):len()",
            json!("abcXbccba3"),
        ),
        ("return {('abc'):byte(1, -1)}", json!([97, 98, 99])),
        ("return string.char(72, 105)", json!("Hi")),
        ("return {string.find('hello', 'l+')}", json!([3, 4])),
        ("return {string.find('a.b', '.', 1, true)}", json!([2, 2])),
        ("return {('k=v'):match('(%w+)=(%w+)')}", json!(["k", "v"])),
        (
            "local t = {} for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do t[k] = v end return t",
            json!({"a": "1", "b": "2"}),
        ),
        ("local t = {} for w in ('x y'):gfind('%a') do t[#t + 1] = w end return t", json!(["x", "y"])),
        ("local t = {} for i = 1, 100 do t[i] = i end return select('#', pcall(unpack, t))", json!(101)),
        ("return {pcall(function(...) return ... end, 1, 2)}", json!([true, 1, 2])),
        ("local ok, e = pcall(error, 'oops') return {ok, e}", json!([false, "oops"])),
        (
            "local ok, e = pcall(string.find, nil) return e:match('bad.*')",
            json!("bad argument #1 to find (string expected, got nil)"),
        ),
        ("return select(2, xpcall(function() error('x', 0) end, function(e) return e .. '!' end))", json!("x!")),
        ("return _VERSION .. type(_G) .. type(package.loaded.string) .. #package.loaders", json!("Lua 5.1tabletable1")),
        ("package.preload.mine = function() return {v = 5} end return require('mine').v", json!(5)),
        ("x = 1 return _G.x", json!(1)),
    ];
    for (body, expected) in cases {
        assert_eq!(eval(body), Ok(expected), "{body}");
    }
    for name in ["io", "debug", "coroutine", "channel", "jit", "os.execute", "os.getenv", "os.remove", "table.foreach"]
    {
        assert_eq!(eval(&format!("return {name} == nil")), Ok(json!(true)), "{name}");
    }
}

#[test]
fn sandbox_escapes_are_rejected_with_a_message() {
    for name in [
        "collectgarbage",
        "dofile",
        "getfenv",
        "getmetatable",
        "load",
        "loadfile",
        "loadstring",
        "rawequal",
        "rawget",
        "rawset",
        "setfenv",
        "setmetatable",
        "module",
        "newproxy",
    ] {
        let expected = format!("call function {name} is not supported in karmada customized resourceinterpreter.");
        assert!(error_of(&format!("return {name}()")).ends_with(&expected), "{name}");
    }
    for name in ["gsub", "rep", "dump"] {
        let expected = format!("The Lua function string.{name} is not supported by Karmada.");
        assert!(error_of(&format!("return string.{name}('a', 3)")).contains(&expected), "{name}");
        assert!(error_of(&format!("return ('a'):{name}(3)")).contains(&expected), "{name}");
    }
    assert!(error_of("package.loadlib()").ends_with("loadlib is not supported"));
    assert!(error_of("require('socket')").contains("module socket not found:"));
    assert!(error_of("return 1 + nil").starts_with("script:1: attempt to perform arithmetic on a nil value"));
    let long = "local s = 'xxxxxxxxxx' for i = 1, 17 do s = s .. s end return s:upper()";
    assert!(error_of(long).contains("exceeds the maximum allowed input string length 1000000"));
}

#[test]
fn the_kube_library_has_quantities_and_pods() {
    let pod = "{spec = {serviceAccountName = 'sa', containers = {{resources = {requests = {cpu = '1', memory = '1Gi'}}}}, \
        volumes = {{secret = {secretName = 's'}}}}}";
    let cases = [
        ("return kube.resourceAdd('100m', nil, '1.9')".to_owned(), json!("2")),
        ("return kube.resourceAdd('1Gi', '512Mi')".to_owned(), json!("1536Mi")),
        ("return kube.resourceAdd()".to_owned(), json!("0")),
        ("return kube.getResourceQuantity('1500m')".to_owned(), json!(1.5)),
        ("return kube.getResourceQuantity('1Ki')".to_owned(), json!(1024)),
        (
            format!("return kube.accuratePodRequirements({pod})"),
            json!({"resourceRequest": {"cpu": "1", "memory": "1Gi"}}),
        ),
        ("return kube.accuratePodRequirements({spec = {}}) == nil".to_owned(), json!(true)),
        (
            format!("return kube.getPodDependencies({pod}, nil)"),
            json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "default", "name": "s"},
                {"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "default", "name": "sa"}]),
        ),
        (format!("return kube.getPodDependencies({pod}, 'ns')[1].namespace"), json!("ns")),
    ];
    for (body, expected) in cases {
        assert_eq!(eval(&format!("local kube = require('kube') {body}")), Ok(expected), "{body}");
    }
    for (body, expected) in [
        ("kube.resourceAdd(1)", "bad argument #1 to resourceAdd (string expected, got"),
        ("kube.resourceAdd('x')", "cannot parse 'x': quantities must match"),
        ("kube.getResourceQuantity('-1')", "negative value"),
        ("kube.getResourceQuantity()", "getResourceQuantity only accepts one argument"),
        ("kube.accuratePodRequirements()", "getPodRequirements only accepts one argument"),
        (
            "kube.accuratePodRequirements('x')",
            "bad argument #1 to accuratePodRequirements (table expected, got string)",
        ),
        ("kube.getPodDependencies({})", "getPodDependencies only accepts two argument"),
        ("kube.getPodDependencies({}, {})", "bad argument #2 to getPodDependencies (string expected, got table)"),
    ] {
        let error = error_of(&format!("local kube = require('kube') {body}"));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_script_that_does_not_end_is_ended() {
    let over = "script stopped: it ran longer than 1000 ms";
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return xpcall(f, f) end while true do f() end",
        "local s = 'aaaaaaaaaa' for i = 1, 9 do s = s .. s end return s:find('.-.-.-.-.-.-b')",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function(a, b) return a < b end) end",
        "local t = {} for i = 1, 1e9 do table.insert(t, 1, i) end",
        "while true do ReflectStatus = nil string.format('%d', 3) end",
    ] {
        let began = Instant::now();
        assert_eq!(error_of(body), over, "{body}");
        assert!(began.elapsed() < Duration::from_secs(10), "{body} took {:?}", began.elapsed());
    }
}

#[test]
fn a_script_with_unbounded_memory_is_stopped() {
    for body in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = 'text' .. i end",
        "local s = 'x' for i = 1, 19 do s = s .. s end local t = {} for i = 1, 1e3 do t[i] = s end return table.concat(t)",
        "return string.format('%s%s', string.format('%900s', 'a'), string.format('%9999999999s', 'b'))",
    ] {
        let error = error_of(body);
        // On a busy machine the time limit may be reached before the memory limit.
        let clear = ["needs more than 64 MiB of memory", "wider than 1000", "ran longer than 1000 ms"];
        let is_clear = clear.iter().any(|text| error.contains(text));
        assert!(is_clear, "{body}: {error}");
    }
    assert!(error_of("local function f() return 1 + f() end return f()").contains("stack overflow"));
    assert!(error_of("local t = {} for i = 1, 1e4 do t = {t} end return t").contains("nested deeper than 100"));
    assert!(error_of("local t = {1} for i = 1, 40 do t = {t, t} end return t").contains("recursively nested"));
    assert!(
        error_of("local t = {} for i = 1, 1e5 do t[i] = i end return unpack(t)").contains("too many results to unpack")
    );
}

#[test]
fn concurrent_calls_share_a_bounded_pool() {
    let vm = Arc::new(vm());
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let vm = Arc::clone(&vm);
            std::thread::spawn(move || (0..20).all(|_| eval_with(&vm, "return observed.spec.n") == Ok(json!(3))))
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().expect("no panic")));
    let kept = vm.idle.lock().len();
    assert!((1..=STATES_IDLE_MAX).contains(&kept), "{kept}");
}
