//! The stream of changes of a watch, and the handle that reports its reader's progress.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};

use crate::error::{Error, Result};
use crate::etcd::watch::{RemoteProgress, RemoteWatch};
use crate::kv::{Event, Revision};
use crate::local::watcher::{LocalProgress, LocalWatch};
use crate::shifted::shift;
use crate::transform::{self, ValueTransformer};

/// Consecutive changes of the watched prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchBatch {
    /// In order of revision; the events of one revision are never split over two batches. Empty in a progress batch.
    pub events: Vec<Event>,
    /// No event at or below this revision is still to come.
    pub revision: Revision,
}

/// Yields batches until the watch ends: with an error, which is the last item, or because the store was closed.
///
/// Polling for the next batch marks the previous one as processed; [`ProgressHandle`] reports this.
pub struct WatchStream {
    source: StreamSource,
    /// Added to every revision delivered.
    offset: Revision,
    transformer: Option<Arc<dyn ValueTransformer>>,
    /// A batch whose values wait for a remote call. The source is not polled meanwhile, so its progress stays true.
    opening: Option<BoxFuture<'static, Result<WatchBatch>>>,
}

enum StreamSource {
    Local(LocalWatch),
    Remote(RemoteWatch),
}

impl WatchStream {
    pub(crate) fn local(watch: LocalWatch) -> Self {
        Self::of(StreamSource::Local(watch))
    }

    pub(crate) fn remote(watch: RemoteWatch) -> Self {
        Self::of(StreamSource::Remote(watch))
    }

    fn of(source: StreamSource) -> Self {
        WatchStream { source, offset: 0, transformer: None, opening: None }
    }

    /// The same changes with the values callers see.
    pub(crate) fn transformed(self, transformer: Arc<dyn ValueTransformer>) -> Self {
        WatchStream { transformer: Some(transformer), ..self }
    }

    /// The same changes with revisions shifted by `offset`.
    pub(crate) fn shifted(self, offset: Revision) -> Self {
        WatchStream { offset: self.offset + offset, ..self }
    }

    /// The next batch; `None` after the end.
    pub async fn next(&mut self) -> Option<Result<WatchBatch>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// A handle to wait for the reader of this watch, such as for a cache that it feeds.
    pub fn progress(&self) -> ProgressHandle {
        match &self.source {
            StreamSource::Local(watch) => ProgressHandle { kind: Kind::Local(watch.progress()), offset: self.offset },
            StreamSource::Remote(watch) => ProgressHandle { kind: Kind::Remote(watch.progress()), offset: self.offset },
        }
    }
}

fn shift_batch(batch: WatchBatch, offset: Revision) -> WatchBatch {
    let shift_event = |event: Event| Event {
        kv: shift(event.kv, offset),
        prev: event.prev.map(|prev| shift(prev, offset)),
        kind: event.kind,
    };
    WatchBatch { events: batch.events.into_iter().map(shift_event).collect(), revision: batch.revision + offset }
}

fn shift_error(error: Error, offset: Revision) -> Error {
    match error {
        Error::Compacted { requested, compacted } => {
            Error::Compacted { requested: requested + offset, compacted: compacted + offset }
        }
        other => other,
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.opening.is_none() {
            let next = ready!(self.poll_source(cx));
            let Some(transformer) = self.transformer.clone() else { return Poll::Ready(next) };
            let batch = match next {
                Some(Ok(batch)) => batch,
                ended => return Poll::Ready(ended),
            };
            match transform::open_batch_now(&*transformer, batch) {
                Ok(opened) => return Poll::Ready(Some(opened)),
                Err(batch) => self.opening = Some(transform::open_batch(transformer, batch).boxed()),
            }
        }
        let Some(opening) = &mut self.opening else { return Poll::Ready(None) };
        let opened = ready!(opening.as_mut().poll(cx));
        self.opening = None;
        Poll::Ready(Some(opened))
    }
}

impl WatchStream {
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchBatch>>> {
        let next = match &mut self.source {
            StreamSource::Local(watch) => watch.poll_next(cx),
            StreamSource::Remote(watch) => watch.poll_next(cx),
        };
        match (next, self.offset) {
            (next, 0) => next,
            (Poll::Ready(Some(Ok(batch))), offset) => Poll::Ready(Some(Ok(shift_batch(batch, offset)))),
            (Poll::Ready(Some(Err(error))), offset) => Poll::Ready(Some(Err(shift_error(error, offset)))),
            (next, _) => next,
        }
    }
}

/// The progress of a [`WatchStream`]'s reader.
#[derive(Clone)]
pub struct ProgressHandle {
    kind: Kind,
    offset: Revision,
}

#[derive(Clone)]
enum Kind {
    Local(LocalProgress),
    Remote(RemoteProgress),
}

impl ProgressHandle {
    /// The newest revision up to which the reader has processed every event of its prefix.
    ///
    /// On local engines this is exact at no cost: without pending changes it is the store's current revision.
    pub fn applied(&self) -> Revision {
        match &self.kind {
            Kind::Local(progress) => progress.applied() + self.offset,
            Kind::Remote(progress) => progress.applied() + self.offset,
        }
    }

    /// Requests a progress batch from the store.
    pub fn request(&self) {
        match &self.kind {
            Kind::Local(progress) => progress.request(),
            Kind::Remote(progress) => progress.request(),
        }
    }

    /// Waits until [`applied`](Self::applied) is at least `revision`. Fails with [`crate::Error::Closed`] if the
    /// watch ends first.
    pub async fn wait(&self, revision: Revision) -> Result<()> {
        let revision = revision.saturating_sub(self.offset);
        match &self.kind {
            Kind::Local(progress) => progress.wait(revision).await,
            Kind::Remote(progress) => progress.wait(revision).await,
        }
    }
}
