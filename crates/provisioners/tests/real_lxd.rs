//! Machines in a real LXD or Incus: created, run, reached, changed and removed completely.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provisioners::lxd::{ImageSource, Limits, Lxd, LxdSettings};
use provisioners::{Condition, Error, Forward, Machine, Provisioner};

const LIMIT: Duration = Duration::from_secs(60);

/// `None` and a line on stderr if there is no daemon.
async fn lxd(testbed: &str) -> Option<Lxd> {
    let binary = std::env::current_exe().expect("this test has a path");
    let mut settings = LxdSettings::new(testbed, binary);
    settings.limits = Limits { cpu: None, memory: Some("256MiB".into()), processes: Some(200) };
    assert_eq!(settings.image, ImageSource::Own);
    match Lxd::connect(settings).await {
        Ok(lxd) => Some(lxd),
        Err(error) => {
            test_skip::skip(error);
            None
        }
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

fn web(name: &str, listen: SocketAddr) -> Machine {
    let words = ["/bin/busybox", "httpd", "-f", "-p", "127.0.0.1:16443", "-h", "/srv/pages"];
    Machine {
        name: name.to_owned(),
        command: words.map(str::to_owned).to_vec(),
        env: BTreeMap::from([("GREETING".to_owned(), "it's me".to_owned())]),
        files: vec![(page(name), "/srv/pages/index.html".to_owned())],
        forwards: vec![Forward { name: "api".into(), listen, target: "127.0.0.1:16443".into() }],
    }
}

fn page(text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("flotilla-lxd-{}-{text}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path
}

/// Returns the page at an address, once it answers.
async fn fetched(address: SocketAddr) -> String {
    let start = Instant::now();
    loop {
        if let Ok(page) = tokio::task::spawn_blocking(move || fetch(address)).await.expect("it ends")
            && !page.is_empty()
        {
            return page;
        }
        assert!(start.elapsed() < LIMIT, "{address} does not answer");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn fetch(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

async fn run(lxd: &Lxd, machine: &str, script: &str) -> (i32, String) {
    let command = ["/bin/sh", "-c", script].map(str::to_owned);
    let output = lxd.exec(machine, &command, None).await.expect("the command runs");
    (output.code, String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned())
}

async fn eventually(lxd: &Lxd, machine: &str, wanted: Condition) {
    let start = Instant::now();
    while lxd.condition(machine).await.expect("a condition") != wanted {
        assert!(start.elapsed() < LIMIT, "timed out: {machine} is not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn machines_are_created_reached_isolated_and_removed() {
    let testbed = format!("t{}", std::process::id());
    let Some(lxd) = lxd(&testbed).await.map(Arc::new) else { return };
    let result = tokio::spawn(a_life(Arc::clone(&lxd))).await;
    for machine in ["one", "two"] {
        lxd.delete(machine).await.unwrap();
    }
    // Failures are reported after the machines are deleted.
    result.unwrap();
    nothing_is_left(&testbed);
}

async fn a_life(lxd: Arc<Lxd>) {
    let lxd = lxd.as_ref();
    let addresses = [free_address(), free_address()];
    let machines = [web("one", addresses[0]), web("two", addresses[1])];
    for machine in &machines {
        assert_eq!(lxd.condition(&machine.name).await.unwrap(), Condition::Missing);
        lxd.create(machine).await.unwrap();
        assert_eq!(lxd.condition(&machine.name).await.unwrap(), Condition::Stopped);
        lxd.start(&machine.name).await.unwrap();
        lxd.start(&machine.name).await.unwrap();
        lxd.create(machine).await.unwrap();
    }
    for (machine, address) in machines.iter().zip(addresses) {
        assert_eq!(fetched(address).await, machine.name);
        eventually(lxd, &machine.name, Condition::Running).await;
    }
    they_are_apart(lxd).await;
    commands_and_files_go_in_and_out(lxd).await;
    forwards_come_and_go(lxd).await;
    a_command_that_keeps_ending_shows(lxd, &machines[1]).await;
    for machine in &machines {
        lxd.stop(&machine.name).await.unwrap();
        assert_eq!(lxd.condition(&machine.name).await.unwrap(), Condition::Stopped);
    }
    lxd.start("one").await.unwrap();
    assert_eq!(fetched(addresses[0]).await, "one");
    for machine in &machines {
        lxd.delete(&machine.name).await.unwrap();
        lxd.delete(&machine.name).await.unwrap();
        assert_eq!(lxd.condition(&machine.name).await.unwrap(), Condition::Missing);
        let _ = std::fs::remove_file(&machine.files[0].0);
    }
    assert!(TcpListener::bind(addresses[0]).is_ok(), "the forward is closed with its machine");
    assert!(matches!(lxd.start("one").await, Err(Error::NoMachine(_))));
}

async fn they_are_apart(lxd: &Lxd) {
    let (_, processes) = run(lxd, "one", "ps -o args").await;
    assert!(processes.contains("httpd") && !processes.contains("lxd "), "{processes}");
    assert_eq!(run(lxd, "one", "hostname").await.1.split('-').next_back(), Some("one"));
    let limit = run(lxd, "one", "cat /proc/1/environ | tr '\\0' '\\n' | wc -l").await;
    assert_eq!(limit.0, 0);
    let start = Instant::now();
    while lxd.address("one").await.unwrap().is_none() {
        assert!(start.elapsed() < LIMIT, "the machine has no address on its bridge");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_ne!(lxd.address("one").await.unwrap(), lxd.address("two").await.unwrap());
    let (code, text) = run(lxd, "two", "wget -q -O - http://127.0.0.1:16443/index.html").await;
    assert_eq!((code, text.as_str()), (0, "two"), "each has its own loopback");
}

async fn commands_and_files_go_in_and_out(lxd: &Lxd) {
    assert_eq!(run(lxd, "one", "echo out; echo err >&2; exit 3").await, (3, "out\nerr".to_owned()));
    let words = ["tr", "a-z", "A-Z"].map(str::to_owned);
    let output = lxd.exec("one", &words, Some(b"shout".to_vec())).await.unwrap();
    assert_eq!((output.code, output.stdout.as_slice()), (0, b"SHOUT".as_slice()));
    assert_eq!(run(lxd, "one", "ls /run/flotilla").await.1, "", "the input file is removed");
    let from = page("pushed");
    lxd.push_file("one", &from, "/opt/a/b c/file").await.unwrap();
    assert_eq!(lxd.read_file("one", "/opt/a/b c/file").await.unwrap(), b"pushed");
    assert!(lxd.read_file("one", "/opt/none").await.unwrap_err().to_string().contains("no such file"));
    let environment =
        run(lxd, "one", "tr '\\0' '\\n' </proc/$(ps -o pid,args | awk '/[h]ttpd/ {print $1}')/environ").await.1;
    assert!(environment.contains("GREETING=it's me"), "{environment}");
    let _ = std::fs::remove_file(from);
}

async fn forwards_come_and_go(lxd: &Lxd) {
    let extra = Forward { name: "web".into(), listen: free_address(), target: "127.0.0.1:16443".into() };
    lxd.forward("two", &extra).await.unwrap();
    lxd.forward("two", &extra).await.unwrap();
    assert_eq!(fetched(extra.listen).await, "two");
    let moved = Forward { listen: free_address(), ..extra.clone() };
    lxd.forward("two", &moved).await.unwrap();
    assert_eq!(fetched(moved.listen).await, "two");
    lxd.unforward("two", "web").await.unwrap();
    lxd.unforward("two", "web").await.unwrap();
    assert!(TcpListener::bind(moved.listen).is_ok() && TcpListener::bind(extra.listen).is_ok());
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = host.local_addr().unwrap().to_string();
    let back = Forward { name: "plane".into(), listen: ([127, 0, 0, 1], 5443).into(), target };
    lxd.reach_back("two", &back).await.unwrap();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = host.accept().expect("a connection from inside");
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nhost");
    });
    assert_eq!(run(lxd, "two", "wget -q -O - http://127.0.0.1:5443/").await, (0, "host".to_owned()));
    answer.join().unwrap();
}

async fn a_command_that_keeps_ending_shows(lxd: &Lxd, machine: &Machine) {
    let failing = Machine { command: vec!["false".into()], ..machine.clone() };
    lxd.create(&failing).await.unwrap();
    eventually(lxd, &machine.name, Condition::Failing).await;
    lxd.create(machine).await.unwrap();
    eventually(lxd, &machine.name, Condition::Running).await;
}

/// Asks the daemon's own client, if installed.
fn nothing_is_left(testbed: &str) {
    for words in [["list", "--format=csv"], ["profile", "list"]] {
        let Ok(output) = std::process::Command::new("lxc").args(words).output() else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains(testbed), "{text}");
    }
}
