//! Rows of networking kinds: Service, Endpoints, EndpointSlice, Ingress, NetworkPolicy, address ranges.

use std::collections::BTreeSet;

use jiff::Timestamp;
use object::{GroupResource, Object};
use serde_json::Value;

use super::cells::{age_of, first_three, items_of, labels, optional_text, selector, str_of, text_or};
use super::{AGE, NAME, PrinterTable, SELECTOR, text};

pub(super) fn core_table(kind: &str) -> Option<PrinterTable> {
    match kind {
        "Service" => Some(SERVICE),
        "Endpoints" => Some(ENDPOINTS),
        _ => None,
    }
}

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "Ingress" => INGRESS,
        "IngressClass" => INGRESS_CLASS,
        "NetworkPolicy" => NETWORK_POLICY,
        "IPAddress" => IP_ADDRESS,
        "ServiceCIDR" => SERVICE_CIDR,
        "EndpointSlice" => ENDPOINT_SLICE,
        _ => return None,
    })
}

const SERVICE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Type", "How the service is reached."),
        text("Cluster-IP", "The address of the service inside the cluster."),
        text("External-IP", "The addresses of the service outside the cluster."),
        text("Port(s)", "The ports of the service."),
        AGE,
        SELECTOR,
    ],
    service_row,
);

fn service_row(service: &Object, now: Timestamp) -> Vec<Value> {
    let cluster_ip = service.items(&["spec", "clusterIPs"]).first().and_then(Value::as_str).unwrap_or("<none>");
    let ports: Vec<String> = service.items(&["spec", "ports"]).iter().map(port).collect();
    vec![
        service.name().into(),
        service.str_at(&["spec", "type"]).into(),
        cluster_ip.into(),
        external_ip(service).into(),
        text_or(&ports.join(","), "<none>").into(),
        age_of(service, now),
        labels(service.get(&["spec", "selector"])).into(),
    ]
}

fn port(port: &Value) -> String {
    let (number, protocol) = (port["port"].as_i64().unwrap_or(0), str_of(port, "protocol"));
    match port["nodePort"].as_i64() {
        Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(service: &Object) -> String {
    let own = service.items(&["spec", "externalIPs"]).iter().filter_map(Value::as_str).map(str::to_owned);
    match service.str_at(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => text_or(&own.collect::<Vec<_>>().join(","), "<none>"),
        "LoadBalancer" => {
            let balancer = load_balancer_addresses(service);
            let all: Vec<String> = balancer.into_iter().chain(own).collect();
            text_or(&all.join(","), "<pending>")
        }
        "ExternalName" => service.str_at(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of the load balancer, sorted and deduplicated.
fn load_balancer_addresses(object: &Object) -> Vec<String> {
    let ingress = object.items(&["status", "loadBalancer", "ingress"]).iter();
    let addresses = ingress.map(|entry| match str_of(entry, "ip") {
        "" => str_of(entry, "hostname"),
        ip => ip,
    });
    let addresses: BTreeSet<&str> = addresses.filter(|a| !a.is_empty()).collect();
    addresses.into_iter().map(str::to_owned).collect()
}

const ENDPOINTS: PrinterTable = PrinterTable::new(
    &[NAME, text("Endpoints", "The addresses and ports traffic is sent to."), AGE],
    |endpoints, now| {
        let subsets = endpoints.items(&["subsets"]);
        let addresses: Vec<String> = subsets.iter().flat_map(subset_addresses).collect();
        let shown = if subsets.is_empty() { "<none>".to_owned() } else { first_three(&addresses, "") };
        vec![endpoints.name().into(), shown.into(), age_of(endpoints, now)]
    },
);

fn subset_addresses(subset: &Value) -> Vec<String> {
    let addresses = || items_of(subset, "addresses").iter().map(|address| str_of(address, "ip"));
    let ports = items_of(subset, "ports");
    if ports.is_empty() {
        return addresses().map(str::to_owned).collect();
    }
    let with_port = |port: &Value| {
        let port = port["port"].as_i64().unwrap_or(0);
        addresses().map(move |ip| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") })
    };
    ports.iter().flat_map(with_port).collect()
}

const ENDPOINT_SLICE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("AddressType", "What kind of address the slice holds."),
        text("Ports", "The ports every endpoint of the slice listens on."),
        text("Endpoints", "The addresses traffic is sent to."),
        AGE,
    ],
    |slice, now| {
        let ports: Vec<String> = slice.items(&["ports"]).iter().map(slice_port).collect();
        let endpoints = slice.items(&["endpoints"]).iter().flat_map(|e| items_of(e, "addresses"));
        let addresses: Vec<String> = endpoints.filter_map(Value::as_str).map(str::to_owned).collect();
        vec![
            slice.name().into(),
            slice.str_at(&["addressType"]).into(),
            first_three(&ports, "<unset>").into(),
            first_three(&addresses, "<unset>").into(),
            age_of(slice, now),
        ]
    },
);

fn slice_port(port: &Value) -> String {
    match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

const INGRESS: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Class", "The class of controller that serves the ingress."),
        text("Hosts", "The host names it answers to."),
        text("Address", "Where it is reached."),
        text("Ports", "The ports it is reached on."),
        AGE,
    ],
    |ingress, now| {
        let ports = if ingress.items(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
        vec![
            ingress.name().into(),
            optional_text(ingress, &["spec", "ingressClassName"], "<none>"),
            hosts(ingress.items(&["spec", "rules"])).into(),
            load_balancer_addresses(ingress).join(",").into(),
            ports.into(),
            age_of(ingress, now),
        ]
    },
);

/// The first three hosts. As in Kubernetes, rules without a host count as "more" once three are shown.
fn hosts(rules: &[Value]) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == 3;
        let host = str_of(rule, "host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (_, true) => format!("{} + {} more...", shown.join(","), rules.len() - 3),
        (_, false) => shown.join(","),
    }
}

const INGRESS_CLASS: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Controller", "Who serves ingresses of this class."),
        text("Parameters", "An object with more settings."),
        AGE,
    ],
    |class, now| {
        let default = class.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
        let name = format!("{}{}", class.name(), if default { " (default)" } else { "" });
        let parameters = match class.get(&["spec", "parameters"]).filter(|p| p.is_object()) {
            None => "<none>".to_owned(),
            Some(parameters) => {
                let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
                format!("{}{group}/{}", str_of(parameters, "kind"), str_of(parameters, "name"))
            }
        };
        vec![name.into(), class.str_at(&["spec", "controller"]).into(), parameters.into(), age_of(class, now)]
    },
);

const NETWORK_POLICY: PrinterTable =
    PrinterTable::new(&[NAME, text("Pod-Selector", "The pods the policy applies to."), AGE], |policy, now| {
        vec![policy.name().into(), selector(policy.get(&["spec", "podSelector"])).into(), age_of(policy, now)]
    });

/// The age is a cell without a column, as in kube-apiserver; clients ignore it.
const IP_ADDRESS: PrinterTable =
    PrinterTable::new(&[NAME, text("ParentRef", "The object the address belongs to.")], |address, now| {
        let parent = match address.get(&["spec", "parentRef"]).filter(|p| p.is_object()) {
            None => "<none>".to_owned(),
            Some(parent) => {
                let resource = GroupResource::new(str_of(parent, "group"), str_of(parent, "resource"));
                let namespace = match str_of(parent, "namespace") {
                    "" => String::new(),
                    namespace => format!("/{namespace}"),
                };
                format!("{}{namespace}/{}", resource.to_string().to_lowercase(), str_of(parent, "name"))
            }
        };
        vec![address.name().into(), parent.into(), age_of(address, now)]
    });

const SERVICE_CIDR: PrinterTable =
    PrinterTable::new(&[NAME, text("CIDRs", "The ranges service addresses are taken from."), AGE], |cidr, now| {
        let cidrs: Vec<&str> = cidr.items(&["spec", "cidrs"]).iter().filter_map(Value::as_str).collect();
        vec![cidr.name().into(), cidrs.join(",").into(), age_of(cidr, now)]
    });
