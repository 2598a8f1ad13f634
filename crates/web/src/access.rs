//! Who may look: a token from the link that the command prints, then a cookie.
//!
//! The token is in the fragment of the link, which browsers send to nobody, so it is in no log and
//! no `Referer`. The page posts it once and gets a cookie that no script can read. Both are 128
//! bits from the operating system. Cookies do not know ports, so the cookie's name says the port.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SECRET_BYTES: usize = 16;
/// So many wrong tokens are looked at within [`WRONG_WITHIN`]; more are refused unseen.
const WRONG_MAX: usize = 20;
const WRONG_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Access {
    token: String,
    session: String,
    cookie: String,
    wrong: Mutex<VecDeque<Instant>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// With the header that makes the browser keep it.
    Welcome(String),
    Wrong,
    TooMany,
}

impl Access {
    pub fn new(port: u16) -> Result<Access, getrandom::Error> {
        Ok(Access {
            token: secret()?,
            session: secret()?,
            cookie: format!("volley-{port}"),
            wrong: Mutex::default(),
        })
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn log_in(&self, token: &str, now: Instant) -> Login {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        while wrong.front().is_some_and(|at| now.duration_since(*at) > WRONG_WITHIN) {
            wrong.pop_front();
        }
        if wrong.len() >= WRONG_MAX {
            return Login::TooMany;
        }
        if !is_same(token, &self.token) {
            wrong.push_back(now);
            return Login::Wrong;
        }
        let Access { cookie, session, .. } = self;
        Login::Welcome(format!("{cookie}={session}; Path=/; HttpOnly; SameSite=Strict"))
    }

    /// Whether a `Cookie` header has ours.
    pub fn knows(&self, cookies: &str) -> bool {
        let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && is_same(value, &self.session))
    }
}

fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    let mut text = String::with_capacity(SECRET_BYTES * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// Takes as long for a near miss as for a far one.
fn is_same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_opens_and_the_cookie_is_known_by_its_port() {
        let access = Access::new(7600).unwrap();
        let now = Instant::now();
        assert_eq!(access.log_in("", now), Login::Wrong);
        let Login::Welcome(header) = access.log_in(access.token(), now) else { panic!() };
        assert!(header.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{header}");
        let pair = header.split(';').next().unwrap();
        assert!(pair.starts_with("volley-7600=") && pair.len() == 12 + 32, "{pair}");
        assert!(access.knows(pair));
        assert!(access.knows(&format!("other=1; {pair}")));
        assert!(!access.knows(&pair.replace("7600", "7601")));
        assert!(!access.knows(&format!("volley-7600={}", access.token())));
        assert!(!access.knows("volley-7600="));
    }

    #[test]
    fn guessing_ends_after_twenty_wrong_tokens_and_begins_anew_a_minute_later() {
        let access = Access::new(1).unwrap();
        let start = Instant::now();
        for _ in 0..WRONG_MAX {
            assert_eq!(access.log_in("guess", start), Login::Wrong);
        }
        assert_eq!(access.log_in(access.token(), start), Login::TooMany);
        let later = start + WRONG_WITHIN + Duration::from_secs(1);
        assert!(matches!(access.log_in(access.token(), later), Login::Welcome(_)));
    }
}
