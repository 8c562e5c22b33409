//! Decodes watch events from a stream of JSON lines.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object::{Object, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::call::WatchEvent;
use crate::remote::bounded::{MemoryBudget, OBJECT_MEMORY_MAX, read_map};

/// Longest line that is read: several times the largest object an API server takes.
pub const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Takes the text of an object that cannot be read, and the reason.
type NoteUnreadable = Box<dyn Fn(&str, &serde_json::Error) + Send>;

/// Cuts bytes into lines and reads an event from each.
pub struct EventDecoder {
    note: NoteUnreadable,
    buffer: BytesMut,
    /// The buffer has no line end before this index, so that a long line is searched once.
    searched: usize,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl EventDecoder {
    /// `note` is called for objects that cannot be read. Their events are skipped: one object must not end the
    /// watch of all others of its kind.
    pub fn new(note: impl Fn(&str, &serde_json::Error) + Send + 'static) -> Self {
        Self { note: Box::new(note), buffer: BytesMut::new(), searched: 0 }
    }

    pub fn clear(&mut self) {
        self.buffer = BytesMut::new();
        self.searched = 0;
    }

    pub fn push(&mut self, bytes: &Bytes) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event, if one has arrived.
    pub fn next_event(&mut self) -> Option<WatchEvent> {
        while let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            if let Some(event) = self.decode_line(&line) {
                return Some(event);
            }
        }
        self.searched = self.buffer.len();
        (self.buffer.len() > LINE_BYTES_MAX).then(|| {
            self.buffer.clear();
            self.searched = 0;
            WatchEvent::Error(Status::internal(format!("a watch event is longer than {LINE_BYTES_MAX} bytes")))
        })
    }

    /// The rest when the stream ends. A partial line means that the connection broke.
    pub fn finish(&mut self) -> Option<WatchEvent> {
        let rest = std::mem::take(&mut self.buffer);
        self.searched = 0;
        match serde_json::from_slice::<Line<'_>>(&rest) {
            Ok(line) => self.read_line(&line),
            Err(_) => None,
        }
    }

    /// `None` for an empty line.
    fn decode_line(&self, line: &[u8]) -> Option<WatchEvent> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        match serde_json::from_slice::<Line<'_>>(line) {
            Ok(line) => self.read_line(&line),
            Err(e) => Some(WatchEvent::Error(Status::internal(format!("a watch event is not understood: {e}")))),
        }
    }

    /// `None` for an object that cannot be read.
    fn read_line(&self, line: &Line<'_>) -> Option<WatchEvent> {
        match read_map(line.object.get().as_bytes(), &MemoryBudget::new(OBJECT_MEMORY_MAX)) {
            Ok(map) => Some(event(&line.r#type, Object::from_map(map))),
            Err(error) if line.r#type == "ERROR" || line.r#type == "BOOKMARK" => {
                Some(WatchEvent::Error(Status::internal(format!("a watch event is not understood: {error}"))))
            }
            Err(error) => {
                (self.note)(line.object.get(), &error);
                None
            }
        }
    }
}

fn event(kind: &str, object: Object) -> WatchEvent {
    match kind {
        "ADDED" => WatchEvent::Added(Arc::new(object)),
        "MODIFIED" => WatchEvent::Modified(Arc::new(object)),
        "DELETED" => WatchEvent::Deleted(Arc::new(object)),
        "BOOKMARK" => WatchEvent::Bookmark {
            resource_version: object.resource_version().to_owned(),
            initial_events_end: object.annotation(INITIAL_EVENTS_END) == Some("true"),
        },
        "ERROR" => {
            let code = object.i64_at(&["code"]).and_then(|c| u16::try_from(c).ok()).unwrap_or(500);
            WatchEvent::Error(Status::from_response(code, &object.encode()))
        }
        other => WatchEvent::Error(Status::internal(format!("unknown type of watch event: {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str, chunk: usize) -> Vec<String> {
        let mut decoder = EventDecoder::new(|_, _| {});
        let mut events = Vec::new();
        for bytes in text.as_bytes().chunks(chunk) {
            decoder.push(&Bytes::copy_from_slice(bytes));
            events.extend(std::iter::from_fn(|| decoder.next_event()));
        }
        events.extend(decoder.finish());
        events.iter().map(describe).collect()
    }

    fn describe(event: &WatchEvent) -> String {
        match event {
            WatchEvent::Added(o) => format!("+{}", o.name()),
            WatchEvent::Modified(o) => format!("~{}", o.name()),
            WatchEvent::Deleted(o) => format!("-{}", o.name()),
            WatchEvent::Bookmark { resource_version, initial_events_end } => {
                format!("@{resource_version}{}", if *initial_events_end { "!" } else { "" })
            }
            WatchEvent::Error(status) => format!("E{} {}", status.code, status.reason),
        }
    }

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let long = "x".repeat(5000);
        let text = format!(
            "{}\n\n{}\n{}\n{}\n{}",
            format_args!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a"}},"data":"{long}"}}}}"#),
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            r#"{"type":"DELETED","object":{"metadata":{"name":"b"}}}"#,
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#,
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"last line without its end"}}}"#,
        );
        for chunk in [1, 7, 1000, 1 << 20] {
            let expected = ["+a", "@9!", "-b", "E410 Expired", "~last line without its end"];
            assert_eq!(events(&text, chunk), expected, "chunks of {chunk}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_does_not_end_the_watch() {
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        let wide = vec![r#"{"":0}"#; 200_000].join(",");
        let text = format!(
            "{}\n{}\n{}\n{}\n",
            format_args!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"deep"}},"spec":{deep}}}}}"#),
            format_args!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"wide"}},"spec":[{wide}]}}}}"#),
            r#"{"type":"MODIFIED","object":[]}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"next"}}}"#,
        );
        assert_eq!(events(&text, 4096), ["+next"]);
    }

    #[test]
    fn an_incomplete_last_line_is_no_event_and_invalid_json_is_an_error() {
        assert_eq!(events(r#"{"type":"ADDED","obj"#, 100), Vec::<String>::new());
        assert_eq!(events("rubbish\n", 100), ["E500 InternalError"]);
    }
}
