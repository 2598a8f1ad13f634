//! The cookie jar of one virtual user.

use cookie_store::{CookieStore, RawCookie};
use url::Url;

/// Empty until a server sets a cookie; most load tests never do.
#[derive(Default)]
pub struct Jar {
    store: Option<Box<CookieStore>>,
}

impl Jar {
    pub fn is_empty(&self) -> bool {
        self.store.is_none()
    }

    pub fn clear(&mut self) {
        self.store = None;
    }

    pub fn store(&mut self, url: &Url, set_cookies: &[String]) {
        for line in set_cookies {
            let store = self.store.get_or_insert_with(|| Box::new(CookieStore::default()));
            // A cookie that the rules refuse (wrong domain, malformed) is not stored; a browser
            // would do the same.
            let _ = store.parse(line, url);
        }
    }

    /// `a=1; b=2` for this URL, if there is anything to send.
    pub fn header(&self, url: &Url) -> Option<String> {
        let store = self.store.as_ref()?;
        let pairs: Vec<String> =
            store.get_request_values(url).map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    pub fn value(&self, name: &str) -> Option<String> {
        let store = self.store.as_ref()?;
        store.iter_unexpired().find(|c| c.name() == name).map(|c| c.value().to_owned())
    }

    /// Names and values for this URL, longer paths first, else in the order in which they were set.
    pub fn pairs(&self, url: &Url) -> Vec<(String, String)> {
        let Some(store) = &self.store else { return Vec::new() };
        let mut found = store.matches(url);
        // The store thinks of the machine itself as safe enough.
        found.retain(|cookie| url.scheme() == "https" || cookie.secure() != Some(true));
        found.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pair = |cookie: &&cookie_store::Cookie<'_>| {
            (cookie.name().to_owned(), cookie.value_trimmed().to_owned())
        };
        found.iter().map(pair).collect()
    }

    pub fn set(&mut self, url: &Url, cookie: &SetCookie) {
        let store = self.store.get_or_insert_with(|| Box::new(CookieStore::default()));
        // What the rules refuse is not stored, as above.
        let _ = store.insert_raw(&cookie.raw(url), url);
    }

    pub fn delete(&mut self, url: &Url, name: &str) {
        self.remove_if(url, |cookie| cookie.name() == name);
    }

    /// Forgets all cookies that would be sent to this URL.
    pub fn clear_for(&mut self, url: &Url) {
        self.remove_if(url, |_| true);
    }

    fn remove_if(&mut self, url: &Url, goes: impl Fn(&cookie_store::Cookie<'_>) -> bool) {
        let Some(store) = &mut self.store else { return };
        let place = |cookie: &&cookie_store::Cookie<'_>| {
            let domain = String::from(&cookie.domain);
            (domain, String::from(&cookie.path), cookie.name().to_owned())
        };
        let gone: Vec<_> = store
            .matches(url)
            .into_iter()
            .filter(|cookie| goes(cookie))
            .map(|c| place(&c))
            .collect();
        for (domain, path, name) in gone {
            store.remove(&domain, &path, &name);
        }
    }
}

/// A cookie as a server sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetCookie {
    pub name: String,
    pub value: String,
    pub domain: String,
    pub path: String,
    pub http_only: bool,
    pub secure: bool,
    /// Seconds; 0: not said, below 0: at once.
    pub max_age: i64,
    pub expires_unix_s: Option<i64>,
}

impl SetCookie {
    /// A line of `set-cookie`; `None` if it is none.
    pub fn parse(line: &str) -> Option<SetCookie> {
        let raw = RawCookie::parse(line).ok()?;
        // A `domain` with a leading dot means the same without it.
        let domain = raw.domain().unwrap_or_default();
        let max_age = raw.max_age().map_or(0, |age| age.whole_seconds());
        Some(SetCookie {
            name: raw.name().to_owned(),
            value: raw.value_trimmed().to_owned(),
            domain: domain.to_owned(),
            path: raw.path().unwrap_or_default().to_owned(),
            http_only: raw.http_only().unwrap_or(false),
            secure: raw.secure().unwrap_or(false),
            max_age: if raw.max_age().is_some() && max_age <= 0 { -1 } else { max_age },
            expires_unix_s: raw.expires_datetime().map(|at| at.unix_timestamp()),
        })
    }

    /// A date as cookies have it: `Wed, 21 Oct 2037 07:28:00 GMT`.
    pub fn parse_date(text: &str) -> Option<i64> {
        let raw = RawCookie::parse(format!("a=b; expires={text}")).ok()?;
        raw.expires_datetime().map(|at| at.unix_timestamp())
    }

    fn raw(&self, url: &Url) -> RawCookie<'static> {
        let mut raw = RawCookie::new(self.name.clone(), self.value.clone());
        // An address has no sub-domains: naming it says nothing.
        if !self.domain.is_empty() && url.host_str() != Some(&self.domain) {
            raw.set_domain(self.domain.clone());
        }
        if !self.path.is_empty() {
            raw.set_path(self.path.clone());
        }
        raw.set_http_only(self.http_only);
        raw.set_secure(self.secure);
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs() as i64);
        let lifetime = match (self.max_age, self.expires_unix_s) {
            (0, None) => None,
            (0, Some(at)) => Some(at - now),
            (age, _) => Some(age),
        };
        if let Some(seconds) = lifetime {
            // The crate takes lifetimes in the form of a header only.
            if let Ok(dated) = RawCookie::parse(format!("a=b; max-age={}", seconds.max(0))) {
                raw.set_max_age(dated.max_age());
            }
        }
        raw
    }
}
