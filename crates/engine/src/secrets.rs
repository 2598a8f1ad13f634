//! `${secret.NAME}`: looked up on the machine that runs the load, and blotted out wherever a person
//! or a file could see it.
//!
//! Managers and the ledger see the reference and never the value. What leaves this machine other
//! than to the target (messages, samples of exchanges, tags, values handed to other workflows) is
//! searched for the value in every form in which a template can write it.
//!
//! Values of `${env.NAME}` are no secrets: they travel with the job. What looks like a credential
//! among them, by its name, is blotted out in what is shown all the same, and so is what stands
//! before the `@` in a URL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::template::{Escape, Filter, write_value};

/// Finds a secret by name.
pub type SecretLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

const BLOT: &str = "•••";

/// From the environment: `${secret.API_KEY}` is `VOLLEY_SECRET_API_KEY`.
pub fn from_environment() -> SecretLookup {
    Arc::new(|name| std::env::var(format!("VOLLEY_SECRET_{name}")).ok())
}

/// Parts of names whose values are credentials.
const CREDENTIALS: [&str; 7] =
    ["token", "password", "passwd", "secret", "key", "credential", "auth"];
/// Shorter values are found everywhere, and give nothing away.
const CREDENTIAL_MIN: usize = 4;

/// Whether a name says that its value is a credential.
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|part| name.contains(part))
}

/// The values in an environment that look like credentials.
pub fn credentials_in(env: &BTreeMap<String, String>) -> BTreeSet<String> {
    let named = env
        .iter()
        .filter(|(name, value)| is_credential(name) && value.trim().len() >= CREDENTIAL_MIN);
    named.map(|(_, value)| value.clone()).collect()
}

/// The text without users and passwords in URLs.
pub fn mask_userinfo(text: String) -> String {
    match plan::mask_userinfo(&text) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(masked) => masked,
    }
}

/// The same, without the values of `Authorization` headers too.
pub fn mask_credentials(text: String) -> String {
    use std::sync::LazyLock;
    static HEADER: LazyLock<regex::Regex> = LazyLock::new(|| {
        let name = r#"(?:proxy-)?authorization["']?\s*[:=]\s*["']?"#;
        let scheme = "(?:(?:basic|bearer|digest|token) +)?";
        let pattern = format!(r#"(?i)({name}{scheme})[^\s"',;]+"#);
        regex::Regex::new(&pattern).expect("a fixed pattern")
    });
    let text = mask_userinfo(text);
    match HEADER.replace_all(&text, "${1}•••") {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(masked) => masked,
    }
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

    /// These, and more.
    #[must_use]
    pub fn with(&self, values: &BTreeSet<String>) -> Secrets {
        let mut forms = [self.forms.clone(), Secrets::new(values).forms].concat();
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Secrets { forms }
    }

    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub fn occurs_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| memchr::memmem::find(bytes, form).is_some())
    }

    /// The text without them, and without users and passwords in URLs: for people and files.
    pub fn shown(&self, text: String) -> String {
        mask_userinfo(self.redact(text))
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

    #[test]
    fn what_looks_like_a_credential_is_not_shown() {
        let text = |text: &str| text.to_owned();
        let env = BTreeMap::from([
            (text("API_TOKEN"), text("tok-123456")),
            (text("db_Password"), text("hunter22")),
            (text("REGION"), text("eu-west-1")),
            (text("KEY_COUNT"), text("7")),
        ]);
        let shown = Secrets::default().with(&credentials_in(&env));
        let line = shown.redact("GET /eu-west-1?t=tok-123456&p=hunter22&n=7".to_owned());
        assert_eq!(line, "GET /eu-west-1?t=•••&p=•••&n=7");
        let cases = [
            ("cannot connect to http://me:pw@host:80/a", "cannot connect to http://•••@host:80/a"),
            ("http://host/a@b and x@y", "http://host/a@b and x@y"),
            ("authorization: Bearer abc.def", "authorization: Bearer •••"),
            (r#"{"Authorization":"Basic bWU6cHc="}"#, r#"{"Authorization":"Basic •••"}"#),
            ("no credentials", "no credentials"),
        ];
        for (said, expected) in cases {
            assert_eq!(mask_credentials(said.to_owned()), expected);
        }
    }
}
