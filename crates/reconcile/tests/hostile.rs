//! Mirrors of a member whose API server sends what would exhaust this process.
//!
//! Each case runs its client in a child process, whose peak memory the parent reads; the server runs in the parent.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use cluster_client::{ApiResources, ClusterClient, Endpoint, ListOptions, RemoteConfig, ResourceRef};
use object::GroupVersionResource;
use reconcile::{Mirror, MirrorLimits, MirrorSpec};
use tokio_util::sync::CancellationToken;

const CASE: &str = "FLOTILLA_HOSTILE_CASE";
const ADDRESS: &str = "FLOTILLA_HOSTILE_ADDRESS";
const DEADLINE: Duration = Duration::from_secs(120);
/// A child takes a few megabytes by itself; the bounds of a page are 64 MiB of text and 256 MiB of objects.
const PEAK_MAX_MB: u64 = 600;
const LIMITS: MirrorLimits = MirrorLimits { objects: 10_000, bytes: 32 << 20 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Millions of empty items in one page, whatever limit is asked for.
    EmptyItems,
    /// Objects that take a hundred times their text.
    DenseObjects,
    /// A list without end.
    EndlessList,
    /// New pages without end.
    EndlessPages,
    /// One object that is nested too deep, among others.
    DeepObject,
    /// The same in a watch.
    DeepEvent,
    /// New objects in a watch, without end.
    WatchFlood,
    /// An event without end.
    EndlessEvent,
    /// More resources than any API has.
    Discovery,
}

const CASES: &[(Case, &str)] = &[
    (Case::EmptyItems, "refused: the server's answer is too large"),
    (Case::DenseObjects, "refused: the server's answer is too large"),
    (Case::EndlessList, "refused: the server's answer is too large"),
    (Case::EndlessPages, "refused: the server has more objects than are mirrored"),
    (Case::DeepObject, "synced: a c, 1 unreadable"),
    (Case::DeepEvent, "synced: a c, 1 unreadable"),
    (Case::WatchFlood, "refused: the server has more objects than are mirrored"),
    (Case::EndlessEvent, "refused: a watch event is longer than"),
    (Case::Discovery, "refused: discovery reports"),
];

#[test]
fn a_hostile_member_is_refused_within_bounded_memory() {
    for (case, expected) in CASES {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let case = *case;
        std::thread::spawn(move || serve(&listener, case));
        let child = Command::new(std::env::current_exe().expect("the test program"))
            .args(["--exact", "child_of_a_case", "--nocapture", "--ignored"])
            .env(CASE, format!("{case:?}"))
            .env(ADDRESS, address.to_string())
            .output()
            .expect("the child runs");
        let text = String::from_utf8_lossy(&child.stdout);
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default().to_owned();
        let outcome = line("outcome ");
        let (verb, part) = expected.split_once(": ").expect("an outcome and its reason");
        assert!(
            outcome.starts_with(verb) && outcome.contains(part),
            "{case:?}: {outcome:?} {text} {}",
            String::from_utf8_lossy(&child.stderr)
        );
        let peak: u64 = line("peak ").parse().unwrap_or_else(|_| panic!("{case:?}: no peak in {text}"));
        assert!(peak < PEAK_MAX_MB, "{case:?} took {peak} MB");
    }
}

#[tokio::test]
#[ignore = "runs as a child of the test above"]
async fn child_of_a_case() {
    let case = std::env::var(CASE).expect("the parent says the case");
    let address: SocketAddr = std::env::var(ADDRESS).expect("an address").parse().expect("an address");
    let client =
        ClusterClient::connect(Endpoint::Remote(RemoteConfig::new(format!("http://{address}")))).expect("set up");
    let outcome = match case.as_str() {
        "Discovery" => match ApiResources::discover(&client).await {
            Ok(found) => format!("accepted {} resources", found.resources.len()),
            Err(status) => format!("refused: {}", status.message),
        },
        // A single list, without a mirror, is bounded by page.
        "DenseObjects" => {
            let list = client.list_all(ResourceRef::all(&pods()), ListOptions::default()).await;
            list.map_or_else(
                |status| format!("refused: {}", status.message),
                |list| format!("{} items", list.items.len()),
            )
        }
        _ => mirrored(client).await,
    };
    println!("\noutcome {outcome}\npeak {}", peak_megabytes());
}

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

/// Mirrors until the mirror is refused, or holds what can be read.
async fn mirrored(client: ClusterClient) -> String {
    let spec = MirrorSpec::new(&pods()).packed().limits(LIMITS);
    let mirror = Mirror::start(client.clone(), spec, CancellationToken::new());
    let start = Instant::now();
    loop {
        if let Some(trouble) = mirror.error() {
            return format!("refused: {trouble}");
        }
        let names: Vec<String> = match mirror.len() {
            0..10 => mirror.list().iter().map(|object| object.name().to_owned()).collect(),
            _ => Vec::new(),
        };
        if names.contains(&"c".to_owned()) {
            return format!("synced: {}, {} unreadable", names.join(" "), client.unreadable_objects());
        }
        assert!(start.elapsed() < DEADLINE, "nothing came of it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("kilobytes") / 1024
}

fn serve(listener: &TcpListener, case: Case) {
    for connection in listener.incoming() {
        let Ok(connection) = connection else { return };
        // A client that has heard enough closes the connection, and the write fails.
        std::thread::spawn(move || drop(answer(connection, case)));
    }
}

fn answer(mut connection: TcpStream, case: Case) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let is_watch = request.contains("watch=");
    let is_stream = request.contains("sendInitialEvents=true");
    let streams = matches!(case, Case::DeepEvent | Case::WatchFlood | Case::EndlessEvent);
    if is_stream && !streams {
        let text = r#"{"kind":"Status","code":422,"reason":"Invalid","message":"no streaming lists"}"#;
        return write!(connection, "HTTP/1.1 422 Unprocessable\r\nconnection: close\r\n\r\n{text}");
    }
    write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")?;
    match case {
        _ if request.contains("GET /api ") => write!(connection, r#"{{"kind":"APIGroupDiscoveryList","items":[]}}"#),
        Case::Discovery => discovery(connection),
        _ if is_watch && streams => events(connection, case),
        // A watch after a list: silent until the client goes.
        _ if is_watch => reader.read_line(&mut line).map(drop),
        _ => list(connection, case, &request),
    }
}

fn deep() -> String {
    format!("{}{}", "[".repeat(300), "]".repeat(300))
}

fn list(mut to: TcpStream, case: Case, request: &str) -> std::io::Result<()> {
    let after = request.split("continue=").nth(1).and_then(|rest| rest.split(['&', ' ']).next()).unwrap_or("0");
    let after: usize = after.parse().unwrap_or(0);
    let next = if case == Case::EndlessPages { (after + 1).to_string() } else { String::new() };
    write!(
        to,
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":["#
    )?;
    match case {
        Case::EmptyItems => to.write_all("{},".repeat(7_000_000).as_bytes())?,
        Case::DenseObjects => {
            let object = format!(r#"{{"metadata":{{"name":"x"}},"spec":[{}0]}},"#, r#"{"":0},"#.repeat(14_000));
            to.write_all(object.repeat(100).as_bytes())?;
        }
        Case::EndlessList => loop {
            to.write_all("{},".repeat(10_000).as_bytes())?;
            to.write_all(format!(r#"{{"data":"{}"}},"#, "x".repeat(1 << 20)).as_bytes())?;
        },
        Case::EndlessPages => {
            for index in 0..500 {
                write!(to, r#"{{"metadata":{{"name":"p{after}-{index}","resourceVersion":"7"}}}},"#)?;
            }
        }
        _ => {
            write!(to, r#"{{"metadata":{{"name":"a"}}}},{{"metadata":{{"name":"b"}},"spec":{}}},"#, deep())?;
            return write!(to, r#"{{"metadata":{{"name":"c"}}}}]}}"#);
        }
    }
    write!(to, "{{}}]}}")
}

fn events(mut to: TcpStream, case: Case) -> std::io::Result<()> {
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let named = |name: &str, spec: &str| {
        format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}","resourceVersion":"6"}},"spec":{spec}}}}}"#)
    };
    writeln!(to, "{}\n{bookmark}", named("a", "0"))?;
    match case {
        Case::DeepEvent => writeln!(to, "{}\n{}", named("b", &deep()), named("c", "0"))?,
        Case::EndlessEvent => {
            write!(to, r#"{{"type":"ADDED","object":{{"metadata":{{"name":"b"}},"data":""#)?;
            loop {
                to.write_all("x".repeat(1 << 20).as_bytes())?;
            }
        }
        _ => {
            let spec = format!("{:?}", "x".repeat(2048));
            for index in 0.. {
                writeln!(to, "{}", named(&format!("flood-{index}"), &spec))?;
            }
        }
    }
    // Open until the client goes.
    let mut line = String::new();
    BufReader::new(to).read_line(&mut line).map(drop)
}

fn discovery(mut to: TcpStream) -> std::io::Result<()> {
    write!(
        to,
        r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{"name":"g"}},"versions":[{{"version":"v1","resources":["#
    )?;
    for index in 0..60_000 {
        let comma = if index == 0 { "" } else { "," };
        write!(to, r#"{comma}{{"resource":"r{index}"}}"#)?;
    }
    write!(to, "]}}]}}]}}")
}
