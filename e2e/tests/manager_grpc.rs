//! gRPC of the manager with a client that has no proto files: it learns the API by reflection; and with generated Go clients.

use std::process::Command;
use std::time::Duration;

use e2e::flotilla::programs;
use e2e::manager::{ManagerProcess, eventually, text};
use e2e::program::Program;
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Certificate, Channel, ClientTlsConfig};
use tonic::{Request, Status};

const PASSWORD: &str = "a long enough password";
const PACKAGE: &str = "flotilla.manager.v1alpha1";

/// Passes encoded messages through.
#[derive(Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = input.remaining();
        Ok(Some(input.copy_to_bytes(length)))
    }
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionRequest {
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionResponse {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    file: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    service: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

struct Client {
    channel: Channel,
    token: String,
    pool: DescriptorPool,
}

impl Client {
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if !self.token.is_empty() {
            let value = format!("Bearer {}", self.token).parse().expect("a header");
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    async fn grpc(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.expect("connected");
        grpc
    }

    async fn raw(&self, path: &str, message: Bytes) -> Result<Bytes, Status> {
        let path = path.parse().expect("a path");
        self.grpc().await.unary(self.request(message), path, Plain).await.map(tonic::Response::into_inner)
    }

    async fn reflect(&self, question: ReflectionRequest) -> Result<ReflectionResponse, Status> {
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".parse().expect("a path");
        // The stream of questions stays open while the answer is read.
        let (questions, asked) = tokio::sync::mpsc::channel(1);
        questions.send(Bytes::from(question.encode_to_vec())).await.expect("sent");
        let asked =
            futures::stream::unfold(asked, |mut asked| async move { asked.recv().await.map(|next| (next, asked)) });
        let answers = self.grpc().await.streaming(self.request(asked), path, Plain).await?;
        let answer = answers.into_inner().message().await?.expect("an answer");
        drop(questions);
        Ok(ReflectionResponse::decode(answer).expect("a response"))
    }

    /// Calls a method with a request in JSON, by the definitions that reflection returned.
    async fn call(&self, service: &str, method: &str, request: Value) -> Result<Value, Status> {
        let found = self.pool.get_service_by_name(&format!("{PACKAGE}.{service}")).expect("a service");
        let found = found.methods().find(|known| known.name() == method).expect("a method");
        let message = DynamicMessage::deserialize(found.input(), request).expect("a request");
        let path = format!("/{PACKAGE}.{service}/{method}");
        let answer = self.raw(&path, message.encode_to_vec().into()).await?;
        let answer = DynamicMessage::decode(found.output(), answer).expect("a response");
        Ok(serde_json::to_value(answer).expect("JSON"))
    }
}

async fn connect(manager: &ManagerProcess) -> Client {
    let ca = std::fs::read(manager.directory.path().join("pki/ca.crt")).expect("a CA");
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)).domain_name("localhost");
    let url = format!("https://127.0.0.1:{}", manager.server.port());
    let endpoint = Channel::from_shared(url).expect("a URL").tls_config(tls).expect("TLS");
    let channel = endpoint.timeout(Duration::from_secs(60)).connect().await.expect("connected");
    Client { channel, token: String::new(), pool: DescriptorPool::new() }
}

fn set_up(manager: &ManagerProcess) {
    manager.create("east", json!({}), json!({}));
    manager.wait_for("east", "Completed");
    let api = "manager.flotilla.dev/v1alpha1";
    let user =
        json!({"apiVersion": api, "kind": "User", "metadata": {"name": "root"}, "spec": {"displayName": "root"}});
    let spec = json!({"subject": {"kind": "User", "name": "root"}, "role": "platform-admin"});
    let binding = json!({"apiVersion": api, "kind": "Binding", "metadata": {"name": "root"}, "spec": spec});
    for object in [user, binding] {
        assert!(manager.apply(&object).status.success());
    }
    let file = manager.directory.path().join("password.json");
    std::fs::write(&file, json!({"user": "root", "password": PASSWORD}).to_string()).expect("written");
    let set = || {
        let path = file.display().to_string();
        let done = manager.kubectl(&["create", "--raw", "/flotilla/manager/passwords", "-f", &path]);
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    eventually(Duration::from_secs(10), set, || manager.server.log());
}

/// Reads the definitions of all services by reflection.
async fn learn(client: &mut Client) -> Vec<String> {
    let listed = ReflectionRequest { list_services: Some("*".into()), ..ReflectionRequest::default() };
    let services = client.reflect(listed).await.expect("services").services.expect("a list").service;
    for service in &services {
        let asked =
            ReflectionRequest { file_containing_symbol: Some(service.name.clone()), ..ReflectionRequest::default() };
        let files = client.reflect(asked).await.expect("files").files.expect("a list").file;
        let mut set = Vec::new();
        for file in files {
            prost::encoding::bytes::encode(1, &file, &mut set);
        }
        client.pool.decode_file_descriptor_set(&set[..]).expect("definitions");
    }
    services.into_iter().map(|service| service.name).collect()
}

#[tokio::test]
async fn a_reflection_client_uses_the_api() {
    let manager = ManagerProcess::start(&["--grpc-reflection"]);
    set_up(&manager);
    let mut client = connect(&manager).await;
    let health = client.raw("/grpc.health.v1.Health/Check", Bytes::new()).await.expect("healthy");
    assert_eq!(health.as_ref(), [8, 1], "SERVING");
    // Without credentials nothing of the API is shown.
    let listed = ReflectionRequest { list_services: Some("*".into()), ..ReflectionRequest::default() };
    assert_eq!(client.reflect(listed).await.expect_err("refused").code(), tonic::Code::Unauthenticated);
    let anonymous = client.raw(&format!("/{PACKAGE}.InstanceService/ListInstances"), Bytes::new()).await;
    assert_eq!(anonymous.expect_err("refused").code(), tonic::Code::Unauthenticated);

    let url = format!("https://127.0.0.1:{}/flotilla/manager/v1alpha1/sessions:login", manager.server.port());
    let raw = e2e::raw_client::RawClient::of(&manager.server);
    let path = url.split_once(&manager.server.port().to_string()).expect("a path").1;
    let login = raw.post(path, &json!({"user": "root", "password": PASSWORD})).expect("an answer");
    client.token = login.json()["token"].as_str().expect("a token").to_owned();
    let services = learn(&mut client).await;
    assert!(services.iter().any(|name| name == "flotilla.manager.v1alpha1.InstanceService"), "{services:?}");

    let list = client.call("InstanceService", "ListInstances", json!({"pageSize": 10})).await.expect("a list");
    assert_eq!((&list["total"], &list["instances"][0]["name"]), (&json!("1"), &json!("east")));
    // The same request over REST has the same answer.
    let rest =
        raw.with_token(&client.token).get("/flotilla/manager/v1alpha1/instances?pageSize=10").expect("an answer");
    assert_eq!(rest.json()["instances"][0]["uid"], list["instances"][0]["uid"]);
    let created = client
        .call("AccessService", "CreateGroup", json!({"group": {"name": "sre", "members": ["root"]}}))
        .await
        .expect("created");
    assert_eq!(created["members"], json!(["root"]));
    let missing = client.call("InstanceService", "GetInstance", json!({"name": "none"})).await.expect_err("missing");
    assert_eq!(missing.code(), tonic::Code::NotFound);
    assert!(!missing.details().is_empty(), "details name the reason");
    let wrong = client.call("InstanceService", "DeleteInstance", json!({"name": "east"})).await.expect_err("refused");
    assert_eq!(wrong.code(), tonic::Code::FailedPrecondition);
    no_rpc_is_open(&mut client).await;
    claims_in_metadata_change_nothing(&client).await;
    generated_clients_work(&manager);
}

/// Calls every method without a token, and with one that is no token.
async fn no_rpc_is_open(client: &mut Client) {
    let own = std::mem::take(&mut client.token);
    let mut checked = 0;
    for token in ["", "flm_aaaaaaaaaaaa_x", "not a token"] {
        token.clone_into(&mut client.token);
        let services: Vec<_> = client.pool.services().filter(|service| service.package_name() == PACKAGE).collect();
        for method in services.iter().flat_map(prost_reflect::ServiceDescriptor::methods) {
            let name = format!("{}/{}", method.parent_service().full_name(), method.name());
            if ["GetLoginOptions", "Login", "StartOidc", "FinishOidc"].contains(&method.name()) {
                continue;
            }
            let refused = client.raw(&format!("/{name}"), Bytes::new()).await.expect_err(&name);
            assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{name} with the token {token:?}");
            checked += 1;
        }
    }
    assert!(checked > 300, "{checked} calls");
    client.token = own;
}

async fn claims_in_metadata_change_nothing(client: &Client) {
    let path = format!("/{PACKAGE}.SessionService/WhoAmI");
    for (key, expected) in [
        ("x-remote-user", Some("root")),
        ("x-remote-group", Some("root")),
        ("grpcgateway-x-remote-user", Some("root")),
        ("x-forwarded-user", Some("root")),
        // An administrator may impersonate, as in the Kubernetes API; others are refused (T6).
        ("impersonate-user", Some("system:masters")),
    ] {
        let mut request = client.request(Bytes::new());
        request.metadata_mut().insert(key, "system:masters".parse().expect("a value"));
        let answer = client.grpc().await.unary(request, path.parse().expect("a path"), Plain).await;
        let known = client.pool.get_message_by_name(&format!("{PACKAGE}.Caller")).expect("a message");
        let name = answer.ok().map(|answer| {
            let caller = DynamicMessage::decode(known, answer.into_inner()).expect("a caller");
            serde_json::to_value(caller).expect("JSON")["name"].as_str().unwrap_or_default().to_owned()
        });
        assert_eq!(name.as_deref(), expected, "{key}");
    }
}

/// Clients of protoc-gen-go-grpc, and the handlers of grpc-gateway, whose answers must be those of the manager's REST API.
fn generated_clients_work(manager: &ManagerProcess) {
    if !Program::are_installed(&["grpc-client"]) {
        return;
    }
    let ran = Command::new(programs().join("grpc-client"))
        .args(["-address", &format!("localhost:{}", manager.server.port()), "-instance", "east", "-ca"])
        .arg(manager.directory.path().join("pki/ca.crt"))
        .env("MANAGER_USER", "root")
        .env("MANAGER_PASSWORD", PASSWORD)
        .output()
        .expect("it runs");
    let shown = text(&ran);
    for checked in ["ok typed calls", "ok failures have details"] {
        assert!(shown.contains(checked), "{shown}\n{}", manager.server.log());
    }
    // The gateway writes null for messages that are not set, and answers unknown paths itself; a dry run has a new uid each time.
    let differing = shown.split("FAILED answers of the gateway: ").nth(1).and_then(|rest| rest.split(' ').next());
    let differing: usize = differing.map_or(0, |number| number.parse().expect("a number"));
    assert!(differing <= 5, "{shown}");
}
