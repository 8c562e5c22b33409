//! The current interpreter, shared by all users while customizations change.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::tiers::Interpreter;

/// One per control plane; clones share it.
#[derive(Clone)]
pub struct Shared {
    current: Arc<ArcSwap<Interpreter>>,
}

impl Shared {
    pub fn new(interpreter: Interpreter) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(interpreter)) }
    }

    pub fn load(&self) -> Arc<Interpreter> {
        self.current.load_full()
    }

    pub fn replace(&self, interpreter: Interpreter) {
        self.current.store(Arc::new(interpreter));
    }
}
