//! A small JSON writer.

use std::fmt::Write;

/// Writes JSON values one after the other into a string.
///
/// Functions that are not generic are not inlined, because a response of the live page has hundreds
/// of fields.
pub(crate) struct Json {
    text: String,
    /// Whether the next value is the first of its object or array, and needs no comma.
    first: bool,
}

impl Json {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), first: true }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    #[inline(never)]
    fn comma(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.text.push(',');
        }
    }

    /// Writes an object.
    pub(crate) fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.nested('{', '}', fields);
    }

    /// Writes an array.
    pub(crate) fn array(&mut self, values: impl FnOnce(&mut Self)) {
        self.nested('[', ']', values);
    }

    fn nested(&mut self, open: char, close: char, inside: impl FnOnce(&mut Self)) {
        self.open(open);
        inside(self);
        self.close(close);
    }

    #[inline(never)]
    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.first = true;
    }

    #[inline(never)]
    fn close(&mut self, bracket: char) {
        self.text.push(bracket);
        self.first = false;
    }

    #[inline(never)]
    fn name(&mut self, name: &str) {
        self.comma();
        self.string(name);
        self.text.push(':');
    }

    /// Writes the next value of an array.
    pub(crate) fn item(&mut self, value: impl FnOnce(&mut Self)) {
        self.comma();
        value(self);
    }

    /// Writes a field of an object.
    pub(crate) fn field(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.name(name);
        value(self);
    }

    #[inline(never)]
    pub(crate) fn string(&mut self, text: &str) {
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                char if char < ' ' => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(char));
                }
                char => self.text.push(char),
            }
        }
        self.text.push('"');
        self.first = false;
    }

    /// Writes a number, `true` or `false`.
    pub(crate) fn plain(&mut self, value: impl std::fmt::Display) {
        self.plain_dyn(&value);
    }

    #[inline(never)]
    fn plain_dyn(&mut self, value: &dyn std::fmt::Display) {
        let _ = write!(self.text, "{value}");
        self.first = false;
    }

    /// Writes the value, or `null`.
    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.plain("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn nests_and_escapes() {
        let mut json = Json::new();
        json.object(|json| {
            json.field("a \"b\"", |json| json.string("line\nbell\u{7}\\"));
            json.field("list", |json| {
                json.array(|json| {
                    json.item(|json| json.plain(1));
                    json.item(|json| json.array(|_| {}));
                    json.item(|json| json.option(None::<u8>, |json, n| json.plain(n)));
                });
            });
            json.field("last", |json| json.plain(true));
        });
        let text = r#"{"a \"b\"":"line\nbell\u0007\\","list":[1,[],null],"last":true}"#;
        assert_eq!(json.into_text(), text);
    }
}
