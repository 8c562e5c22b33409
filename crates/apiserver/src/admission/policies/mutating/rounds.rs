//! The two rounds of mutating policies for one write: in the second, those run again that allow it and whose result something
//! may have overwritten since.

use std::collections::BTreeSet;

use object::Object;
use parking_lot::Mutex;

/// The record of mutating policies on one write.
#[derive(Default)]
pub struct PolicyRounds(Mutex<State>);

/// A policy under a binding with a parameter, by their names.
pub(super) type InvocationKey = (String, String, String);

#[derive(Default)]
struct State {
    /// Set after the first round.
    output: Option<Object>,
    changed: bool,
    /// Ran, and may run again.
    willing: BTreeSet<InvocationKey>,
    /// To run again because something changed after they did.
    again: BTreeSet<InvocationKey>,
}

impl PolicyRounds {
    /// Returns true when mutations applied, so that the steps before them must see the object once more.
    pub fn changed(&self) -> bool {
        self.0.lock().changed
    }

    /// Starts a round. In the second, a change since the first asks all willing policies to run again.
    pub(super) fn start(&self, object: &Object) {
        let mut state = self.0.lock();
        if state.output.as_ref().is_some_and(|output| output != object) {
            state.note_change();
        }
    }

    pub(super) fn runs(&self, key: &InvocationKey) -> bool {
        let state = self.0.lock();
        state.output.is_none() || state.again.contains(key)
    }

    /// Notes that a policy ran: whether it changed the object, and whether any of its mutations applied.
    pub(super) fn ran(&self, key: InvocationKey, changed: bool, applied: bool, reinvocable: bool) {
        let mut state = self.0.lock();
        state.changed |= applied;
        if changed {
            state.note_change();
        }
        if reinvocable {
            state.willing.insert(key);
        }
    }

    /// Ends a round. As in kube-apiserver, after the first one every willing policy runs again if any mutation applied, the
    /// last one included.
    pub(super) fn end(&self, object: &Object) {
        let mut state = self.0.lock();
        if state.output.is_none() && state.changed {
            state.note_change();
        }
        state.output = Some(object.clone());
    }
}

impl State {
    fn note_change(&mut self) {
        self.again.append(&mut self.willing);
    }
}
