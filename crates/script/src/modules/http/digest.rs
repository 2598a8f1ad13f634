//! Digest authentication (RFC 7616) for `auth: 'digest'`.

use md5::Md5;
use sha2::{Digest as _, Sha256};

/// What a server wants to be answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    qop: Option<&'static str>,
    algorithm: Option<String>,
}

impl Challenge {
    /// Reads `Digest realm="...", nonce="..."`; `None`: it is another scheme.
    pub fn parse(header: &str) -> Option<Challenge> {
        let rest = header.trim();
        let rest =
            rest.get(..7).filter(|s| s.eq_ignore_ascii_case("digest ")).map(|_| &rest[7..])?;
        let mut challenge = Challenge::default();
        for (key, value) in parameters(rest) {
            match key.to_ascii_lowercase().as_str() {
                "realm" => challenge.realm = value,
                "nonce" => challenge.nonce = value,
                "opaque" => challenge.opaque = Some(value),
                "algorithm" => challenge.algorithm = Some(value),
                "qop" => {
                    let offers = |word: &str| value.split(',').any(|offer| offer.trim() == word);
                    challenge.qop = ["auth", "auth-int"].into_iter().find(|word| offers(word));
                }
                _ => {}
            }
        }
        Some(challenge)
    }

    /// The header `Authorization`; `None` if the algorithm is not known.
    pub fn answer(
        &self,
        method: &str,
        uri: &str,
        user: &str,
        password: &str,
        body: &[u8],
    ) -> Option<String> {
        let client_nonce = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        self.answer_with(method, uri, user, password, body, &client_nonce)
    }

    fn answer_with(
        &self,
        method: &str,
        uri: &str,
        user: &str,
        password: &str,
        body: &[u8],
        client_nonce: &str,
    ) -> Option<String> {
        let algorithm = self.algorithm.as_deref().unwrap_or("MD5").to_ascii_uppercase();
        let (base, session) = match algorithm.strip_suffix("-SESS") {
            Some(base) => (base, true),
            None => (algorithm.as_str(), false),
        };
        let hash = |bytes: &[u8]| match base {
            "MD5" => Some(hex(&Md5::digest(bytes))),
            "SHA-256" => Some(hex(&Sha256::digest(bytes))),
            _ => None,
        };
        let text = |text: String| hash(text.as_bytes());
        let mut first = text(format!("{user}:{}:{password}", self.realm))?;
        if session {
            first = text(format!("{first}:{}:{client_nonce}", self.nonce))?;
        }
        let second = match self.qop {
            Some("auth-int") => text(format!("{method}:{uri}:{}", hash(body)?))?,
            _ => text(format!("{method}:{uri}"))?,
        };
        let response = match self.qop {
            Some(qop) => {
                text(format!("{first}:{}:00000001:{client_nonce}:{qop}:{second}", self.nonce))?
            }
            None => text(format!("{first}:{}:{second}", self.nonce))?,
        };
        let mut header = format!(
            "Digest username=\"{user}\", realm=\"{}\", nonce=\"{}\", uri=\"{uri}\", \
             response=\"{response}\"",
            self.realm, self.nonce
        );
        if let Some(algorithm) = &self.algorithm {
            header.push_str(&format!(", algorithm={algorithm}"));
        }
        if let Some(opaque) = &self.opaque {
            header.push_str(&format!(", opaque=\"{opaque}\""));
        }
        if let Some(qop) = self.qop {
            header.push_str(&format!(", qop={qop}, nc=00000001, cnonce=\"{client_nonce}\""));
        }
        Some(header)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `key=value, key="a, b"`
fn parameters(text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => match after.find(',') {
                Some(comma) => after.split_at(comma),
                None => (after, ""),
            },
        };
        found.push((key.trim(), value.trim().to_owned()));
        rest = next.trim_start().trim_start_matches(',');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 2617, section 3.5.
    #[test]
    fn the_rfc_s_own_example() {
        let header = "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
                      nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", \
                      opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
        let challenge = Challenge::parse(header).unwrap();
        let answer = challenge
            .answer_with("GET", "/dir/index.html", "Mufasa", "Circle Of Life", b"", "0a4f113b")
            .unwrap();
        assert!(answer.contains("response=\"6629fae49393a05397450978507c4ef1\""), "{answer}");
        assert!(answer.contains("qop=auth,") && answer.contains("opaque=\"5ccc"), "{answer}");
        assert_eq!(Challenge::parse("Basic realm=\"x\""), None);
    }
}
