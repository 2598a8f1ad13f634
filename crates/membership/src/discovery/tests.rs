//! Tests of discovery, by part, and what they share.

mod formation;
mod machine;
mod parts;
mod service;
mod world;

use std::net::SocketAddr;
use std::time::Duration;

use fence::{BootId, NodeId};
use trust::{Identity, Role};

use super::{Hello, Me, Seed, Settings};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 9000))
}

fn identity(node: u128) -> Identity {
    Identity {
        cluster: "prod".into(),
        environment: "live".into(),
        role: Role::Manager,
        datacenter: "fra".into(),
        node: NodeId(node),
    }
}

fn hello(node: u128, at: SocketAddr) -> Hello {
    Hello {
        identity: identity(node),
        boot: BootId(1),
        group: None,
        voters: None,
        gossip: at,
        service: at,
    }
}

fn me(node: u128, host: u8) -> Me {
    Me { identity: identity(node), group: None, addresses: vec![address(host)] }
}

fn with_seeds(hosts: impl IntoIterator<Item = u8>) -> Settings {
    let seeds = hosts.into_iter().map(|host| Seed::Address(address(host))).collect();
    Settings { seeds, ..Settings::new(Role::Manager) }
}
