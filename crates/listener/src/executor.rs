//! Runs the streams of an HTTP/2 connection: short reads within the task of the connection, all others in tasks of their own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use http::{Method, Request};
use http_body::Body;

/// The executor of one connection.
#[derive(Clone, Default)]
pub struct StreamExecutor {
    /// The next stream is likely to answer without waiting.
    is_short: Arc<AtomicBool>,
}

impl StreamExecutor {
    /// Notes the request whose stream is executed next. Most gets answer from memory: a task for each of them, and waking the
    /// connection to send the answer, would cost as much as the answer. With other requests open, tasks let several
    /// processors work on them, and a slow one delays no other.
    pub fn expect<B: Body>(&self, request: &Request<B>, is_alone: bool) {
        let is_get = request.method() == Method::GET && request.body().is_end_stream();
        self.is_short.store(is_alone && is_get && request.uri().query().is_none(), Ordering::Relaxed);
    }
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        if !self.is_short.swap(false, Ordering::Relaxed) {
            tokio::spawn(stream);
            return;
        }
        let mut stream = Box::pin(stream);
        // A task polls it again at once and is woken from then on.
        if stream.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::rt::Executor;
    use tokio::sync::oneshot;

    use super::*;

    fn request(method: &str, uri: &str) -> Request<String> {
        Request::builder().method(method).uri(uri).body(String::new()).expect("a request")
    }

    /// Executes a stream for a request and reports whether it has run when `execute` returns.
    async fn check(method: &str, uri: &str, is_alone: bool, expected: bool) {
        let executor = StreamExecutor::default();
        executor.expect(&request(method, uri), is_alone);
        let (sender, mut receiver) = oneshot::channel();
        executor.execute(async move {
            let _ = sender.send(());
        });
        assert_eq!(receiver.try_recv().is_ok(), expected, "{method} {uri}");
        if !expected {
            receiver.await.expect("runs in a task");
        }
    }

    #[tokio::test]
    async fn short_reads_run_at_once_and_others_in_tasks() {
        check("GET", "/api/v1/namespaces/a/configmaps/b", true, true).await;
        check("GET", "/api/v1/namespaces/a/configmaps/b", false, false).await;
        check("GET", "/api/v1/configmaps?watch=1", true, false).await;
        check("POST", "/api/v1/namespaces/a/configmaps", true, false).await;
    }

    #[tokio::test]
    async fn a_read_that_waits_goes_on_in_a_task() {
        let executor = StreamExecutor::default();
        executor.expect(&request("GET", "/a"), true);
        let (go, gone) = oneshot::channel::<()>();
        let (sender, receiver) = oneshot::channel();
        executor.execute(async move {
            gone.await.expect("sent");
            let _ = sender.send(());
        });
        go.send(()).expect("still waiting");
        receiver.await.expect("runs in a task");
    }
}
