//! A strict JSON parser, for output that other programs parse.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// # Panics
    ///
    /// If the text is not JSON, or has more after it.
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value();
        reader.space();
        assert_eq!(reader.at, text.len(), "nothing behind the value");
        value
    }

    /// Returns a field of an object, or null if there is none.
    pub fn get(&self, name: &str) -> &Json {
        let Json::Object(fields) = self else { panic!("no object: {self:?}") };
        fields.get(name).unwrap_or(&Json::Null)
    }

    pub fn list(&self) -> &[Json] {
        let Json::List(items) = self else { panic!("no list: {self:?}") };
        items
    }

    pub fn text(&self) -> &str {
        let Json::Text(text) = self else { panic!("no text: {self:?}") };
        text
    }

    pub fn number(&self) -> f64 {
        let Json::Number(number) = self else { panic!("no number: {self:?}") };
        *number
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at +=
            self.rest().len() - self.rest().trim_start_matches([' ', '\n', '\r', '\t']).len();
    }

    fn takes(&mut self, token: &str) -> bool {
        self.space();
        let takes = self.rest().starts_with(token);
        self.at += if takes { token.len() } else { 0 };
        takes
    }

    fn expect(&mut self, token: &str) {
        assert!(self.takes(token), "{token:?} expected before {:.80}", self.rest());
    }

    fn value(&mut self) -> Json {
        match () {
            () if self.takes("null") => Json::Null,
            () if self.takes("true") => Json::Bool(true),
            () if self.takes("false") => Json::Bool(false),
            () if self.takes("\"") => Json::Text(self.string()),
            () if self.takes("[") => Json::List(self.items("]", Self::value)),
            () if self.takes("{") => {
                let fields = self.items("}", |reader| {
                    reader.expect("\"");
                    let name = reader.string();
                    reader.expect(":");
                    (name, reader.value())
                });
                let count = fields.len();
                let fields: BTreeMap<_, _> = fields.into_iter().collect();
                assert_eq!(fields.len(), count, "a name twice");
                Json::Object(fields)
            }
            () => self.plain_number(),
        }
    }

    fn items<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        if self.takes(end) {
            return items;
        }
        loop {
            items.push(item(self));
            if self.takes(end) {
                return items;
            }
            self.expect(",");
        }
    }

    fn plain_number(&mut self) -> Json {
        let is_part = |char: char| char.is_ascii_digit() || "+-.eE".contains(char);
        let end = self.rest().find(|char| !is_part(char)).unwrap_or(self.rest().len());
        let number = &self.rest()[..end];
        let starts = number.trim_start_matches('-');
        let is_json = starts.starts_with(|char: char| char.is_ascii_digit())
            && (!starts.starts_with('0') || !starts[1..].starts_with(|c: char| c.is_ascii_digit()))
            && !number.ends_with('.');
        assert!(is_json, "no value: {:.80}", self.rest());
        let value = number.parse().unwrap();
        self.at += end;
        Json::Number(value)
    }

    /// Parses a string after its opening quote.
    fn string(&mut self) -> String {
        let mut text = String::new();
        loop {
            let mut chars = self.rest().chars();
            let char = chars.next().expect("the string ends");
            assert!(char >= ' ', "a control character in a string");
            let escaped = chars.next();
            self.at += char.len_utf8();
            match char {
                '"' => return text,
                '\\' => text.push(self.escaped(escaped.expect("the string ends"))),
                char => text.push(char),
            }
        }
    }

    fn escaped(&mut self, char: char) -> char {
        self.at += 1;
        match char {
            '"' | '\\' | '/' => char,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'u' => {
                let code = u32::from_str_radix(&self.rest()[..4], 16).unwrap();
                self.at += 4;
                char::from_u32(code).expect("one that stands alone")
            }
            other => panic!("no escape: {other}"),
        }
    }
}
