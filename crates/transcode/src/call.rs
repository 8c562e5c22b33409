//! The arguments and results of a call in either encoding.

use std::pin::Pin;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use object::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fields;
use crate::method::Message;

/// A stream of results.
pub type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The encoding of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Proto,
    Json,
}

/// The encoded argument of a call.
#[derive(Clone, Debug)]
pub enum Payload {
    Proto(Bytes),
    Json(Value),
}

/// Content with a media type, as `google.api.HttpBody`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpBody {
    #[prost(string, tag = "1")]
    pub content_type: String,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
}

impl<'de> serde::Deserialize<'de> for HttpBody {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase", default)]
        #[derive(Default)]
        struct Text {
            #[serde(alias = "content_type")]
            content_type: String,
            data: String,
        }
        let Text { content_type, data } = Text::deserialize(deserializer)?;
        let data = STANDARD.decode(data).map_err(serde::de::Error::custom)?;
        Ok(Self { content_type, data })
    }
}

impl Serialize for HttpBody {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"contentType": self.content_type, "data": STANDARD.encode(&self.data)}).serialize(serializer)
    }
}

/// Content with a media type as a result.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    pub content_type: String,
    pub data: Bytes,
    /// The version of what was written, for later reads.
    pub version: String,
}

impl Raw {
    pub fn json(data: impl Into<Bytes>) -> Self {
        Self { content_type: "application/json".to_owned(), data: data.into(), version: String::new() }
    }

    pub fn text(content_type: &str, data: impl Into<Bytes>) -> Self {
        Self { content_type: content_type.to_owned(), data: data.into(), version: String::new() }
    }

    fn to_proto(&self) -> Bytes {
        let body = HttpBody { content_type: self.content_type.clone(), data: self.data.to_vec() };
        prost::Message::encode_to_vec(&body).into()
    }
}

/// The encoded result of a call.
pub enum Reply {
    Message(Bytes),
    /// The same, with the version of what it shows, for later reads.
    Versioned(Bytes, String),
    Stream(Results<Bytes>),
    /// Content of a REST response; in gRPC it is a message.
    Raw(Raw),
    RawStream(Results<Raw>),
}

fn with_version(bytes: Bytes, version: &str) -> Reply {
    match version {
        "" => Reply::Message(bytes),
        version => Reply::Versioned(bytes, version.to_owned()),
    }
}

impl Payload {
    pub fn codec(&self) -> Codec {
        match self {
            Self::Proto(_) => Codec::Proto,
            Self::Json(_) => Codec::Json,
        }
    }

    /// Decodes the argument.
    pub fn read<T: prost::Message + Default + DeserializeOwned>(self) -> Result<T, Status> {
        match self {
            Self::Proto(bytes) => {
                T::decode(bytes).map_err(|error| Status::bad_request(format!("the message cannot be read: {error}")))
            }
            Self::Json(value) => serde_json::from_value(value).map_err(|error| Status::bad_request(error.to_string())),
        }
    }
}

impl Codec {
    fn encode<T: prost::Message + Serialize>(self, message: &T) -> Result<Bytes, Status> {
        match self {
            Self::Proto => Ok(message.encode_to_vec().into()),
            Self::Json => match serde_json::to_vec(message).map_err(Status::internal)? {
                // The empty message is `()` in Rust and `{}` in JSON.
                empty if empty == b"null" => Ok(Bytes::from_static(b"{}")),
                bytes => Ok(bytes.into()),
            },
        }
    }

    pub fn message<T: prost::Message + Serialize>(self, message: &T) -> Result<Reply, Status> {
        self.encode(message).map(Reply::Message)
    }

    /// A message with the version of what it shows, if there is one.
    pub fn versioned<T: prost::Message + Serialize>(self, message: &T, version: &str) -> Result<Reply, Status> {
        Ok(with_version(self.encode(message)?, version))
    }

    /// The fields of a message that the caller asked for; all without paths.
    pub fn selected<T: prost::Message + Default + Serialize + DeserializeOwned>(
        self,
        message: &T,
        (response, paths): (&Message, &[String]),
        version: &str,
    ) -> Result<Reply, Status> {
        if paths.is_empty() {
            return self.versioned(message, version);
        }
        let mut value = serde_json::to_value(message).map_err(Status::internal)?;
        fields::select(&mut value, response, paths);
        let bytes = match self {
            Self::Json => value.to_string().into(),
            Self::Proto => self.encode(&serde_json::from_value::<T>(value).map_err(Status::internal)?)?,
        };
        Ok(with_version(bytes, version))
    }

    pub fn stream<T: prost::Message + Serialize + 'static>(self, results: Results<T>) -> Reply {
        Reply::Stream(Box::pin(results.map(move |result| result.and_then(|message| self.encode(&message)))))
    }

    pub fn raw(self, raw: Raw) -> Reply {
        match self {
            Self::Proto => Reply::Message(raw.to_proto()),
            Self::Json => Reply::Raw(raw),
        }
    }

    pub fn raw_stream(self, results: Results<Raw>) -> Reply {
        match self {
            Self::Proto => Reply::Stream(Box::pin(results.map(|result| result.map(|raw| raw.to_proto())))),
            Self::Json => Reply::RawStream(results),
        }
    }
}
