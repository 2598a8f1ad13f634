//! What k6's API has and this program has not, in the modules and globals that are here: one list
//! for the look at the text before a run and for the calls during it. (Modules that are missing as
//! a whole are in `source::builtin`.)
//!
//! ```text
//! text shows it    const page = http.get(url); page.html()     refused before anything runs
//! text does not    parse(page)  ...  (x) => x.html()            the first call ends the run
//! ```
//!
//! Either way the exit code is 107. A run that goes on while each of its iterations throws would
//! end with 0 and say nothing about the target.

use rquickjs::{Ctx, Error, Exception};

use crate::host::HostRef;
use crate::runtime::interrupt;
use crate::thrown::{Thrown, ThrownKind};

const NO_HTML: &str = "HTML is not parsed; take what you need out of `response.body`, for example with a \
     regular expression or `findBetween()` of the jslib k6-utils";
const NO_FORMS: &str = "HTML is not parsed; send what the page would send with `http.post()` or \
     `http.get()`";
const NO_SUBTLE: &str =
    "digests, HMACs and random bytes are in `k6/crypto`; keys and ciphers are not there yet";

/// Methods of a response, each with what to do instead.
pub const RESPONSE: &[(&str, &str)] =
    &[("html", NO_HTML), ("submitForm", NO_FORMS), ("clickLink", NO_FORMS)];

/// Methods of `crypto.subtle`.
pub const SUBTLE: &[&str] = &[
    "decrypt",
    "deriveBits",
    "deriveKey",
    "digest",
    "encrypt",
    "exportKey",
    "generateKey",
    "importKey",
    "sign",
    "unwrapKey",
    "verify",
    "wrapKey",
];

/// Whether a text has any of these names in it.
pub(crate) fn is_named_in(text: &str) -> bool {
    let mut names = RESPONSE.iter().map(|(name, _)| *name).chain(["subtle"]);
    names.any(|name| text.contains(name))
}

/// One thing that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// `Response.html()`
    pub name: String,
    pub remedy: &'static str,
}

impl Lacking {
    pub fn response(method: &str) -> Option<Lacking> {
        let (name, remedy) = RESPONSE.iter().find(|(known, _)| *known == method)?;
        Some(Lacking { name: format!("Response.{name}()"), remedy })
    }

    pub fn subtle(method: &str) -> Option<Lacking> {
        let name = SUBTLE.iter().find(|known| **known == method)?;
        Some(Lacking { name: format!("crypto.subtle.{name}()"), remedy: NO_SUBTLE })
    }

    /// Ends the whole run; no `catch` of the script can hold that up.
    pub(crate) fn called(&self, ctx: &Ctx<'_>) -> Error {
        let message =
            format!("{MARK}`{}` of k6, which is not available: {}", self.name, self.remedy);
        let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else {
            return Exception::throw_message(ctx, &message);
        };
        let error = match Exception::from_message(ctx.clone(), &message) {
            Ok(error) => error,
            Err(error) => return error,
        };
        let place = Thrown::from_value(&error.into_value(), &host.script().sources).stack;
        let reason = match place.first() {
            Some(place) => format!("{message}\n\t{place}"),
            None => message,
        };
        *host.aborted.borrow_mut() = Some((reason.clone(), ThrownKind::Lacking));
        host.setup.environment.abort(&reason);
        interrupt(ctx, &reason)
    }
}

/// How the reason of such an end begins. The reason is all that travels between machines; what a
/// script says itself begins with `test aborted`.
const MARK: &str = "the script calls ";

/// Whether a run was ended for something that is not there.
pub fn is_reason(reason: &str) -> bool {
    reason.starts_with(MARK)
}
