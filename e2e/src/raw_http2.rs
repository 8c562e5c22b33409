//! An HTTP/2 client of single frames: it opens, resets and starves streams as no well-behaved client does.

use crate::raw_client::{RawClient, RawConnection};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: u32 = 8;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// Frames are collected up to this size before they are sent.
const BATCH_BYTES: usize = 16_384;

/// A connection that never reads.
pub struct RawHttp2 {
    connection: RawConnection,
    token: String,
    next_stream: u32,
    batch: Vec<u8>,
}

impl RawHttp2 {
    pub fn connect(client: &RawClient, token: &str) -> std::io::Result<Self> {
        let mut http2 =
            Self { connection: client.connect()?, token: token.to_owned(), next_stream: 1, batch: PREFACE.to_vec() };
        http2.frame(SETTINGS, 0, 0, &[])?;
        Ok(http2)
    }

    /// Allows the server no byte of any response body.
    pub fn close_window(&mut self) -> std::io::Result<()> {
        let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &0_u32.to_be_bytes()].concat();
        self.frame(SETTINGS, 0, 0, &setting)
    }

    /// Sends the header of a request that has no body, and returns its stream.
    pub fn get(&mut self, path: &str) -> std::io::Result<u32> {
        let header = self.header(&[0x82], path);
        self.open(END_HEADERS | END_STREAM, &header)
    }

    /// Sends the header of a request with a JSON body of this length, without the body.
    pub fn begin_post(&mut self, path: &str, length: usize) -> std::io::Result<u32> {
        let mut header = self.header(&[0x83], path);
        header.extend(literal(28, &length.to_string()));
        header.extend(literal(31, "application/json"));
        self.open(END_HEADERS, &header)
    }

    /// Sends a part of a body.
    pub fn body(&mut self, stream: u32, bytes: &[u8]) -> std::io::Result<()> {
        self.frame(DATA, 0, stream, bytes)
    }

    pub fn reset(&mut self, stream: u32) -> std::io::Result<()> {
        self.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
    }

    /// Sends what was collected.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.connection.send_bytes(&std::mem::take(&mut self.batch))
    }

    fn open(&mut self, flags: u8, header: &[u8]) -> std::io::Result<u32> {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.frame(HEADERS, flags, stream, header)?;
        Ok(stream)
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> std::io::Result<()> {
        let length = u32::try_from(payload.len()).expect("a small frame");
        self.batch.extend_from_slice(&length.to_be_bytes()[1..]);
        self.batch.extend_from_slice(&[kind, flags]);
        self.batch.extend_from_slice(&stream.to_be_bytes());
        self.batch.extend_from_slice(payload);
        if self.batch.len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// The pseudo headers and the token, none of them in the dynamic table.
    fn header(&self, method: &[u8], path: &str) -> Vec<u8> {
        const SCHEME_HTTPS: u8 = 0x87;
        let authorization = literal(23, &format!("Bearer {}", self.token));
        [method, &[SCHEME_HTTPS], &literal(4, path), &literal(1, "localhost"), &authorization].concat()
    }
}

/// A field with a name of the static table and a literal value (RFC 7541, 6.2.2), for values of less than 127 bytes.
fn literal(name: u8, value: &str) -> Vec<u8> {
    let length = u8::try_from(value.len()).ok().filter(|length| *length < 127).expect("a short value");
    let mut field = if name < 15 { vec![name] } else { vec![15, name - 15] };
    field.push(length);
    field.extend_from_slice(value.as_bytes());
    field
}
