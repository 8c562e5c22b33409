//! Watches that an application always has enough ready replicas.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::flotilla::kubectl;

const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Returns the number of ready replicas in a cluster; `None` if it is unreachable.
pub type Ask = Box<dyn Fn() -> Option<u32> + Send>;

/// The ready replicas of a Deployment in a cluster on this machine's own network.
pub fn in_cluster(kubeconfig: &Path, deployment: &str) -> Ask {
    let kubeconfig = kubeconfig.to_owned();
    let arguments = question(deployment);
    Box::new(move || answer(&kubectl(&kubeconfig, &arguments.each_ref().map(String::as_str))))
}

/// The kubectl arguments of the query.
pub fn question(deployment: &str) -> [String; 5] {
    let path = "-o=jsonpath={.status.readyReplicas}".to_owned();
    let words = ["get", "deploy", deployment, "--ignore-not-found"].map(str::to_owned);
    let [get, deploy, name, ignore] = words;
    [get, deploy, name, ignore, path]
}

/// Parses the output of the query.
pub fn answer(output: &Output) -> Option<u32> {
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then(|| text.parse().unwrap_or(0))
}

/// Polls until stopped.
pub struct ReadyReplicasWatch {
    stop: Arc<AtomicBool>,
    looking: Option<JoinHandle<Result<u32, String>>>,
}

impl ReadyReplicasWatch {
    /// `clusters` are all that may have replicas, and have enough now.
    pub fn start(least: u32, clusters: Vec<Ask>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let looking = std::thread::spawn(move || {
            let (mut polls, start) = (0, Instant::now());
            while !stopped.load(Ordering::Relaxed) {
                let is_too_few = |ready: Option<u32>| ready.is_some_and(|ready| ready < least);
                // A replica that moves between two queries may be missed in both clusters, but not in the reverse
                // order.
                if is_too_few(poll(clusters.iter())) && is_too_few(poll(clusters.iter().rev())) {
                    return Err(format!("fewer than {least} ready after {:?} and {polls} polls", start.elapsed()));
                }
                polls += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(polls)
        });
        Self { stop, looking: Some(looking) }
    }

    /// Panics if there were ever too few.
    #[track_caller]
    pub fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let looking = self.looking.take().expect("it ends once");
        let polls = looking.join().expect("the watcher ends").unwrap_or_else(|why| panic!("{why}"));
        assert!(polls > 0, "no poll succeeded");
    }
}

impl Drop for ReadyReplicasWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns the total; `None` if any cluster is unreachable.
fn poll<'a>(clusters: impl Iterator<Item = &'a Ask>) -> Option<u32> {
    clusters.map(|ask| ask()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "fewer than 1 ready")]
    fn a_moment_without_replicas_is_detected() {
        let watch = ReadyReplicasWatch::start(1, vec![Box::new(|| Some(0)), Box::new(|| Some(0))]);
        while watch.looking.as_ref().is_some_and(|looking| !looking.is_finished()) {
            std::thread::yield_now();
        }
        watch.end();
    }

    #[test]
    fn an_unreachable_cluster_is_no_violation() {
        let asks: [Ask; 2] = [Box::new(|| Some(1)), Box::new(|| None)];
        assert_eq!(poll(asks.iter()), None);
        let asks: [Ask; 2] = [Box::new(|| Some(1)), Box::new(|| Some(2))];
        assert_eq!(poll(asks.iter()), Some(3));
    }
}
