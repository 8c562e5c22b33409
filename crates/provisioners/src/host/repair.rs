//! Applies repairs and reports their results.

use std::process::{Command, Stdio};

use serde::Serializer;

use super::Repair;

/// Applies a repair. Advice cannot be applied automatically.
pub fn apply(repair: &Repair) -> Result<(), String> {
    match repair {
        Repair::Advice(text) => Err(format!("this must be done manually: {text}")),
        Repair::Set { path, value } => std::fs::write(path, value).map_err(|error| error.to_string()),
        Repair::Run(words) => {
            let (program, arguments) = words.split_first().ok_or("the command is empty")?;
            let mut command = Command::new(program);
            command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
            let output = command.output().map_err(|error| format!("{program}: {error}"))?;
            if output.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(if said.is_empty() { format!("{program}: {}", output.status) } else { said })
        }
    }
}

pub fn as_text<S: Serializer>(repair: &Option<Repair>, serializer: S) -> Result<S::Ok, S::Error> {
    match repair {
        Some(repair) => serializer.collect_str(repair),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_applied_or_reports_its_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("setting").display().to_string();
        apply(&Repair::Set { path: path.clone(), value: "1".into() }).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1");
        assert!(apply(&Repair::Run(vec!["true".into()])).is_ok());
        let words = ["ls", "/nonexistent"].map(str::to_owned).to_vec();
        assert!(apply(&Repair::Run(words)).unwrap_err().contains("/nonexistent"));
        assert!(apply(&Repair::Advice("rest".into())).unwrap_err().contains("rest"));
    }
}
