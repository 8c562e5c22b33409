//! The runtime of controllers, apart from that of requests.

use anyhow::Context;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::dispatch::STACK_BYTES;

/// Shuts the runtime down when dropped, without waiting for its tasks.
pub struct Background(Option<Runtime>);

impl Background {
    pub fn start() -> anyhow::Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        runtime.enable_all().thread_name("controllers").thread_stack_size(STACK_BYTES);
        Ok(Self(Some(runtime.build().context("cannot start the runtime of the controllers")?)))
    }

    pub fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which an asynchronous caller must not.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
