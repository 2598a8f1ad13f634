//! Which paths there are. A path is a route and, for some, what stands in place of its parameter.

use hyper::Method;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Route {
    Root,
    Login,
    Cart,
    Search,
    Bytes,
    Stream,
    Status,
    Delay,
    Redirect,
    CookiesSet,
    Cookies,
    Echo,
    Gzip,
    Unknown,
}

impl Route {
    pub(crate) const ALL: [Route; 14] = [
        Route::Root,
        Route::Login,
        Route::Cart,
        Route::Search,
        Route::Bytes,
        Route::Stream,
        Route::Status,
        Route::Delay,
        Route::Redirect,
        Route::CookiesSet,
        Route::Cookies,
        Route::Echo,
        Route::Gzip,
        Route::Unknown,
    ];

    /// The route of a path and its parameter, which is empty where there is none.
    pub(crate) fn of(path: &str) -> (Route, &str) {
        let route = match path {
            "/" => Route::Root,
            "/login" => Route::Login,
            "/cart" => Route::Cart,
            "/search" => Route::Search,
            "/cookies/set" => Route::CookiesSet,
            "/cookies" => Route::Cookies,
            "/echo" => Route::Echo,
            "/gzip" => Route::Gzip,
            _ => return Route::with_parameter(path),
        };
        (route, "")
    }

    fn with_parameter(path: &str) -> (Route, &str) {
        let split = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let route = match split.map(|(first, _)| first) {
            Some("bytes") => Route::Bytes,
            Some("stream") => Route::Stream,
            Some("status") => Route::Status,
            Some("delay") => Route::Delay,
            Some("redirect") => Route::Redirect,
            _ => return (Route::Unknown, ""),
        };
        (route, split.map_or("", |(_, parameter)| parameter))
    }

    /// As it is counted and documented.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Route::Root => "/",
            Route::Login => "/login",
            Route::Cart => "/cart",
            Route::Search => "/search",
            Route::Bytes => "/bytes/N",
            Route::Stream => "/stream/N",
            Route::Status => "/status/CODE",
            Route::Delay => "/delay/MS",
            Route::Redirect => "/redirect/N",
            Route::CookiesSet => "/cookies/set",
            Route::Cookies => "/cookies",
            Route::Echo => "/echo",
            Route::Gzip => "/gzip",
            Route::Unknown => "other",
        }
    }

    /// The methods it has, for `allow`; `None`: any.
    pub(crate) fn methods(self) -> Option<&'static str> {
        match self {
            Route::Echo | Route::Unknown => None,
            Route::Login => Some("POST"),
            _ => Some("GET, HEAD"),
        }
    }

    pub(crate) fn allows(self, method: &Method) -> bool {
        self.methods().is_none_or(|methods| methods.split(", ").any(|m| m == method.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart_with_their_parameters() {
        for (path, expected) in [
            ("/", (Route::Root, "")),
            ("", (Route::Unknown, "")),
            ("*", (Route::Unknown, "")),
            ("/bytes/12", (Route::Bytes, "12")),
            ("/bytes/", (Route::Bytes, "")),
            ("/bytes", (Route::Unknown, "")),
            ("bytes/1", (Route::Unknown, "")),
            ("/bytes/1/2", (Route::Bytes, "1/2")),
            ("/cookies/set", (Route::CookiesSet, "")),
            ("/cookies/other", (Route::Unknown, "")),
            ("/é/1", (Route::Unknown, "")),
            ("é", (Route::Unknown, "")),
        ] {
            assert_eq!(Route::of(path), expected, "{path}");
        }
    }

    #[test]
    fn every_route_is_counted_at_its_own_place() {
        for (i, route) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, i, "{route:?}");
        }
    }
}
