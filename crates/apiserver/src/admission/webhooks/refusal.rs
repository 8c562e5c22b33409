//! Turns the refusal of a webhook into the status for the client.

use object::Status;
use serde_json::{Value, json};

/// The refusal a webhook gave, under its own code and reason and with its name in the message.
pub fn denied(webhook: &str, result: Option<&Value>) -> Status {
    let text = |key: &str| result.and_then(|result| result[key].as_str()).unwrap_or_default();
    let code = result.and_then(|result| result["code"].as_u64()).and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let subject = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{subject} without explanation"),
        ("", reason) => format!("{subject}: {reason}"),
        (message, _) => format!("{subject}: {message}"),
    };
    let mut shown = result.filter(|result| result.is_object()).cloned().unwrap_or_else(|| json!({}));
    shown["kind"] = "Status".into();
    shown["code"] = code.into();
    shown["message"] = message.into();
    let mut status = Status::from_response(code, shown.to_string().as_bytes());
    // A webhook that gives no reason leaves the client with none.
    if text("reason").is_empty() {
        status.reason = "";
    }
    status
}

/// Returns the text of client libraries for an HTTP status without a `Status` object.
pub fn of_code(code: u16, body: &str) -> String {
    let text = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => body,
        404 => object::status::RESOURCE_NOT_SERVED,
        405 => object::status::METHOD_NOT_SERVED,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            let body = object::field::go_quote(body);
            return format!("an error on the server ({body}) has prevented the request from succeeding");
        }
        _ => return format!("the server responded with the status code {code} but did not return more information"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: Value, code: u16, reason: &str, message: &str) {
        let status = denied("x.example.com", Some(&result));
        assert_eq!((status.code, status.reason, status.message.as_str()), (code, reason, message), "{result}");
    }

    #[test]
    fn the_webhook_chooses_code_and_reason_but_not_success() {
        let named = "admission webhook \"x.example.com\" denied the request";
        check(json!({"message": "no"}), 400, "", &format!("{named}: no"));
        check(json!({"message": "no", "code": 200}), 400, "", &format!("{named}: no"));
        check(json!({"code": 403, "reason": "Forbidden"}), 403, "Forbidden", &format!("{named}: Forbidden"));
        check(json!({"code": 422, "reason": "Invalid", "message": "m"}), 422, "Invalid", &format!("{named}: m"));
        check(json!({}), 400, "", &format!("{named} without explanation"));
        check(Value::Null, 400, "", &format!("{named} without explanation"));
    }
}
