//! Containers, volumes and tolerations of pods and pod templates, as kubectl describes them.

use std::fmt::Write;

use object::Object;
use serde_json::Value;

use super::several;
use super::text::{annotations, format_selector, labels, line, or_none, scalar, time};

/// Writes the template of a workload.
pub fn write_template(text: &mut String, template: &Value) {
    text.push_str("Pod Template:\n");
    labels(text, "  Labels", template["metadata"].get("labels"));
    if template["metadata"]["annotations"].as_object().is_some_and(|map| !map.is_empty()) {
        annotations(text, "  Annotations", template["metadata"].get("annotations"));
    }
    let spec = &template["spec"];
    if let Some(account) = spec["serviceAccountName"].as_str().filter(|name| !name.is_empty()) {
        line(text, "  Service Account", account);
    }
    if !items(spec, "initContainers").is_empty() {
        write_containers(text, "  Init Containers", items(spec, "initContainers"), &[], None);
    }
    write_containers(text, "  Containers", items(spec, "containers"), &[], None);
    write_volumes(text, "  ", items(spec, "volumes"));
    write_spread(text, "  ", items(spec, "topologySpreadConstraints"));
    if let Some(class) = spec["priorityClassName"].as_str().filter(|name| !name.is_empty()) {
        line(text, "  Priority Class Name", class);
    }
    labels(text, "  Node-Selectors", spec.get("nodeSelector"));
    write_tolerations(text, "  Tolerations", items(spec, "tolerations"));
}

pub fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Writes containers with their status, if they run. `pod` resolves references to its fields.
pub fn write_containers(
    text: &mut String,
    title: &str,
    containers: &[Value],
    statuses: &[Value],
    pod: Option<&Object>,
) {
    let none = if containers.is_empty() { " <none>" } else { "" };
    let _ = writeln!(text, "{title}:{none}");
    let indent = if title.starts_with(' ') { "   " } else { "  " };
    for container in containers {
        let status = statuses.iter().find(|status| status["name"] == container["name"]);
        let _ = writeln!(text, "{indent}{}:", scalar(&container["name"]));
        write_image(text, container, status);
        write_command(text, container);
        if let Some(status) = status {
            write_state(text, "State", &status["state"]);
            if status["lastState"]["terminated"].is_object() {
                write_state(text, "Last State", &status["lastState"]);
            }
            let ready = if status["ready"] == true { "True" } else { "False" };
            let _ = writeln!(
                text,
                "    Ready:\t{ready}\n    Restart Count:\t{}",
                status["restartCount"].as_i64().unwrap_or(0)
            );
        }
        write_resources(text, &container["resources"]);
        for (title, field) in
            [("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe")]
        {
            if container[field].is_object() {
                let _ = writeln!(text, "    {title}:\t{}", probe(&container[field]));
            }
        }
        write_environment(text, container, pod);
        write_mounts(text, container);
    }
}

fn write_image(text: &mut String, container: &Value, status: Option<&Value>) {
    if let Some(status) = status {
        let _ = writeln!(text, "    Container ID:\t{}", scalar(&status["containerID"]));
    }
    let _ = writeln!(text, "    Image:\t{}", scalar(&container["image"]));
    if let Some(status) = status {
        let _ = writeln!(text, "    Image ID:\t{}", scalar(&status["imageID"]));
    }
    for (title, field) in [("Port", "containerPort"), ("Host Port", "hostPort")] {
        let ports: Vec<String> = items(container, "ports").iter().map(|port| port_text(port, field)).collect();
        let plural = if ports.len() > 1 { "s" } else { "" };
        let _ = writeln!(text, "    {title}{plural}:\t{}", or_none(&ports.join(", ")));
    }
    let seccomp = &container["securityContext"]["seccompProfile"];
    if seccomp.is_object() {
        let _ = writeln!(text, "    SeccompProfile:\t{}", scalar(&seccomp["type"]));
    }
}

fn port_text(port: &Value, field: &str) -> String {
    let number = port[field].as_i64().unwrap_or(0);
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    match port["name"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => format!("{number}/{protocol} ({name})"),
        None => format!("{number}/{protocol}"),
    }
}

fn write_command(text: &mut String, container: &Value) {
    for (title, field) in [("Command", "command"), ("Args", "args")] {
        let words = items(container, field);
        if words.is_empty() {
            continue;
        }
        let _ = writeln!(text, "    {title}:");
        for word in words.iter().flat_map(|word| word.as_str().unwrap_or_default().split('\n')) {
            let _ = writeln!(text, "      {word}");
        }
    }
}

fn write_state(text: &mut String, title: &str, state: &Value) {
    let (running, ended) = (&state["running"], &state["terminated"]);
    if running.is_object() {
        let started = time(&scalar(&running["startedAt"]));
        let _ = writeln!(text, "    {title}:\tRunning\n      Started:\t{started}");
        return;
    }
    if !ended.is_object() {
        let _ = writeln!(text, "    {title}:\tWaiting");
        if let Some(reason) = state["waiting"]["reason"].as_str().filter(|reason| !reason.is_empty()) {
            let _ = writeln!(text, "      Reason:\t{reason}");
        }
        return;
    }
    let _ = writeln!(text, "    {title}:\tTerminated");
    for (title, field) in [("Reason", "reason"), ("Message", "message")] {
        if let Some(value) = ended[field].as_str().filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "      {title}:\t{value}");
        }
    }
    let _ = writeln!(text, "      Exit Code:\t{}", ended["exitCode"].as_i64().unwrap_or(0));
    if let Some(signal) = ended["signal"].as_i64().filter(|signal| *signal > 0) {
        let _ = writeln!(text, "      Signal:\t{signal}");
    }
    for (title, field) in [("Started", "startedAt"), ("Finished", "finishedAt")] {
        let _ = writeln!(text, "      {title}:\t{}", time(&scalar(&ended[field])));
    }
}

fn write_resources(text: &mut String, resources: &Value) {
    for (title, field) in [("Limits", "limits"), ("Requests", "requests")] {
        let Some(map) = resources[field].as_object().filter(|map| !map.is_empty()) else { continue };
        let _ = writeln!(text, "    {title}:");
        let mut names: Vec<&String> = map.keys().collect();
        names.sort();
        for name in names {
            let _ = writeln!(text, "      {name}:\t{}", scalar(&map[name]));
        }
    }
}

fn probe(probe: &Value) -> String {
    let number = |field: &str| probe[field].as_i64().unwrap_or(0);
    let times = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds"),
        number("timeoutSeconds"),
        number("periodSeconds"),
        number("successThreshold"),
        number("failureThreshold")
    );
    let (http, tcp, grpc) = (&probe["httpGet"], &probe["tcpSocket"], &probe["grpc"]);
    let what = if probe["exec"].is_object() {
        let words: Vec<String> = items(&probe["exec"], "command").iter().map(scalar).collect();
        format!("exec [{}]", words.join(" "))
    } else if http.is_object() {
        let scheme = http["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        format!("http-get {scheme}://{}:{}{}", scalar(&http["host"]), scalar(&http["port"]), scalar(&http["path"]))
    } else if tcp.is_object() {
        format!("tcp-socket {}:{}", scalar(&tcp["host"]), scalar(&tcp["port"]))
    } else if grpc.is_object() {
        format!("grpc <pod>:{} {}", scalar(&grpc["port"]), scalar(&grpc["service"]))
    } else {
        "unknown".to_owned()
    };
    format!("{what} {times}")
}

fn write_environment(text: &mut String, container: &Value, pod: Option<&Object>) {
    let sources = items(container, "envFrom");
    if !sources.is_empty() {
        text.push_str("    Environment Variables from:\n");
    }
    for source in sources {
        let (from, reference) = match source["configMapRef"].is_object() {
            true => ("ConfigMap", &source["configMapRef"]),
            false => ("Secret", &source["secretRef"]),
        };
        let prefix = source["prefix"].as_str().filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map(|prefix| format!(" with prefix '{prefix}'")).unwrap_or_default();
        let optional = reference["optional"] == true;
        let _ = writeln!(text, "      {}\t{from}{prefix}\tOptional: {optional}", scalar(&reference["name"]));
    }
    let variables = items(container, "env");
    text.push_str(if variables.is_empty() { "    Environment:\t<none>\n" } else { "    Environment:\n" });
    for variable in variables {
        let name = scalar(&variable["name"]);
        let from = &variable["valueFrom"];
        let (field, resource) = (&from["fieldRef"], &from["resourceFieldRef"]);
        let (secret, config) = (&from["secretKeyRef"], &from["configMapKeyRef"]);
        let value = if field.is_object() {
            let path = scalar(&field["fieldPath"]);
            let value = pod.map(|pod| field_of(pod, &path)).unwrap_or_default();
            format!("{value} ({}:{path})", field["apiVersion"].as_str().unwrap_or("v1"))
        } else if resource.is_object() {
            resource_of(container, &scalar(&resource["resource"]))
        } else if secret.is_object() {
            let optional = secret["optional"] == true;
            format!(
                "<set to the key '{}' in secret '{}'>\tOptional: {optional}",
                scalar(&secret["key"]),
                scalar(&secret["name"])
            )
        } else if config.is_object() {
            let optional = config["optional"] == true;
            format!(
                "<set to the key '{}' of config map '{}'>\tOptional: {optional}",
                scalar(&config["key"]),
                scalar(&config["name"])
            )
        } else {
            scalar(&variable["value"]).replace('\n', "\n      \t")
        };
        let _ = writeln!(text, "      {name}:\t{value}");
    }
}

/// The value of a field of the pod, such as `metadata.name` or `metadata.labels['app']`.
fn field_of(pod: &Object, path: &str) -> String {
    if let Some((map, key)) = path.split_once("['") {
        let key = key.trim_end_matches("']");
        let map: Vec<&str> = map.split('.').collect();
        return pod.get(&map).map(|map| scalar(&map[key])).unwrap_or_default();
    }
    let path: Vec<&str> = path.split('.').collect();
    pod.get(&path).map(scalar).unwrap_or_default()
}

/// The value of a resource of the container, such as `limits.cpu`.
fn resource_of(container: &Value, name: &str) -> String {
    let (kind, resource) = name.split_once('.').unwrap_or((name, ""));
    let quantity = container["resources"][kind][resource].as_str().unwrap_or("0");
    let value = object::quantity::Quantity::parse(quantity).map_or(0, |quantity| quantity.value());
    match (value, name) {
        (0, "limits.cpu" | "limits.memory") => format!("node allocatable ({name})"),
        _ => format!("{value} ({name})"),
    }
}

fn write_mounts(text: &mut String, container: &Value) {
    let mut mounts: Vec<&Value> = items(container, "volumeMounts").iter().collect();
    text.push_str(if mounts.is_empty() { "    Mounts:\t<none>\n" } else { "    Mounts:\n" });
    mounts.sort_by_key(|mount| scalar(&mount["mountPath"]));
    for mount in mounts {
        let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
        let path = mount["subPath"].as_str().filter(|path| !path.is_empty());
        let path = path.map(|path| format!(",path={path:?}")).unwrap_or_default();
        let _ = writeln!(text, "      {} from {} ({mode}{path})", scalar(&mount["mountPath"]), scalar(&mount["name"]));
    }
}

/// Writes volumes; `space` is the indent of the title.
pub fn write_volumes(text: &mut String, space: &str, volumes: &[Value]) {
    if volumes.is_empty() {
        let _ = writeln!(text, "{space}Volumes:\t<none>");
        return;
    }
    let _ = writeln!(text, "{space}Volumes:");
    let indent = if space.is_empty() { "  " } else { "   " };
    for volume in volumes {
        let _ = writeln!(text, "{indent}{}:", scalar(&volume["name"]));
        for (title, value) in volume_lines(volume) {
            let _ = writeln!(text, "    {title}:\t{value}");
        }
    }
}

fn volume_lines(volume: &Value) -> Vec<(&'static str, String)> {
    let kinds = volume.as_object().into_iter().flatten().find(|(key, _)| *key != "name");
    let Some((kind, source)) = kinds else {
        return vec![("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)".into())];
    };
    let text = |field: &str| scalar(&source[field]);
    let optional = |source: &Value| (source["optional"] == true).to_string();
    match kind.as_str() {
        "hostPath" => vec![
            ("Type", "HostPath (bare host directory volume)".into()),
            ("Path", text("path")),
            ("HostPathType", source["type"].as_str().map_or("<none>".into(), str::to_owned)),
        ],
        "emptyDir" => vec![
            ("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)".into()),
            ("Medium", text("medium")),
            ("SizeLimit", source["sizeLimit"].as_str().map_or("<unset>".into(), str::to_owned)),
        ],
        "secret" => vec![
            ("Type", "Secret (a volume populated by a Secret)".into()),
            ("SecretName", text("secretName")),
            ("Optional", optional(source)),
        ],
        "configMap" => vec![
            ("Type", "ConfigMap (a volume populated by a ConfigMap)".into()),
            ("Name", text("name")),
            ("Optional", optional(source)),
        ],
        "persistentVolumeClaim" => vec![
            ("Type", "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)".into()),
            ("ClaimName", text("claimName")),
            ("ReadOnly", (source["readOnly"] == true).to_string()),
        ],
        "projected" => {
            let head = "Projected (a volume that contains injected data from multiple sources)";
            let mut lines: Vec<(&'static str, String)> = vec![("Type", head.into())];
            for part in items(source, "sources") {
                let (secret, config) = (&part["secret"], &part["configMap"]);
                if secret.is_object() {
                    lines.extend([("SecretName", scalar(&secret["name"])), ("Optional", optional(secret))]);
                } else if part["downwardAPI"].is_object() {
                    lines.push(("DownwardAPI", "true".into()));
                } else if config.is_object() {
                    lines.extend([("ConfigMapName", scalar(&config["name"])), ("Optional", optional(config))]);
                } else if part["serviceAccountToken"].is_object() {
                    let seconds = scalar(&part["serviceAccountToken"]["expirationSeconds"]);
                    lines.push(("TokenExpirationSeconds", seconds));
                }
            }
            lines
        }
        other => vec![("Type", other.to_owned())],
    }
}

pub fn write_spread(text: &mut String, space: &str, constraints: &[Value]) {
    if constraints.is_empty() {
        return;
    }
    let mut lines: Vec<String> = constraints
        .iter()
        .map(|constraint| {
            let selector = constraint.get("labelSelector").filter(|selector| selector.is_object());
            let selector = selector.map(|selector| format!(" for selector {}", format_selector(Some(selector))));
            format!(
                "{}:{} when max skew {} is exceeded{}\n",
                scalar(&constraint["topologyKey"]),
                scalar(&constraint["whenUnsatisfiable"]),
                scalar(&constraint["maxSkew"]),
                selector.unwrap_or_default()
            )
        })
        .collect();
    lines.sort();
    several(text, &format!("{space}Topology Spread Constraints"), lines);
}

pub fn write_tolerations(text: &mut String, title: &str, tolerations: &[Value]) {
    let mut sorted: Vec<&Value> = tolerations.iter().collect();
    sorted.sort_by_key(|toleration| scalar(&toleration["key"]));
    let lines = sorted.into_iter().map(|toleration| {
        let (key, value, effect) =
            (scalar(&toleration["key"]), scalar(&toleration["value"]), scalar(&toleration["effect"]));
        let mut line = key.clone();
        if !value.is_empty() {
            line += &format!("={value}");
        }
        if !effect.is_empty() {
            line += &format!(":{effect}");
        }
        if toleration["operator"] == "Exists" && value.is_empty() {
            line += if key.is_empty() && effect.is_empty() { "op=Exists" } else { " op=Exists" };
        }
        if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
            line += &format!(" for {seconds}s");
        }
        line
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        let _ = writeln!(text, "{title}:\t<none>");
    }
    for (index, line) in lines.iter().enumerate() {
        let title = if index == 0 { format!("{title}:") } else { title.chars().take_while(|c| *c == ' ').collect() };
        let _ = writeln!(text, "{title}\t{line}");
    }
}
