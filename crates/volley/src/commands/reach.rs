//! Where a node listens and what it tells others: `--bind` and `--advertise`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use membership::discovery::Seed;
use tokio::time::{Instant, sleep};

use crate::cli::NodeArgs;
use crate::failure::Failure;

/// The name of a machine or container that has just started may be known a little later.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);

/// What sockets are bound to, and what gossip tells of it. Gossip has room for addresses only, so a
/// name is asked for once; whoever moves starts anew, and is known by its new address then.
pub struct Reach {
    pub bind: SocketAddr,
    pub advertise: Option<SocketAddr>,
}

pub async fn reach(args: &NodeArgs) -> Result<Reach, Failure> {
    let Some(told) = &args.advertise else {
        return Ok(Reach { bind: args.bind(), advertise: None });
    };
    let found = match told {
        Seed::Address(address) => *address,
        Seed::Host { .. } => ask(told, args.bind.map(|bind| bind.ip())).await?,
    };
    let any = match found {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let bind = args.bind.unwrap_or(SocketAddr::new(any, found.port()));
    Ok(Reach { bind, advertise: Some(found) })
}

async fn ask(told: &Seed, bind: Option<IpAddr>) -> Result<SocketAddr, Failure> {
    let until = Instant::now() + PATIENCE;
    let mut said = false;
    loop {
        let answer = tokio::net::lookup_host(told.to_string()).await;
        let why = match answer.map(|found| choose(found.collect(), bind)) {
            Ok(Some(address)) => return Ok(address),
            Ok(None) => "it has no address".to_owned(),
            Err(error) => error.to_string(),
        };
        if Instant::now() >= until {
            return Err(Failure::failed(format!("--advertise {told}: {why}"))
                .help("give a name that is known here, or an address"));
        }
        if !said {
            eprintln!(
                "volley: --advertise {told}: {why}; asking again for {} s",
                PATIENCE.as_secs()
            );
            said = true;
        }
        sleep(PAUSE).await;
    }
}

/// Where it listens, if the name has that; or else one of the same kind, and rather the older.
fn choose(mut found: Vec<SocketAddr>, bind: Option<IpAddr>) -> Option<SocketAddr> {
    let fits = |address: &SocketAddr| match bind {
        Some(ip) if ip == address.ip() => 0,
        Some(ip) if ip.is_ipv4() != address.is_ipv4() => 3,
        _ if address.is_ipv4() => 1,
        _ => 2,
    };
    found.sort_by_key(fits);
    found.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_addresses_the_one_that_fits_is_told() {
        let all: Vec<SocketAddr> = ["[::1]:1", "127.0.0.1:1", "10.0.0.7:1", "[fd00::7]:1"]
            .map(|a| a.parse().unwrap())
            .into();
        for (bind, expected) in [
            (None, "127.0.0.1:1"),
            (Some("10.0.0.7"), "10.0.0.7:1"),
            (Some("0.0.0.0"), "127.0.0.1:1"),
            (Some("::"), "[::1]:1"),
            (Some("fd00::7"), "[fd00::7]:1"),
        ] {
            let bind = bind.map(|ip| ip.parse().unwrap());
            assert_eq!(choose(all.clone(), bind), Some(expected.parse().unwrap()), "{bind:?}");
        }
        assert_eq!(choose(Vec::new(), None), None);
    }
}
