//! Watches that last as long as a measurement and report every event.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::wire::{Call, ServerTarget};

/// Delay before a broken watch is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// Stops all its watches when dropped.
#[derive(Default)]
pub struct Watches(JoinSet<()>);

impl Watches {
    /// Calls a function with every event. Servers close slow watches; a reopened watch starts with all objects, so
    /// the function must accept duplicates.
    pub fn follow(&mut self, target: ServerTarget, path: String, mut on_event: impl FnMut(&Value) + Send + 'static) {
        self.0.spawn(async move {
            loop {
                // A stopped server is detected elsewhere.
                let _ = follow_once(&target, &path, &mut on_event).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    /// Runs a task that ends with the watches.
    pub fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(work);
    }
}

async fn follow_once(target: &ServerTarget, path: &str, on_event: &mut impl FnMut(&Value)) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    let (_, body) = connection.open(Call::get(path.to_owned())).await?;
    let mut frames = body.into_data_stream();
    let mut buffer = BytesMut::new();
    while let Some(frame) = frames.next().await {
        buffer.extend_from_slice(&frame?);
        while let Some(end) = memchr::memchr(b'\n', &buffer) {
            let event: Value = serde_json::from_slice(&buffer[..end])?;
            buffer.advance(end + 1);
            on_event(&event);
        }
    }
    Ok(())
}

pub fn name_of(event: &Value) -> String {
    event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
