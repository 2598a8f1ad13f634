//! `blockHostnames` and `blacklistIPs`: who must never be asked.

use client::Origin;

use super::address::Address;
use super::trouble::Trouble;
use crate::host::Host;

pub async fn check(host: &Host, address: &Address, origin: &Origin) -> Option<Trouble> {
    let rules = host.script().rules();
    let name = address.host();
    if let Some(pattern) = rules.block_hostnames.iter().find(|pattern| pattern.matches(name)) {
        return Some(Trouble::blocked_name(&name.to_ascii_lowercase(), pattern.as_str()));
    }
    if rules.blacklist_ips.is_empty() {
        return None;
    }
    if origin.addresses().is_empty()
        && let Err(failure) = host.setup.settings.origins.resolve(origin).await
    {
        return Some(Trouble::from_failure(failure, false));
    }
    for found in origin.addresses() {
        let range = rules.blacklist_ips.iter().find(|range| range.contains(found.ip()));
        if let Some(range) = range {
            let shown = format!("{}/{}", range.address, range.prefix);
            return Some(Trouble::blacklisted(&found.ip().to_string(), &shown));
        }
    }
    None
}
