//! The exit status of a command, as encoded on the error channel.

use object::Status;
use serde_json::{Value, json};

use crate::backend::{ExitStatus, Refusal};

/// The `Status` that newer protocols end with.
pub fn to_status(outcome: &Result<ExitStatus, Refusal>) -> Value {
    match outcome {
        Ok(ExitStatus::Success) => json!({"metadata": {}, "status": "Success"}),
        Ok(ExitStatus::Code(code)) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Ok(ExitStatus::Failed(message)) => {
            Status::internal(format!("error executing command in container: {message}")).to_value()
        }
        Err(refusal) => Status::internal(&refusal.message).to_value(),
    }
}

/// The text that older protocols end with: empty on success.
pub fn to_text(outcome: &Result<ExitStatus, Refusal>) -> String {
    match outcome {
        Ok(ExitStatus::Success) => String::new(),
        Ok(ExitStatus::Code(code)) => {
            format!(
                "error executing command in container: command terminated with non-zero exit code: exit status {code}"
            )
        }
        Ok(ExitStatus::Failed(message)) => format!("error executing command in container: {message}"),
        Err(refusal) => refusal.message.clone(),
    }
}

/// Parses either form.
pub fn from_bytes(bytes: &[u8]) -> ExitStatus {
    let Ok(status) = serde_json::from_slice::<Value>(bytes) else {
        let text = String::from_utf8_lossy(bytes).trim().to_owned();
        return if text.is_empty() { ExitStatus::Success } else { ExitStatus::Failed(text) };
    };
    if status["status"] == "Success" {
        return ExitStatus::Success;
    }
    let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let code = causes.iter().find(|cause| cause["reason"] == "ExitCode").and_then(|cause| cause["message"].as_str());
    match code.and_then(|code| code.parse().ok()) {
        Some(code) => ExitStatus::Code(code),
        None => ExitStatus::Failed(status["message"].as_str().unwrap_or("unknown error").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_of_a_command_round_trips() {
        for end in [ExitStatus::Success, ExitStatus::Code(3), ExitStatus::Code(137)] {
            assert_eq!(from_bytes(to_status(&Ok(end.clone())).to_string().as_bytes()), end);
        }
        let refused = Err(Refusal { code: 500, message: "no such file".into() });
        let ExitStatus::Failed(text) = from_bytes(to_status(&refused).to_string().as_bytes()) else {
            panic!("it did not run")
        };
        assert!(text.contains("no such file"), "{text}");
        assert_eq!(from_bytes(b""), ExitStatus::Success);
        assert_eq!(from_bytes(b"boom"), ExitStatus::Failed("boom".into()));
    }
}
