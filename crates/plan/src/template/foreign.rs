//! References as other tools write them: `{{x}}`, `#{x}`, `{x}`, `$x`.
//!
//! Here they are plain text, and would be sent as they stand. Two braces are always taken for a
//! mistake (`{{{{` is a literal `{{`). The others are legitimate in many places: `/items/{id}`,
//! OData's `$filter`, GraphQL's `$id`. They are mistakes only if something is called so.

use std::collections::BTreeSet;

use super::parse::is_name;
use super::{Escape, TemplateError, spans};
use crate::words;

/// Longer texts between braces are not references.
const INNER_MAX: usize = 100;

/// Nobody reads more of them.
const FOUND_MAX: usize = 100;

/// Something that looks like a reference and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Bytes of the text.
    pub start: usize,
    pub end: usize,
    pub name: String,
    /// In a URL, where the rest after `#` is not sent, it is a mistake whatever the name.
    pub is_mistake: bool,
}

/// A text between references, with `{{{{` for a literal `{{`; `at` is where it begins.
pub fn plain(text: &str, at: usize) -> Result<String, TemplateError> {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = rest.find("{{") {
        let (before, after) = rest.split_at(found);
        written.push_str(before);
        if let Some(after) = after.strip_prefix("{{{{") {
            written.push_str("{{");
            rest = after;
            continue;
        }
        let near = after.as_bytes()[2..].windows(2).take(INNER_MAX);
        let inner = near.enumerate().find(|(_, two)| *two == b"}}");
        let inner = inner.map(|(end, _)| &after[2..2 + end]);
        match inner.filter(|inner| !inner.trim().is_empty()) {
            Some(inner) => {
                let start = at + text.len() - after.len();
                return Err(two_braces(inner, start));
            }
            None => {
                written.push_str("{{");
                rest = &after[2..];
            }
        }
    }
    written.push_str(rest);
    Ok(written)
}

fn two_braces(inner: &str, start: usize) -> TemplateError {
    let name = inner.trim();
    let help = words::reference(name).unwrap_or_else(|| format!("write `${{{name}}}`"));
    TemplateError {
        start,
        end: start + inner.len() + 4,
        message: format!(
            "`{{{{{inner}}}}}` is not a reference here, and would be sent as it stands"
        ),
        help: Some(format!("{help}; for a literal `{{{{` write `{{{{{{{{`")),
    }
}

/// What looks like another tool's reference in a text that stands at such a place.
///
/// One pass, with a bounded look ahead: the text may be as long as a plan.
pub fn find(text: &str, escape: Escape) -> Vec<Foreign> {
    let url = matches!(escape, Escape::Url | Escape::UrlPath | Escape::UrlQuery);
    // Braces are everywhere in bodies.
    let braces = url || matches!(escape, Escape::Component | Escape::Header);
    let mut ours = spans(text).into_iter().peekable();
    let mut found = Vec::new();
    for (start, c) in text.match_indices(['#', '{', '$']) {
        while ours.next_if(|(_, end)| *end <= start).is_some() {}
        if ours.peek().is_some_and(|(from, _)| *from <= start) {
            continue;
        }
        let after = &text[start + 1..];
        let before = text[..start].chars().next_back();
        let (name, around) = match c {
            "#" => (after.strip_prefix('{').and_then(between_braces), 3),
            "{" if braces && !matches!(before, Some('{' | '#' | '$')) => (between_braces(after), 2),
            "$" if before != Some('$') => (dollar(after), 1),
            _ => (None, 0),
        };
        if let Some(name) = name {
            let end = start + name.len() + around;
            let is_mistake = c == "#" && url;
            found.push(Foreign { start, end, name: name.to_owned(), is_mistake });
        }
        if found.len() == FOUND_MAX {
            break;
        }
    }
    // GraphQL declares names of its own: `query ($id: ID!)`. Those are no mistakes anywhere in it.
    let declares = |one: &Foreign| text[one.end..].trim_start().starts_with(':');
    let is_dollar = |one: &Foreign| text[one.start..].starts_with('$');
    let own = found.iter().filter(|one| is_dollar(one) && declares(one));
    let own: BTreeSet<String> = own.map(|one| one.name.clone()).collect();
    found.retain(|one| !is_dollar(one) || !own.contains(&one.name));
    found
}

fn between_braces(text: &str) -> Option<&str> {
    let end = text.bytes().take(INNER_MAX).position(|byte| byte == b'}')?;
    let name = &text[..end];
    is_dotted(name).then_some(name)
}

fn dollar(text: &str) -> Option<&str> {
    let word = |(_, c): &(usize, char)| c.is_alphanumeric() || matches!(c, '_' | '.');
    let letters = text.char_indices().take(INNER_MAX).take_while(word);
    let end = letters.last().map_or(0, |(at, c)| at + c.len_utf8());
    let name = text[..end].trim_end_matches('.');
    is_dotted(name).then_some(name)
}

/// `token`, `data.users.name`, `vu.id`
fn is_dotted(name: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    };
    is_name(name) || name.split('.').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_reference_is_found_where_it_is_one_elsewhere() {
        let names = |text: &str, escape| -> Vec<String> {
            find(text, escape).into_iter().map(|one| one.name).collect()
        };
        assert_eq!(
            names("/a/{id}/${x}/#{t}?$filter=1&x=$top", Escape::Url),
            ["id", "t", "filter", "top"]
        );
        assert_eq!(names("Bearer $token, {token}", Escape::Header), ["token", "token"]);
        assert_eq!(names("query { user {id} }", Escape::Json), [""; 0]);
        assert_eq!(names("query ($id: ID!) { item(id: $id) { name } }", Escape::Json), [""; 0]);
        assert_eq!(names("a$$b {} {a b} $1 # {", Escape::Header), [""; 0]);
        assert_eq!(names("$data.users.name.", Escape::None), ["data.users.name"]);
    }

    #[test]
    fn two_braces_are_a_mistake_unless_they_are_doubled() {
        let wrong = plain("a {{ token }}", 10).unwrap_err();
        assert_eq!((wrong.start, wrong.end), (12, 23));
        assert!(
            wrong.help.unwrap().starts_with("write `${token}`; for a literal `{{` write `{{{{`")
        );
        assert_eq!(plain("{{{{ token }}", 0).unwrap(), "{{ token }}");
        assert_eq!(plain("{\"a\":{\"b\":{}}} {{", 0).unwrap(), "{\"a\":{\"b\":{}}} {{");
    }
}
