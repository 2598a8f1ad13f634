//! The cookie jar of one virtual user.

use cookie_store::CookieStore;
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
}
