//! The libraries of `https://jslib.k6.io` that scripts import most, built in.
//!
//! A script names them by address and version. Ours are written after their documented interfaces
//! and serve every version, so that a run needs no network and never changes under a script.

/// Where scripts find the libraries.
const HOST: &str = "jslib.k6.io/";

/// Each library by the name in its address.
const LIBRARIES: &[(&str, &str)] = &[
    ("k6-summary", include_str!("jslib/summary.js")),
    ("k6-utils", include_str!("jslib/utils.js")),
    ("papaparse", include_str!("jslib/papaparse.js")),
    ("url", include_str!("jslib/url.js")),
];

/// An address of each, for suggestions.
pub const URLS: &[&str] = &[
    "https://jslib.k6.io/k6-summary/0.1.0/index.js",
    "https://jslib.k6.io/k6-utils/1.4.0/index.js",
    "https://jslib.k6.io/papaparse/5.1.1/index.js",
    "https://jslib.k6.io/url/1.0.0/index.js",
];

/// The source of the library at `url`, an ES module; `None` when it is not one of ours.
pub fn find(url: &str) -> Option<&'static str> {
    let (name, file) = name_and_file(url)?;
    let known = LIBRARIES.iter().find(|(library, _)| *library == name);
    known.filter(|_| file == "index.js").map(|(_, source)| *source)
}

/// `k6-utils` and `index.js` of `https://jslib.k6.io/k6-utils/1.4.0/index.js`.
fn name_and_file(url: &str) -> Option<(&str, &str)> {
    let path = path_on_site(url)?;
    let path = path.split(['?', '#']).next()?;
    let mut parts = path.split('/');
    let (name, version, file) = (parts.next()?, parts.next()?, parts.next()?);
    (!version.is_empty() && parts.next().is_none()).then_some((name, file))
}

fn path_on_site(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    rest.strip_prefix(HOST)
}

#[cfg(test)]
mod tests;
