//! `${secret.NAME}`: looked up on the machine that runs the load, and blotted out wherever a person or
//! a file could see it.
//!
//! Managers and the ledger see the reference and never the value. What leaves this machine other than to
//! the target (messages, samples of exchanges, tags, values handed to other workflows) is searched for
//! the value in every form in which a template can write it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::template::{Escape, Filter, write_value};

/// Finds a secret by name.
pub type SecretLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

const BLOT: &str = "•••";

/// From the environment: `${secret.API_KEY}` is `VOLLEY_SECRET_API_KEY`.
pub fn from_environment() -> SecretLookup {
    Arc::new(|name| std::env::var(format!("VOLLEY_SECRET_{name}")).ok())
}

/// The values that must not be seen.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The longest first, so that none is hidden by its own beginning.
    forms: Vec<Box<[u8]>>,
}

impl Secrets {
    pub fn new(values: &BTreeSet<String>) -> Secrets {
        let escapes = [
            Escape::None,
            Escape::Header,
            Escape::Json,
            Escape::Url,
            Escape::UrlPath,
            Escape::UrlQuery,
            Escape::Component,
        ];
        let filters = [None, Some(Filter::Base64), Some(Filter::Upper), Some(Filter::Lower)];
        let mut forms = BTreeSet::new();
        for value in values.iter().filter(|value| !value.is_empty()) {
            for (escape, filter) in escapes.iter().flat_map(|e| filters.map(|f| (*e, f))) {
                let mut form = Vec::new();
                write_value(value.as_bytes(), filter, escape, &mut form);
                forms.insert(form.into_boxed_slice());
            }
        }
        let mut forms: Vec<_> = forms.into_iter().filter(|form| !form.is_empty()).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Secrets { forms }
    }

    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub fn occurs_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| memchr::memmem::find(bytes, form).is_some())
    }

    /// The text without them.
    pub fn redact(&self, text: String) -> String {
        if !self.occurs_in(text.as_bytes()) {
            return text;
        }
        String::from_utf8_lossy(&self.redact_bytes(text.as_bytes())).into_owned()
    }

    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for form in &self.forms {
            let places: Vec<usize> = memchr::memmem::find_iter(&bytes, form).collect();
            for at in places.into_iter().rev() {
                bytes.splice(at..at + form.len(), BLOT.bytes());
            }
        }
        bytes
    }
}

// Not derived: a value must not be printed by accident.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} forms of secrets", self.forms.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_blotted_out_in_every_form() {
        let secrets = Secrets::new(&BTreeSet::from(["pa ss/\"w\"".to_owned(), "pa".to_owned()]));
        for text in
            ["x=pa ss/\"w\"!", "x=pa%20ss%2F%22w%22!", r#"x=pa ss/\"w\"!"#, "x=PA SS/\"W\"!"]
        {
            let shown = secrets.redact(text.to_owned());
            assert_eq!(shown, "x=•••!", "{text}");
        }
        assert_eq!(secrets.redact("nothing here".to_owned()), "nothing here");
        let encoded = secrets.redact("cGEgc3MvInciIg==".to_owned());
        assert!(!secrets.occurs_in(encoded.as_bytes()));
        assert!(!format!("{secrets:?}").contains("pa ss"));
    }
}
