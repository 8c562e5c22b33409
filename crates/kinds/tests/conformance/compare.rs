//! Collects differences between JSON documents and reports them all at once.

use serde_json::Value;

#[derive(Default)]
pub struct Differences {
    found: Vec<String>,
}

/// More lines do not help.
const SHOWN_MAX: usize = 60;

impl Differences {
    pub fn compare(&mut self, place: &str, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, value) in a {
                    match b.get(key) {
                        Some(other) => self.compare(&format!("{place} → {key}"), value, other),
                        None => self.found.push(format!("{place} → {key}: missing, is {}", short(value))),
                    }
                }
                for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                    self.found.push(format!("{place} → {key}: not there, we have {}", short(value)));
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (index, (value, other)) in a.iter().zip(b).enumerate() {
                    self.compare(&format!("{place}[{index}]"), value, other);
                }
            }
            // `{}` and no schema at all, 0 and 0.0, are equivalent.
            (a, b) if a == b || (a.is_number() && a.as_f64() == b.as_f64()) => {}
            (a, b) => self.found.push(format!("{place}: is {}, we have {}", short(a), short(b))),
        }
    }

    /// Compares only descriptions. Where a server explains the values of an enumeration we only name them; trailing
    /// white space is lost in `k8s-openapi`; embedded objects describe their fields as all objects do.
    pub fn compare_texts(&mut self, place: &str, theirs: &Value, ours: &Value) {
        let text = |schema: &Value| {
            let text = schema["description"].as_str().unwrap_or_default().to_owned();
            text.split("\n\nPossible enum values:").next().unwrap_or_default().trim_end().to_owned()
        };
        if text(theirs) != text(ours) {
            self.found.push(format!("{place}: text is {:?}, we have {:?}", text(theirs), text(ours)));
        }
        if theirs["x-kubernetes-embedded-resource"] == true {
            return;
        }
        for (name, property) in theirs["properties"].as_object().into_iter().flatten() {
            self.compare_texts(&format!("{place}.{name}"), property, &ours["properties"][name]);
        }
    }

    pub fn report(self) {
        let count = self.found.len();
        let shown = self.found.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n");
        assert!(count == 0, "{count} differences to a real server, among them:\n{shown}");
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 200 { text } else { format!("{}…", text.chars().take(200).collect::<String>()) }
}
