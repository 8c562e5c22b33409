//! Leadership of this process, under the name and help text that Kubernetes and controller-runtime use.

use std::sync::Arc;

use metrics::{Gauge, Level, Registry};
use parking_lot::Mutex;

/// The leases that this process competes for, all held or lost together.
#[derive(Clone)]
pub struct LeaderMetrics {
    status: Gauge,
    election: Arc<Mutex<Election>>,
}

#[derive(Default)]
struct Election {
    leases: Vec<Level>,
    /// `None` until the process leads for the first time.
    leads: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl LeaderMetrics {
    pub fn new(registry: &Registry) -> Self {
        let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates \
                    master. 'name' is the string used to identify the lease. Please make sure to group by name.";
        let status = registry.gauge("leader_election_master_status", &["name"], help);
        let new = Self { status, election: Arc::default() };
        let refreshed = new.election.clone();
        registry.before_render(move || refreshed.lock().refresh());
        new
    }

    /// Reports 0 for these leases until [`Self::leads_while`] is called.
    pub fn compete(&self, leases: &[&str]) {
        self.election.lock().leases = leases.iter().map(|lease| self.status.with(&[lease])).collect();
    }

    /// Reports 1 while `leads` is true. It is asked when metrics are read: a process that was suspended must not report a lease that
    /// another took over meanwhile.
    pub fn leads_while(&self, leads: impl Fn() -> bool + Send + Sync + 'static) {
        self.election.lock().leads = Some(Arc::new(leads));
    }
}

impl Election {
    fn refresh(&self) {
        let leads = self.leads.as_ref().is_some_and(|leads| leads());
        self.leases.iter().for_each(|lease| lease.set(f64::from(u8::from(leads))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn each_lease_is_1_while_the_process_leads() {
        let registry = Registry::default();
        let leader = LeaderMetrics::new(&registry);
        let check = |expected: &[&str]| {
            let mut text = String::new();
            registry.render(&mut text);
            let found: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(found, expected);
        };
        check(&[]);
        leader.compete(&["a", "b"]);
        check(&["leader_election_master_status{name=\"a\"} 0", "leader_election_master_status{name=\"b\"} 0"]);
        let leads = Arc::new(AtomicBool::new(true));
        let of_term = Arc::clone(&leads);
        leader.leads_while(move || of_term.load(Ordering::Relaxed));
        check(&["leader_election_master_status{name=\"a\"} 1", "leader_election_master_status{name=\"b\"} 1"]);
        leads.store(false, Ordering::Relaxed);
        check(&["leader_election_master_status{name=\"a\"} 0", "leader_election_master_status{name=\"b\"} 0"]);
    }
}
