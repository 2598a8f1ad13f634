//! Text as markup, and values out of a document, with nothing that can do harm.
//!
//! Names, messages and exchanges come from plans and servers. Each passes [`escaped`] on its way
//! into the page, whether it becomes text or the value of an attribute.

use serde_json::Value;

/// Text that stays text, also within quotes. What could command a terminal or change the direction
/// of writing is left out.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_directional(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn is_directional(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A part of a record, which may lack anything.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a>(pub &'a Value);

impl<'a> Part<'a> {
    /// `/requests/count`
    pub fn at(self, path: &str) -> Part<'a> {
        Part(self.0.pointer(path).unwrap_or(&Value::Null))
    }

    /// Of names that may contain anything.
    pub fn key(self, name: &str) -> Part<'a> {
        Part(self.0.get(name).unwrap_or(&Value::Null))
    }

    /// As markup; nothing if it is no text.
    pub fn text(self) -> String {
        escaped(self.0.as_str().unwrap_or_default())
    }

    pub fn raw(self) -> &'a str {
        self.0.as_str().unwrap_or_default()
    }

    pub fn number(self) -> f64 {
        self.0.as_f64().filter(|number| number.is_finite()).unwrap_or(0.0)
    }

    pub fn count(self) -> u64 {
        self.0.as_u64().unwrap_or_else(|| self.number().max(0.0) as u64)
    }

    pub fn is_true(self) -> bool {
        self.0.as_bool().unwrap_or(false)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn list(self) -> impl DoubleEndedIterator<Item = Part<'a>> + Clone {
        self.0.as_array().map_or(&[][..], |list| list).iter().map(Part)
    }

    pub fn entries(self) -> impl Iterator<Item = (&'a str, Part<'a>)> {
        self.0.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), Part(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_can_become_markup() {
        let hostile = "</script><img src=x onerror='alert(1)'>\" & \u{1b}[2J \u{202e}txt";
        let shown = escaped(hostile);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{1b}', '\u{202e}']), "{shown}");
        assert!(shown.starts_with("&lt;/script&gt;&lt;img"), "{shown}");
    }

    #[test]
    fn what_a_document_lacks_is_nothing() {
        let document = serde_json::json!({ "a": { "b": [1, "two"] }, "odd": null });
        let part = Part(&document);
        assert_eq!(part.at("/a/b/0").count(), 1);
        assert_eq!(part.at("/a/b/1").text(), "two");
        assert_eq!(part.at("/nowhere/else").number(), 0.0);
        assert_eq!(part.at("/a").list().count(), 0);
        assert_eq!(part.at("/odd").entries().count(), 0);
    }
}
