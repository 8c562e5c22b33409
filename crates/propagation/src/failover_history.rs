//! The failover history of a binding: each move with its clusters, time, reason and outcome.

use api::failover::{ANNOTATION_HISTORY, Move, REASON_FAILBACK};
use api::work::{BindingSpec, TargetCluster};
use jiff::Timestamp;
use object::Object;
use object::time::format_seconds;

use crate::eviction::Eviction;

/// Moves a binding remembers; the eldest is forgotten first.
pub const MOVES_MAX: usize = 10;

/// The moves of a binding, the eldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(pub Vec<Move>);

impl History {
    /// Entries that cannot be read are dropped: the history is for display and decides nothing.
    pub fn of(binding: &Object) -> Self {
        let text = binding.annotation(ANNOTATION_HISTORY).unwrap_or_default();
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// As the annotation holds it.
    pub fn text(&self) -> String {
        serde_json::to_string(&self.0).expect("plain texts and numbers can be written")
    }

    pub fn write_to(&self, binding: &mut Object) {
        binding.set(&["metadata", "annotations", ANNOTATION_HISTORY], self.text());
    }

    /// A workload has to leave a cluster.
    pub fn begin(&mut self, from: &str, replicas: Option<i32>, eviction: &Eviction, now: Timestamp) {
        self.0.push(Move {
            time: format_seconds(now),
            from: from.to_owned(),
            replicas,
            reason: eviction.reason.clone(),
            message: eviction.message.clone(),
            by: eviction.producer.clone(),
            ..Move::default()
        });
        let excess = self.0.len().saturating_sub(MOVES_MAX);
        self.0.drain(..excess);
    }

    /// It was decided where the workload goes. Says whether there was anything to note.
    pub fn place(&mut self, before: &[TargetCluster], after: &[TargetCluster], now: Timestamp) -> bool {
        let had = |name: &str| before.iter().find(|target| target.name == name).map(|target| target.replicas);
        let gained = after.iter().filter(|target| had(&target.name).is_none_or(|had| had < target.replicas));
        let gained: Vec<TargetCluster> = gained.cloned().collect();
        let mut is_news = false;
        for entry in &mut self.0 {
            let is_back = entry.returned.is_empty() && gained.iter().any(|target| target.name == entry.from);
            if is_back && entry.reason != REASON_FAILBACK {
                entry.returned = format_seconds(now);
                is_news = true;
            }
            if entry.to.is_none() {
                entry.to = Some(gained.clone());
                entry.placed = format_seconds(now);
                is_news = true;
            }
        }
        is_news
    }

    /// The copy in a cluster was given up, or the cluster keeps the workload after all. Says whether that was news.
    pub fn end(&mut self, from: &str, outcome: &str, stays: bool, now: Timestamp) -> bool {
        let open = self.0.iter_mut().rev().find(|entry| entry.from == from && entry.ended.is_empty());
        let Some(entry) = open else { return false };
        entry.ended = format_seconds(now);
        outcome.clone_into(&mut entry.outcome);
        if stays {
            entry.returned = format_seconds(now);
            entry.to.get_or_insert_default();
        }
        true
    }

    /// Clusters the workload left by failover and was not given to again. None while a move is under way: what must go
    /// somewhere may go back.
    pub fn left(&self, spec: &BindingSpec) -> Vec<String> {
        if self.0.iter().any(|entry| entry.to.is_none()) {
            return Vec::new();
        }
        let is_left = |entry: &&Move| {
            entry.reason != REASON_FAILBACK && entry.returned.is_empty() && spec.target(&entry.from).is_none()
        };
        let mut left: Vec<String> = self.0.iter().filter(is_left).map(|entry| entry.from.clone()).collect();
        left.sort();
        left.dedup();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn targets(list: &[(&str, i32)]) -> Vec<TargetCluster> {
        list.iter()
            .map(|(name, replicas)| TargetCluster {
                name: (*name).to_owned(),
                replicas: *replicas,
                ..TargetCluster::default()
            })
            .collect()
    }

    fn because(reason: &str) -> Eviction {
        Eviction { reason: reason.to_owned(), producer: "TaintManager".to_owned(), ..Eviction::default() }
    }

    fn left(history: &History, clusters: &[(&str, i32)]) -> Vec<String> {
        history.left(&BindingSpec { clusters: targets(clusters), ..BindingSpec::default() })
    }

    #[test]
    fn a_move_is_recorded_from_cause_to_end() {
        let mut history = History::default();
        history.begin("ottawa", Some(2), &because("TaintUntolerated"), at(0));
        assert!(left(&history, &[]).is_empty(), "it may go back: it is not placed yet");
        assert!(history.place(&[], &targets(&[("robbinsdale", 2)]), at(1)));
        assert!(!history.place(&targets(&[("robbinsdale", 2)]), &targets(&[("robbinsdale", 3)]), at(2)));
        assert_eq!(left(&history, &[("robbinsdale", 2)]), ["ottawa"]);
        assert!(history.end("ottawa", "HealthyElsewhere", false, at(5)));
        assert!(!history.end("ottawa", "HealthyElsewhere", false, at(6)), "it ends once");
        let text = history.text();
        let mut binding = Object::default();
        history.write_to(&mut binding);
        assert_eq!(History::of(&binding), history, "{text}");
        for part in ["\"from\":\"ottawa\"", "\"to\":[{\"name\":\"robbinsdale\",\"replicas\":2}]", "HealthyElsewhere"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_returned_workload_is_no_longer_failed_over() {
        let mut history = History::default();
        history.begin("ottawa", None, &because("TaintUntolerated"), at(0));
        history.place(&[], &targets(&[("robbinsdale", 2)]), at(1));
        history.begin("robbinsdale", None, &because(REASON_FAILBACK), at(10));
        assert!(history.place(&targets(&[("robbinsdale", 2)]), &targets(&[("ottawa", 2)]), at(10)));
        assert!(left(&history, &[("ottawa", 2)]).is_empty());
        assert!(left(&history, &[("elsewhere", 2)]).is_empty(), "what was left to come back is free to be used again");
        assert!(!history.0[0].returned.is_empty());
    }

    #[test]
    fn a_cancelled_eviction_leaves_no_record() {
        let mut history = History::default();
        history.begin("ottawa", Some(1), &because("TaintUntolerated"), at(0));
        assert!(history.end("ottawa", "Returned", true, at(3)));
        assert!(left(&history, &[("ottawa", 1)]).is_empty() && left(&history, &[]).is_empty());
    }

    #[test]
    fn the_oldest_moves_are_dropped_and_invalid_history_is_empty() {
        let mut history = History::default();
        for second in 0..25 {
            history.begin(&format!("m{second}"), None, &because("x"), at(second));
        }
        assert_eq!((history.0.len(), history.0[0].from.as_str()), (MOVES_MAX, "m15"));
        let mut binding = Object::default();
        binding.set(&["metadata", "annotations", ANNOTATION_HISTORY], "no list");
        assert_eq!(History::of(&binding), History::default());
    }
}
