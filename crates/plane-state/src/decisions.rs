//! The last scheduling decision of each binding with its reasons, kept for explanations.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use parking_lot::Mutex;
use scheduler::Explanation;
use scheduler::explanation::Attempt;

/// Decisions remembered; the oldest goes first.
pub const DECISIONS_MAX: usize = 10_000;
/// Clusters named in all of them together; the entry of one takes some hundred bytes.
pub const CLUSTERS_MAX: usize = 200_000;

/// A decision with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDecision {
    pub time: Timestamp,
    /// Generation of the binding it was made for.
    pub generation: i64,
    pub explanation: Arc<Explanation>,
}

/// The last decision of each binding. Clones share it.
#[derive(Clone, Default)]
pub struct Decisions {
    shared: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    by_binding: HashMap<String, RecordedDecision>,
    /// Oldest first; a binding that was decided again appears more than once.
    order: VecDeque<(String, Timestamp)>,
    clusters: usize,
}

impl Decisions {
    /// Bindings are named `namespace/name`, or `name` where there is no namespace.
    pub fn remember(&self, binding: &str, decision: RecordedDecision) {
        let mut memory = self.shared.lock();
        memory.order.push_back((binding.to_owned(), decision.time));
        memory.forget(binding);
        memory.clusters += clusters(&decision);
        memory.by_binding.insert(binding.to_owned(), decision);
        while memory.is_full() {
            let Some((oldest, time)) = memory.order.pop_front() else { break };
            if memory.by_binding.get(&oldest).is_some_and(|known| known.time <= time) {
                memory.forget(&oldest);
            }
        }
    }

    pub fn forget(&self, binding: &str) {
        self.shared.lock().forget(binding);
    }

    pub fn get(&self, binding: &str) -> Option<RecordedDecision> {
        self.shared.lock().by_binding.get(binding).cloned()
    }
}

impl Memory {
    fn is_full(&self) -> bool {
        self.by_binding.len() > DECISIONS_MAX || self.order.len() > 2 * DECISIONS_MAX || self.clusters > CLUSTERS_MAX
    }

    fn forget(&mut self, binding: &str) {
        if let Some(known) = self.by_binding.remove(binding) {
            self.clusters -= clusters(&known);
        }
    }
}

fn clusters(decision: &RecordedDecision) -> usize {
    let in_attempt = |attempt: &Attempt| attempt.left_out.len() + attempt.candidates.len();
    decision.explanation.attempts.iter().map(in_attempt).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler::explanation::LeftOut;

    fn decision(second: i64, clusters: usize) -> RecordedDecision {
        let attempt = Attempt { left_out: vec![LeftOut::default(); clusters], ..Attempt::default() };
        let explanation = Explanation { attempts: vec![attempt], ..Explanation::default() };
        let time = Timestamp::from_second(second).expect("a time");
        RecordedDecision { time, generation: 1, explanation: Arc::new(explanation) }
    }

    #[test]
    fn the_oldest_decisions_are_dropped_first() {
        let decisions = Decisions::default();
        for second in 0..3 {
            decisions.remember(&format!("b{second}"), decision(second, CLUSTERS_MAX / 2));
        }
        let known = |name: &str| decisions.get(name).map(|known| known.time.as_second());
        assert_eq!((known("b0"), known("b1"), known("b2")), (None, Some(1), Some(2)));
        decisions.remember("b1", decision(5, 1));
        assert_eq!(known("b1"), Some(5));
        decisions.forget("b1");
        assert_eq!(known("b1"), None);
    }
}
