//! Leader election on `coordination.k8s.io/v1` Leases, as in client-go.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::builtin;
use object::time::format_micros;
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::jittered;
use crate::clock::Clock;
use crate::fence::Fence;

/// Jitter factor for acquire retries, so that candidates do not retry in sync.
const RETRY_JITTER: f64 = 1.2;

/// The lease and its timing; the defaults are client-go's.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    pub namespace: String,
    pub name: String,
    /// Unique identity of this candidate.
    pub identity: String,
    /// Other candidates wait this long after the last renewal they saw.
    pub lease_duration: Duration,
    /// A leader that cannot renew for this long stops. Must be shorter than `lease_duration`.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl LeaderElection {
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A running renewal can conflict once; more conflicts mean that another client writes the lease.
const RELEASE_TRIES: usize = 4;

/// One term of holding the lease.
#[derive(Clone, Debug)]
pub struct Term {
    /// Cancelled when the lease is lost or about to be released.
    pub cancel: CancellationToken,
    /// Closes when the right to write ends, even before `cancel` is observed.
    pub fence: Fence,
}

/// A candidate for a lease.
pub struct LeaderElector {
    election: LeaderElection,
    client: ClusterClient,
    clock: Arc<dyn Clock>,
    /// The lease as last seen, and when its last change was seen by our own clock: other clocks may differ.
    seen: Option<(Arc<Object>, Instant)>,
}

impl LeaderElector {
    pub fn new(election: LeaderElection, client: ClusterClient, clock: Arc<dyn Clock>) -> Self {
        assert!(
            election.retry_period < election.renew_deadline && election.renew_deadline < election.lease_duration,
            "a leader must stop before others may start"
        );
        Self { election, client, clock, seen: None }
    }

    /// Runs `work` while the lease is held, with a token that is cancelled when it is lost, and waits for it to end.
    /// Retries after a loss. When `cancel` is cancelled, lets work end, releases the lease and returns.
    pub async fn run<F, R>(self, cancel: CancellationToken, work: F)
    where
        F: Fn(CancellationToken) -> R,
        R: Future<Output = ()>,
    {
        self.run_terms(cancel, |term| work(term.cancel)).await;
    }

    /// The same for work whose writes must end with the term, even if this process is suspended.
    pub async fn run_terms<F, R>(mut self, cancel: CancellationToken, work: F)
    where
        F: Fn(Term) -> R,
        R: Future<Output = ()>,
    {
        while let Some(held_since) = self.acquire(&cancel).await {
            let fence = Fence::new(held_since + self.election.renew_deadline);
            let term = Term { cancel: cancel.child_token(), fence: fence.clone() };
            let working = work(term.clone());
            tokio::pin!(working);
            let is_lost = tokio::select! {
                is_lost = self.hold(held_since, &fence, &cancel) => is_lost,
                // Work that ends by itself ends the candidacy; another candidate can take the lease.
                () = &mut working => {
                    fence.close();
                    self.release().await;
                    return;
                }
            };
            term.cancel.cancel();
            if is_lost {
                fence.close();
                tracing::warn!(lease = self.election.name, identity = self.election.identity, "leadership lost");
                working.await;
                continue;
            }
            // While work shuts down, no other candidate may start.
            tokio::select! {
                () = &mut working => {}
                () = self.keep_renewing(&fence) => {}
            }
            fence.close();
            self.release().await;
            return;
        }
    }

    /// Returns since when the lease is held, at the latest; `None` if cancelled.
    async fn acquire(&mut self, cancel: &CancellationToken) -> Option<Instant> {
        loop {
            if cancel.is_cancelled() {
                return None;
            }
            let start = Instant::now();
            match self.try_to_lead().await {
                Ok(true) => {
                    tracing::info!(lease = self.election.name, identity = self.election.identity, "leading");
                    return Some(start);
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(lease = self.election.name, %error, "cannot reach the lease"),
            }
            let wait = jittered(self.election.retry_period, RETRY_JITTER);
            tokio::select! {
                () = cancel.cancelled() => return None,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Renews until cancelled (returns false) or until the renew deadline passes (returns true).
    async fn hold(&mut self, mut renewed: Instant, fence: &Fence, cancel: &CancellationToken) -> bool {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return false,
                () = tokio::time::sleep(self.election.retry_period) => {}
            }
            let deadline = renewed + self.election.renew_deadline;
            let start = Instant::now();
            // An attempt that hangs must not outlast the deadline.
            match tokio::time::timeout_at(deadline, self.try_to_lead()).await {
                Ok(Ok(true)) => {
                    // Counted from before the attempt: other candidates count from when it was written, or later.
                    renewed = start;
                    fence.extend(start + self.election.renew_deadline);
                }
                Ok(Ok(false)) => return true,
                Ok(Err(error)) => tracing::warn!(lease = self.election.name, %error, "cannot renew the lease"),
                Err(_) => {}
            }
            if Instant::now() >= renewed + self.election.renew_deadline {
                return true;
            }
        }
    }

    async fn keep_renewing(&mut self, fence: &Fence) {
        loop {
            tokio::time::sleep(self.election.retry_period).await;
            let start = Instant::now();
            match self.try_to_lead().await {
                Ok(true) => fence.extend(start + self.election.renew_deadline),
                Ok(false) => fence.close(),
                Err(error) => tracing::warn!(lease = self.election.name, %error, "cannot renew the lease"),
            }
        }
    }

    /// Takes or renews the lease; returns false while another candidate holds it.
    async fn try_to_lead(&mut self) -> Result<bool, Status> {
        let Some(lease) = self.client.find(self.target()).await? else {
            return match self.client.create(self.collection(), self.new_lease(), WriteOptions::default()).await {
                Ok(lease) => {
                    self.seen = Some((lease, Instant::now()));
                    Ok(true)
                }
                Err(status) if status.is_already_exists() => Ok(false),
                Err(status) => Err(status),
            };
        };
        let now = Instant::now();
        let since = match &self.seen {
            Some((seen, since)) if seen.get(&["spec"]) == lease.get(&["spec"]) => *since,
            _ => now,
        };
        self.seen = Some((Arc::clone(&lease), since));
        let holder = lease.str_at(&["spec", "holderIdentity"]);
        let is_ours = holder == self.election.identity;
        if !holder.is_empty() && !is_ours && now < since + duration_of(&lease) {
            return Ok(false);
        }
        match self.client.update(self.target(), self.renewed(&lease, is_ours), WriteOptions::default()).await {
            Ok(lease) => {
                self.seen = Some((lease, Instant::now()));
                Ok(true)
            }
            Err(status) if status.is_conflict() || status.is_not_found() => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Lets the next leader start at once. Best effort: otherwise it starts a lease duration later.
    async fn release(&self) {
        if self.seen.is_none() {
            return;
        }
        for _ in 0..RELEASE_TRIES {
            match self.try_to_release().await {
                Ok(()) => return,
                // An aborted renewal may have been written anyway.
                Err(status) if status.is_conflict() => {}
                Err(error) => {
                    tracing::warn!(lease = self.election.name, %error, "cannot release the lease");
                    return;
                }
            }
        }
    }

    async fn try_to_release(&self) -> Result<(), Status> {
        let Some(lease) = self.client.find(self.target()).await? else { return Ok(()) };
        if lease.str_at(&["spec", "holderIdentity"]) != self.election.identity {
            return Ok(());
        }
        let mut free = Object::clone(&lease);
        let now = format_micros(self.clock.now());
        free.set(&["spec", "holderIdentity"], "");
        free.set(&["spec", "leaseDurationSeconds"], 1);
        free.set(&["spec", "renewTime"], now.clone());
        free.set(&["spec", "acquireTime"], now);
        self.client.update(self.target(), free, WriteOptions::default()).await.map(drop)
    }

    fn renewed(&self, lease: &Object, is_ours: bool) -> Object {
        let mut renewed = Object::clone(lease);
        let now = format_micros(self.clock.now());
        let seconds = i64::try_from(self.election.lease_duration.as_secs()).unwrap_or(i64::MAX);
        renewed.set(&["spec", "holderIdentity"], self.election.identity.clone());
        renewed.set(&["spec", "leaseDurationSeconds"], seconds);
        renewed.set(&["spec", "renewTime"], now.clone());
        if !is_ours {
            let transitions = lease.i64_at(&["spec", "leaseTransitions"]).unwrap_or(0);
            renewed.set(&["spec", "acquireTime"], now);
            renewed.set(&["spec", "leaseTransitions"], transitions + 1);
        }
        renewed
    }

    fn new_lease(&self) -> Object {
        let kind = GroupVersionKind::new("coordination.k8s.io", "v1", "Lease");
        let empty = Object::new(&kind, Some(&self.election.namespace), &self.election.name);
        let mut lease = self.renewed(&empty, false);
        lease.set(&["spec", "leaseTransitions"], 0);
        lease
    }

    fn target(&self) -> ResourceRef {
        ResourceRef::namespaced(&leases(), &self.election.namespace, &self.election.name)
    }

    fn collection(&self) -> ResourceRef {
        ResourceRef::within(&leases(), &self.election.namespace)
    }
}

fn leases() -> GroupVersionResource {
    builtin::leases()
}

fn duration_of(lease: &Object) -> Duration {
    let seconds = lease.i64_at(&["spec", "leaseDurationSeconds"]).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
