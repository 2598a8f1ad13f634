//! Which modules are part of the program: the hook through which this room learns of them, and
//! the courtesy of a good answer for those that k6 has (or had) and that are not here.

/// What is known of a name such as `k6/http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltinStatus {
    /// The runtime provides it.
    Here,
    /// It is a module of k6 that cannot be had here; the text says what to do.
    Missing(String),
    /// Nobody knows it.
    Unknown,
}

/// What the program brings along. The runtime hands in its own tables.
#[derive(Clone, Copy, Debug)]
pub struct Builtins {
    /// Looks up names that begin with `k6`.
    pub status: fn(&str) -> BuiltinStatus,
    /// What such a module exports.
    pub exports: fn(&str) -> Option<&'static [&'static str]>,
    /// Every name that is here, for suggestions.
    pub names: &'static [&'static str],
    /// Code of a library by its URL (`https://jslib.k6.io/NAME/VERSION/index.js`).
    pub library: fn(&str) -> Option<&'static str>,
    /// Every library URL that is here, for suggestions.
    pub libraries: &'static [&'static str],
}

impl Builtins {
    /// A program without any module of its own.
    pub const NONE: Builtins = Builtins {
        status: missing,
        exports: |_| None,
        names: &[],
        library: |_| None,
        libraries: &[],
    };
}

/// Modules of k6 that are not part of this program, with what can be done about it.
///
/// A later release that brings one of them lists it as `Here`, and its line here goes.
const MISSING: &[(&str, &str)] = &[
    ("k6/browser", "browser automation is not part of this program; test the HTTP calls instead"),
    ("k6/crypto/x509", "certificates cannot be parsed in a script yet"),
    (
        "k6/html",
        "HTML cannot be parsed in a script yet; take what you need with a regular expression",
    ),
    ("k6/net/grpc", "gRPC is not available in scripts yet"),
    ("k6/secrets", "secret sources are not available yet; pass the value with `-e NAME=VALUE`"),
    ("k6/websockets", "WebSocket is not available in scripts yet"),
    ("k6/ws", "WebSocket is not available in scripts yet"),
    ("k6/experimental/csv", "read the file with `open()` and parse it in a `SharedArray`"),
    ("k6/experimental/fs", "read the file with `open()` in the init stage"),
    ("k6/experimental/streams", "streams are not available in scripts yet"),
    ("k6/experimental/websockets", "it is called `k6/websockets` now, which is not available yet"),
];

/// Names that k6 itself took away, and where their content went.
const MOVED: &[(&str, &str)] = &[
    ("k6/experimental/browser", "it became `k6/browser`, which is not part of this program"),
    ("k6/experimental/grpc", "it became `k6/net/grpc`, which is not available yet"),
    ("k6/experimental/redis", "it became the extension `k6/x/redis`; extensions cannot be loaded"),
    ("k6/experimental/timers", "`setTimeout` and its kin are global now: remove the import"),
    (
        "k6/experimental/tracing",
        "it was removed from k6; set the trace headers of the requests in the script",
    ),
    ("k6/experimental/webcrypto", "`crypto` is global now: remove the import"),
];

/// The answer for every name that the runtime does not provide.
pub fn missing(name: &str) -> BuiltinStatus {
    let listed = |table: &[(&str, &str)]| {
        table.iter().find(|(known, _)| *known == name).map(|(_, remedy)| (*remedy).to_owned())
    };
    if let Some(remedy) = listed(MISSING).or_else(|| listed(MOVED)) {
        return BuiltinStatus::Missing(remedy);
    }
    if name == "k6/options" {
        return BuiltinStatus::Missing(
            "it holds types only: write `import type { Options } from 'k6/options'` in a .ts file"
                .to_owned(),
        );
    }
    if name.starts_with("k6/x/") {
        return BuiltinStatus::Missing(
            "it is an extension, compiled into a k6 of its own; extensions cannot be loaded"
                .to_owned(),
        );
    }
    if name.starts_with("k6/experimental/") {
        return BuiltinStatus::Missing("experimental modules are not available".to_owned());
    }
    BuiltinStatus::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_absent_module_of_k6_has_an_answer_and_a_misspelt_one_has_none() {
        for name in ["k6/html", "k6/ws", "k6/x/kafka", "k6/experimental/redis", "k6/options"] {
            assert!(matches!(missing(name), BuiltinStatus::Missing(_)), "{name}");
        }
        assert_eq!(missing("k6/htpp"), BuiltinStatus::Unknown);
    }
}
