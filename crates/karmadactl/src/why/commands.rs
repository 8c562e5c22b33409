//! Commands in an answer: adds the flags that select the control plane, so that they can be copied.

use serde_json::Value;

/// Commands that run a server and are not run against a control plane.
const SERVERS: [&str; 2] = ["server", "agent"];

/// Completes the commands in the texts of an answer.
pub fn complete(answer: &mut Value, program: &str, flags: &str) {
    match answer {
        Value::String(text) if text.contains("`flotilla ") => *text = complete_text(text, program, flags),
        Value::Array(items) => items.iter_mut().for_each(|item| complete(item, program, flags)),
        Value::Object(fields) => fields.values_mut().for_each(|value| complete(value, program, flags)),
        _ => {}
    }
}

/// Commands are in backticks; one may be a pipe of several.
fn complete_text(text: &str, program: &str, flags: &str) -> String {
    let parts = text.split('`').enumerate();
    let completed = parts.map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => part.split(" | ").map(|command| complete_command(command, program, flags)).collect::<Vec<_>>().join(" | "),
    });
    completed.collect::<Vec<_>>().join("`")
}

fn complete_command(command: &str, program: &str, flags: &str) -> String {
    let Some(words) = command.strip_prefix("flotilla ") else { return command.to_owned() };
    let is_server = SERVERS.contains(&words.split(' ').next().unwrap_or_default());
    let flags = if is_server { "" } else { flags };
    format!("{program} {words}{flags}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_select_the_same_control_plane() {
        let check = |text: &str, expected: &str| {
            let mut answer = json!({"stages": [{"nextStep": text}]});
            complete(&mut answer, "flotilla", " --name nc1");
            assert_eq!(answer["stages"][0]["nextStep"], expected);
        };
        check(
            "m1 is cordoned: `flotilla uncordon m1`, or wait",
            "m1 is cordoned: `flotilla uncordon m1 --name nc1`, or wait",
        );
        check(
            "`flotilla get a -o yaml | flotilla apply -f -`",
            "`flotilla get a -o yaml --name nc1 | flotilla apply -f - --name nc1`",
        );
        check("start `flotilla server --descheduler`", "start `flotilla server --descheduler`");
        check("no commands, only flotilla", "no commands, only flotilla");
    }
}
