//! Serves Services inside every pod's network: their cluster IPs and DNS names.
//!
//! The whole Service CIDR is local to each pod's network; this process listens there and connects to the backends
//! from the host. So several members on one machine may use the same CIDR, and no packet filter rules are needed.
//! Ports that the pod itself listens on are left to it: a server that listens on all addresses could not start otherwise.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener, UdpSocket as StdSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster_client::ClusterClient;
use object::Object;
use object::builtin;
use reconcile::{Index, Mirror, MirrorSpec, ObjectKey};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::netns::{own_range, within};
use crate::pod::{containers, list, number, text};
use crate::services::names::{ClusterDnsName, DnsAnswer, DnsQuestion, place};

/// The DNS address for pods: link-local, so valid in each network separately.
pub(crate) const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 20, 10);
/// Maximum number of Service ports served in one pod.
const LISTENERS_MAX: usize = 500;
const RESOLVER_TIMEOUT: Duration = Duration::from_secs(3);
const PACKET_BYTES_MAX: usize = 4096;

/// The known Services, shared by all pods of a node.
pub(crate) struct Services {
    services: Mirror,
    slices: Index<ObjectKey>,
    network: ServiceNetwork,
    turn: AtomicUsize,
}

/// The network settings of Services.
#[derive(Clone, Debug)]
pub(crate) struct ServiceNetwork {
    pub range: (Ipv4Addr, u8),
    pub domain: String,
    /// The machine's own resolvers.
    pub resolvers: Vec<IpAddr>,
    /// The backend of the Service `kubernetes` if its slices have none.
    pub api: Option<SocketAddr>,
}

/// A Service's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ServicePort {
    address: Ipv4Addr,
    port: u16,
}

/// The target of a Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServiceBackend {
    key: ObjectKey,
    port_name: String,
}

fn by_service(slice: &Object) -> Vec<ObjectKey> {
    let service = slice.label("kubernetes.io/service-name");
    service.map(|service| ObjectKey::new(slice.namespace(), service)).into_iter().collect()
}

/// Parses `10.0.0.0/16`.
pub(crate) fn parse_range(range: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = range.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok().filter(|prefix| *prefix <= 32)?))
}

impl Services {
    pub fn start(client: &ClusterClient, network: ServiceNetwork, cancel: &CancellationToken) -> Self {
        let slices = MirrorSpec::new(&builtin::endpoint_slices());
        Self {
            services: Mirror::start(client.clone(), MirrorSpec::new(&builtin::services()), cancel.clone()),
            slices: Mirror::start(client.clone(), slices, cancel.clone()).index(by_service),
            network,
            turn: AtomicUsize::new(0),
        }
    }

    /// Serves one pod, identified by a process in its network, until cancelled. Returns once DNS is answered.
    pub async fn serve(
        self: &Arc<Self>,
        pid: u64,
        own_ports: BTreeSet<u16>,
        cancel: CancellationToken,
    ) -> io::Result<()> {
        let range = self.network.range;
        let prepare = move || {
            own_range(range.0, range.1)?;
            own_range(DNS_ADDRESS, 32)?;
            let socket = StdSocket::bind((DNS_ADDRESS, 53))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = blocking(move || within(pid, prepare)).await?;
        let socket = UdpSocket::from_std(socket)?;
        let services = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = services.answer_names(socket) => {}
                () = services.keep_fronts(pid, &own_ports) => {}
            }
        });
        Ok(())
    }

    /// Listens on all Services as they come and go.
    async fn keep_fronts(self: &Arc<Self>, pid: u64, own_ports: &BTreeSet<u16>) {
        self.services.synced().await;
        let mut changes = self.services.subscribe();
        let mut open: BTreeMap<ServicePort, (ServiceBackend, DropGuard)> = BTreeMap::new();
        while changes.next().await.is_some() {
            let wanted = fronts(&self.services.list(), own_ports);
            open.retain(|front, (behind, _)| wanted.get(front) == Some(behind));
            for (front, behind) in wanted.into_iter().take(LISTENERS_MAX) {
                if open.contains_key(&front) {
                    continue;
                }
                match self.open(pid, &front, &behind).await {
                    Ok(guard) => drop(open.insert(front, (behind, guard))),
                    Err(error) => tracing::debug!(service = %behind.key, %error, "failed to serve a Service in a pod"),
                }
            }
        }
    }

    async fn open(self: &Arc<Self>, pid: u64, front: &ServicePort, behind: &ServiceBackend) -> io::Result<DropGuard> {
        let address = SocketAddr::from((front.address, front.port));
        let listen = move || {
            let listener = StdListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = TcpListener::from_std(blocking(move || within(pid, listen)).await?)?;
        let cancel = CancellationToken::new();
        let (services, behind, cancelled) = (Arc::clone(self), behind.clone(), cancel.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = services.accept(listener, behind) => {}
            }
        });
        Ok(cancel.drop_guard())
    }

    async fn accept(&self, listener: TcpListener, behind: ServiceBackend) {
        let mut connections = JoinSet::new();
        while let Ok((mut caller, _)) = listener.accept().await {
            let targets = self.targets(&behind);
            if targets.is_empty() {
                continue;
            }
            let target = targets[self.turn.fetch_add(1, Ordering::Relaxed) % targets.len()];
            connections.spawn(async move {
                if let Ok(mut pod) = TcpStream::connect(target).await {
                    let _ = tokio::io::copy_bidirectional(&mut caller, &mut pod).await;
                }
            });
            while connections.try_join_next().is_some() {}
        }
    }

    fn targets(&self, behind: &ServiceBackend) -> Vec<SocketAddr> {
        let slices = self.slices.list(&behind.key);
        let mut targets = Vec::new();
        for slice in &slices {
            let port = slice.items(&["ports"]).iter().find(|port| text(port, "name") == behind.port_name);
            let Some(port) = port.and_then(|port| number(port, "port")).and_then(|n| u16::try_from(n).ok()) else {
                continue;
            };
            targets.extend(ready_addresses(slice, "").into_iter().map(|address| SocketAddr::from((address, port))));
        }
        if targets.is_empty() && behind.key == ObjectKey::new("default", "kubernetes") {
            targets.extend(self.network.api);
        }
        targets
    }

    async fn answer_names(self: &Arc<Self>, socket: UdpSocket) {
        let socket = Arc::new(socket);
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        let mut asked = JoinSet::new();
        while let Ok((length, caller)) = socket.recv_from(&mut buffer).await {
            let packet = buffer[..length].to_vec();
            let (services, socket) = (Arc::clone(self), Arc::clone(&socket));
            asked.spawn(async move {
                if let Some(answer) = services.answer(&packet).await {
                    let _ = socket.send_to(&answer, caller).await;
                }
            });
            while asked.try_join_next().is_some() {}
        }
    }

    async fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let question = DnsQuestion::parse(packet)?;
        match self.look_up(&question.name) {
            DnsAnswer::Elsewhere => match self.ask_machine(packet).await {
                Some(answer) => Some(answer),
                None => Some(question.answer(packet, &DnsAnswer::Elsewhere)),
            },
            known => Some(question.answer(packet, &known)),
        }
    }

    async fn ask_machine(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let resolver = self.network.resolvers.first()?;
        let ask = async {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.ok()?;
            socket.connect((*resolver, 53)).await.ok()?;
            socket.send(packet).await.ok()?;
            let mut buffer = vec![0; PACKET_BYTES_MAX];
            let length = socket.recv(&mut buffer).await.ok()?;
            buffer.truncate(length);
            Some(buffer)
        };
        tokio::time::timeout(RESOLVER_TIMEOUT, ask).await.ok().flatten()
    }

    fn look_up(&self, name: &str) -> DnsAnswer {
        let Some(place) = place(name, &self.network.domain) else { return DnsAnswer::Elsewhere };
        let addresses = match place {
            ClusterDnsName::Address(address) => vec![address],
            ClusterDnsName::Unknown => Vec::new(),
            ClusterDnsName::Service { namespace, name } => {
                let key = ObjectKey::new(namespace, name);
                match self.services.get(&key).map(|service| service.str_at(&["spec", "clusterIP"]).parse()) {
                    None => Vec::new(),
                    Some(Ok(address)) => vec![address],
                    Some(Err(_)) => self.endpoints(&key, ""),
                }
            }
            ClusterDnsName::Endpoint { namespace, service, hostname } => {
                self.endpoints(&ObjectKey::new(namespace, service), hostname)
            }
        };
        if addresses.is_empty() { DnsAnswer::NoSuchName } else { DnsAnswer::Addresses(addresses) }
    }

    /// Returns the backends of a Service, or only the one with that host name.
    fn endpoints(&self, key: &ObjectKey, hostname: &str) -> Vec<Ipv4Addr> {
        let slices = self.slices.list(key);
        slices.iter().flat_map(|slice| ready_addresses(slice, hostname)).collect()
    }
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn ready_addresses(slice: &Object, hostname: &str) -> Vec<Ipv4Addr> {
    let is_ready = |endpoint: &&Value| {
        let ready = endpoint.get("conditions").and_then(|conditions| conditions.get("ready"));
        // An unknown readiness counts as ready.
        ready.is_none_or(|ready| ready != &Value::Bool(false))
    };
    let is_named = |endpoint: &&Value| hostname.is_empty() || text(endpoint, "hostname") == hostname;
    let endpoints = slice.items(&["endpoints"]).iter().filter(is_ready).filter(is_named);
    endpoints.flat_map(|endpoint| list(endpoint, "addresses")).filter_map(|a| a.as_str()?.parse().ok()).collect()
}

/// Returns the TCP ports that the containers of a pod declare.
pub(crate) fn declared_ports(pod: &Object) -> BTreeSet<u16> {
    let ports = containers(pod).into_iter().flat_map(|(_, container)| list(container, "ports"));
    let tcp = ports.filter(|port| text(port, "protocol") != "UDP");
    tcp.filter_map(|port| number(port, "containerPort").and_then(|n| u16::try_from(n).ok())).collect()
}

/// Returns the ports of Services with a cluster IP, without those of the pod itself.
fn fronts(services: &[Arc<Object>], own_ports: &BTreeSet<u16>) -> BTreeMap<ServicePort, ServiceBackend> {
    let mut fronts = BTreeMap::new();
    for service in services {
        let Ok(address) = service.str_at(&["spec", "clusterIP"]).parse::<Ipv4Addr>() else { continue };
        for port in service.items(&["spec", "ports"]).iter().filter(|port| text(port, "protocol") != "UDP") {
            let Some(number) = number(port, "port").and_then(|n| u16::try_from(n).ok()) else { continue };
            if own_ports.contains(&number) {
                continue;
            }
            let behind = ServiceBackend { key: ObjectKey::of(service), port_name: text(port, "name").to_owned() };
            fronts.insert(ServicePort { address, port: number }, behind);
        }
    }
    fronts
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn service(name: &str, address: &str) -> Object {
        object(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"clusterIP": address, "ports": [{"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP"}]}}))
    }

    async fn services() -> Services {
        let api = MemoryApi::default();
        api.seed(&builtin::services(), service("web", "10.0.0.7"));
        api.seed(&builtin::services(), service("db", "None"));
        let slice = |service: &str| {
            object(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"namespace": "shop", "name": service, "labels": {"kubernetes.io/service-name": service}},
                "ports": [{"name": "http", "port": 8080}],
                "endpoints": [{"addresses": ["10.1.0.2"], "hostname": "db-0", "conditions": {"ready": true}},
                    {"addresses": ["10.1.0.3"], "hostname": "db-1", "conditions": {"ready": false}},
                    {"addresses": ["10.1.0.4"], "hostname": "db-2"}]}))
        };
        for name in ["web", "db"] {
            api.seed(&builtin::endpoint_slices(), slice(name));
        }
        let range = parse_range("10.0.0.0/16").expect("a range");
        let network = ServiceNetwork {
            range,
            domain: "cluster.local".to_owned(),
            resolvers: Vec::new(),
            api: Some(SocketAddr::from(([127, 0, 0, 1], 5443))),
        };
        let services = Services::start(&api.client(), network, &CancellationToken::new());
        services.services.synced().await;
        services.slices.mirror().synced().await;
        services
    }

    #[test]
    fn a_pod_keeps_the_ports_it_declares() {
        let pod = crate::pod::pod_of(json!({"containers": [
            {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]},
            {"name": "b", "ports": [{"containerPort": 8080, "protocol": "TCP"}]},
        ]}));
        let own = declared_ports(&pod);
        assert_eq!(own, BTreeSet::from([80, 8080]));
        let services = [Arc::new(service("web", "10.0.0.7"))];
        assert_eq!(fronts(&services, &BTreeSet::new()).len(), 1);
        assert!(fronts(&services, &own).is_empty());
    }

    #[tokio::test]
    async fn names_resolve_to_services_and_endpoints() {
        let services = services().await;
        let ip = |text: &str| text.parse::<Ipv4Addr>().expect("an address");
        let check = |name: &str, expected: DnsAnswer| assert_eq!(services.look_up(name), expected, "{name}");
        check("web.shop.svc.cluster.local", DnsAnswer::Addresses(vec![ip("10.0.0.7")]));
        check("db.shop.svc.cluster.local", DnsAnswer::Addresses(vec![ip("10.1.0.2"), ip("10.1.0.4")]));
        check("db-0.db.shop.svc.cluster.local", DnsAnswer::Addresses(vec![ip("10.1.0.2")]));
        check("none.shop.svc.cluster.local", DnsAnswer::NoSuchName);
        check("example.com", DnsAnswer::Elsewhere);
    }

    #[tokio::test]
    async fn service_ports_forward_to_ready_pods() {
        let services = services().await;
        let fronts = fronts(&services.services.list(), &BTreeSet::new());
        assert_eq!(fronts.len(), 1);
        let behind = fronts.into_values().next().expect("one");
        let targets: Vec<String> = services.targets(&behind).iter().map(ToString::to_string).collect();
        assert_eq!(targets, ["10.1.0.2:8080", "10.1.0.4:8080"]);
        let api = ServiceBackend { key: ObjectKey::new("default", "kubernetes"), port_name: "https".to_owned() };
        let targets: Vec<String> = services.targets(&api).iter().map(ToString::to_string).collect();
        assert_eq!(targets, ["127.0.0.1:5443"]);
    }
}
