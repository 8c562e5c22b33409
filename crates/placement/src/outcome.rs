//! What came of trying to place a pod, and the words in which users are told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Reason = Cow<'static, str>;

/// Where a pod goes, or why it goes nowhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub node: Option<Arc<str>>,
    /// The sum of weighted scores of that node; zero when there was no choice.
    pub score: i64,
    /// How many nodes would have done.
    pub feasible: usize,
    pub refusals: Refusals,
}

/// Why nodes were refused, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refusals {
    /// Nodes there are.
    pub nodes: usize,
    /// Why no node was looked at.
    pub up_front: Option<String>,
    pub reasons: BTreeMap<Reason, usize>,
    /// Nodes that would do, perhaps, if pods left them.
    pub(crate) resolvable: Vec<u32>,
    /// Nodes that were refused for something that no leaving pod changes.
    pub(crate) unresolvable: usize,
}

/// Why one node was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub reasons: Vec<Reason>,
    /// Pods that leave may make it fit.
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

    /// The same refusal of many nodes that were not looked at one by one.
    pub(crate) fn add_unseen(&mut self, reason: Reason, count: usize) {
        if count > 0 {
            *self.reasons.entry(reason).or_insert(0) += count;
            self.unresolvable += count;
        }
    }

    /// As kube-scheduler words it: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
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
