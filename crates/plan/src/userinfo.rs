//! Users and passwords in URLs (`http://user:password@host`): they are sent, and never shown.

use std::borrow::Cow;

const BLOT: &str = "•••";

/// The text without what stands before the `@` of any URL in it.
pub fn mask_userinfo(text: &str) -> Cow<'_, str> {
    mask_with(text, |_| BLOT.to_owned())
}

/// The same without a change of its width, for a line of a file with a mark below it.
pub fn mask_userinfo_in_place(text: &str) -> Cow<'_, str> {
    mask_with(text, |hidden| hidden.chars().map(|_| '•').collect())
}

fn mask_with(text: &str, blot: impl Fn(&str) -> String) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut from = 0;
    while let Some(found) = text[from..].find("://") {
        let begin = from + found + 3;
        let rest = &text[begin..];
        let ends = |c: char| c.is_whitespace() || "/?#\"'<>`".contains(c);
        let end = rest.find(ends).unwrap_or(rest.len());
        // A password may hold an `@` of its own: the host comes after the last.
        if let Some(at) = rest[..end].rfind('@') {
            out.push_str(&text[copied..begin]);
            out.push_str(&blot(&rest[..at]));
            copied = begin + at;
        }
        from = begin + end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The same for one text that was meant as a URL and is none, so that nobody knows where its
/// password ends.
pub fn mask_broken_url(text: &str) -> Cow<'_, str> {
    let begin = text.find("://").map_or(0, |at| at + 3);
    match text.rfind('@') {
        Some(at) if at >= begin => Cow::Owned(format!("{}{BLOT}{}", &text[..begin], &text[at..])),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_at_of_a_url_is_not_shown() {
        for (text, shown) in [
            ("http://me:pw@host:80/a", "http://•••@host:80/a"),
            ("GET http://me@h/ and https://a:b@c?d", "GET http://•••@h/ and https://•••@c?d"),
            ("http://u:p@ss@host/x", "http://•••@host/x"),
            ("http://host/a@b and x@y", "http://host/a@b and x@y"),
            ("bad URL `http://u:p@h:x`", "bad URL `http://•••@h:x`"),
            ("http://${user}:${secret.PW}@h/${x}", "http://•••@h/${x}"),
            ("no URL at all", "no URL at all"),
            ("://", "://"),
        ] {
            assert_eq!(mask_userinfo(text), shown);
        }
        assert_eq!(mask_userinfo_in_place("a http://u:p@h b"), "a http://•••@h b");
        assert_eq!(mask_userinfo_in_place("http://me:pwd@h"), "http://••••••@h");
        assert_eq!(mask_broken_url("http://u:a/b#c@h/"), "http://•••@h/");
        assert_eq!(mask_broken_url("http://h:x/"), "http://h:x/");
    }
}
