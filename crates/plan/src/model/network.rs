//! How a target is reached.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4 where there is any: most servers listen on IPv4 only, and a name with both families
    /// would send half the load each way.
    Any,
    V4,
    V6,
    /// IPv6 where there is any. Scripts only.
    PreferV6,
    /// Whatever a name has, in turn. Scripts only.
    Both,
}

/// What stands between the generator and its targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyChoice {
    /// One proxy for everything.
    Url(String),
    /// What `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say on the machine that runs the load.
    Environment,
}
