//! Named formats, such as `format.dns1123Label().validate(x)`.

use super::url::Url;
use super::{CallContext, Function, no_overload_for};
use crate::value::time::Timestamp;
use crate::value::{Evaluated, Opaque, Value};
use base64::Engine as _;
use object::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

const BY_NAME: [(&str, NamedFormat); 13] = [
    ("dns1123Label", NamedFormat::Dns1123Label),
    ("dns1123Subdomain", NamedFormat::Dns1123Subdomain),
    ("dns1035Label", NamedFormat::Dns1035Label),
    ("qualifiedName", NamedFormat::QualifiedName),
    ("dns1123LabelPrefix", NamedFormat::Dns1123LabelPrefix),
    ("dns1123SubdomainPrefix", NamedFormat::Dns1123SubdomainPrefix),
    ("dns1035LabelPrefix", NamedFormat::Dns1035LabelPrefix),
    ("labelValue", NamedFormat::LabelValue),
    ("uri", NamedFormat::Uri),
    ("uuid", NamedFormat::Uuid),
    ("byte", NamedFormat::Byte),
    ("date", NamedFormat::Date),
    ("datetime", NamedFormat::Datetime),
];

pub(super) fn function(name: &str) -> Option<Function> {
    match name {
        "format.named" => return Some(named),
        "validate" => return Some(validate),
        _ => {}
    }
    let format = name.strip_prefix("format.")?;
    BY_NAME.iter().any(|(known, _)| *known == format).then_some(constant)
}

fn find<'a>(name: &str) -> Option<Value<'a>> {
    let (_, format) = BY_NAME.iter().find(|(known, _)| *known == name)?;
    Some(Value::Opaque(Opaque::Format(*format)))
}

/// `format.uri()`: the format is in the name of the function.
fn constant<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let name = context.call.function.strip_prefix("format.").unwrap_or_default();
    find(name).map_or_else(|| no_overload_for(context, args), Ok)
}

fn named<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(name)] = args else { return no_overload_for(context, args) };
    Ok(find(name).map_or(Value::Optional(None), Value::some))
}

fn validate<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Opaque(Opaque::Format(format)), Value::String(text)] = args else {
        return no_overload_for(context, args);
    };
    let complaints = format.complaints(text);
    if complaints.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(complaints.into_iter().map(Value::text).collect())))
}

impl NamedFormat {
    fn complaints(self, text: &str) -> Vec<String> {
        let unless = |valid: bool, complaint: &str| if valid { Vec::new() } else { vec![complaint.to_owned()] };
        match self {
            Self::Dns1123Label => names::dns1123_label(text),
            Self::Dns1123Subdomain => names::dns1123_subdomain(text),
            Self::Dns1035Label => names::dns1035_label(text),
            Self::QualifiedName => names::qualified_name(text),
            Self::Dns1123LabelPrefix => names::dns1123_label(&without_trailing_dash(text)),
            Self::Dns1123SubdomainPrefix => names::dns1123_subdomain(&without_trailing_dash(text)),
            Self::Dns1035LabelPrefix => names::dns1035_label(&without_trailing_dash(text)),
            Self::LabelValue => names::label_value(text),
            Self::Uri => Url::parse(text).err().into_iter().collect(),
            Self::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            Self::Byte => unless(is_base64(text), "invalid base64"),
            Self::Date => unless(Timestamp::parse_date(text).is_some(), "invalid date"),
            Self::Datetime => unless(Timestamp::parse(text).is_some(), "invalid datetime"),
        }
    }

    /// Length of the regular expression of the format, which determines its cost.
    pub(crate) fn regex_size_max(self) -> u64 {
        match self {
            Self::Dns1123Label | Self::Dns1035Label | Self::Dns1123LabelPrefix | Self::Dns1035LabelPrefix => 30,
            Self::Dns1123Subdomain | Self::Dns1123SubdomainPrefix | Self::QualifiedName => 60,
            Self::LabelValue => 40,
            Self::Uri => 1103,
            Self::Uuid => 70,
            Self::Byte => 84,
            Self::Date | Self::Datetime => 71,
        }
    }
}

/// A generated suffix will follow the dash, so a placeholder is checked instead.
fn without_trailing_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            format!("{}a", &rest[..rest.len() - rest.chars().next_back().map_or(0, char::len_utf8)])
        }
        _ => text.to_owned(),
    }
}

/// Groups of 8, 4, 4, 4 and 12 hexadecimal digits; each dash between them may be missing.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..length) {
            Some(group) if group.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest = &rest[length..],
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}
