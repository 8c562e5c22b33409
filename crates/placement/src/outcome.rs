//! The result of placing a pod, and its messages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Reason = Cow<'static, str>;

/// The node a pod is placed on, or the reasons why there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementResult {
    pub node: Option<Arc<str>>,
    /// The sum of the node's weighted scores; zero if it was the only feasible node.
    pub score: i64,
    /// Number of feasible nodes.
    pub feasible: usize,
    pub refusals: Refusals,
}

/// Reasons for refusing nodes, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refusals {
    /// Number of nodes.
    pub nodes: usize,
    /// The reason why no node was checked.
    pub up_front: Option<String>,
    pub reasons: BTreeMap<Reason, usize>,
    /// Nodes that may become feasible by preemption.
    pub(crate) resolvable: Vec<u32>,
    /// Number of nodes that preemption cannot make feasible.
    pub(crate) unresolvable: usize,
}

/// The reason why one node was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub reasons: Vec<Reason>,
    /// Preemption may make the node feasible.
    pub is_resolvable: bool,
}

impl Refusal {
    pub fn for_good(reason: &'static str) -> Self {
        Self { reasons: vec![reason.into()], is_resolvable: false }
    }

    pub fn for_now(reason: &'static str) -> Self {
        Self { reasons: vec![reason.into()], is_resolvable: true }
    }
}

impl Refusals {
    pub(crate) fn add(&mut self, node: u32, refusal: Refusal) {
        for reason in refusal.reasons {
            *self.reasons.entry(reason).or_insert(0) += 1;
        }
        match refusal.is_resolvable {
            true => self.resolvable.push(node),
            false => self.unresolvable += 1,
        }
    }

    /// Adds the same refusal for many nodes that were not checked one by one.
    pub(crate) fn add_unseen(&mut self, reason: Reason, count: usize) {
        if count > 0 {
            *self.reasons.entry(reason).or_insert(0) += count;
            self.unresolvable += count;
        }
    }

    /// Formatted as in kube-scheduler: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
    pub fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut message = format!("0/{} nodes are available:", self.nodes);
        match &self.up_front {
            Some(reason) => message.push_str(&format!(" {reason}.")),
            None => {
                let mut counted: Vec<String> =
                    self.reasons.iter().map(|(text, count)| format!("{count} {text}")).collect();
                counted.sort();
                if !counted.is_empty() {
                    message.push_str(&format!(" {}.", counted.join(", ")));
                }
            }
        }
        message
    }
}
