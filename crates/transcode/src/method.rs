//! The description of an RPC, as generated from its proto file.

/// An RPC with its routes.
#[derive(Debug)]
pub struct Method {
    /// Full name of the service, such as `flotilla.manager.v1alpha1.InstanceService`.
    pub service: &'static str,
    pub name: &'static str,
    pub routes: &'static [HttpRoute],
    pub request: &'static Message,
    /// The fields of the result, if callers can select some.
    pub response: Option<&'static Message>,
    pub output: Output,
    /// The permission a caller needs.
    pub permission: &'static str,
}

/// The form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Message,
    Stream,
    /// Bytes with a media type.
    Raw,
    RawStream,
}

/// An HTTP route of an RPC.
#[derive(Debug)]
pub struct HttpRoute {
    pub verb: &'static str,
    /// A path with `{field}` in place of values, and an optional `:verb` at its end.
    pub template: &'static str,
    /// The field that is the request body: empty for none, `*` for the whole request.
    pub body: &'static str,
}

/// The fields of a message.
#[derive(Debug)]
pub struct Message {
    pub fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub json: &'static str,
    pub kind: FieldKind,
    pub repeated: bool,
}

/// The type of a field as far as parameters of a URL depend on it.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// Strings, and everything that JSON writes as a string.
    Text,
    Bool,
    Integer,
    Float,
    Message(&'static Message),
    /// Content with a media type, which is the request body itself.
    Raw,
    /// Cannot be given as a parameter.
    Other,
}

impl Method {
    pub fn is_stream(&self) -> bool {
        matches!(self.output, Output::Stream | Output::RawStream)
    }
}

impl Message {
    /// Finds a field by its proto or JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name || field.json == name)
    }
}
