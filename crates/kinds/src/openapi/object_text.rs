//! Writes a large JSON object member by member, so that its whole tree never exists at once.

use serde_json::Value;

#[derive(Default)]
pub struct ObjectText {
    members: Vec<u8>,
}

impl ObjectText {
    pub fn member(&mut self, name: &str, value: &Value) {
        self.text_member(name, value.to_string().as_bytes());
    }

    /// A member whose value is already JSON text.
    pub fn text_member(&mut self, name: &str, text: &[u8]) {
        if !self.members.is_empty() {
            self.members.push(b',');
        }
        self.members.extend(Value::from(name).to_string().as_bytes());
        self.members.push(b':');
        self.members.extend(text);
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn finish(self) -> Vec<u8> {
        let mut text = self.members;
        text.insert(0, b'{');
        text.push(b'}');
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn written_objects_parse_back() {
        let mut inner = ObjectText::default();
        inner.member("a\"b", &json!([1, null]));
        let mut outer = ObjectText::default();
        outer.member("first", &json!("x"));
        outer.text_member("second", &inner.finish());
        outer.text_member("third", &ObjectText::default().finish());
        let read: Value = serde_json::from_slice(&outer.finish()).expect("JSON");
        assert_eq!(read, json!({ "first": "x", "second": { "a\"b": [1, null] }, "third": {} }));
    }
}
