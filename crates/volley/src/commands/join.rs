//! `volley worker --join`: how a worker comes by its certificate, and what it is started with.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::client::enrol::{self, Enrolment};
use node::config::{Config, PORT};
use trust::{JoinToken, Utc};

use super::certs::folder;
use crate::cli::WorkerArgs;
use crate::failure::Failure;
use crate::print;

/// For one connection, and for one answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// Until a manager is there that can do it.
const PATIENCE: Duration = Duration::from_secs(60);
/// A token with room to spare.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// The configuration of a worker, joined if it was to.
pub async fn worker_config(args: &WorkerArgs, cores: u32) -> Result<Config, Failure> {
    let given = args.token.is_some() || args.token_file.is_some();
    let certs = match &args.certs {
        Some(certs) => certs.clone(),
        None => args.node.data.join("certs"),
    };
    if args.join.is_empty() {
        if given {
            eprintln!("volley: a join token is given and not used: there is no --join");
        }
        return super::node::config(&args.node, &certs, &[trust::Role::Worker]).await;
    }
    let pairs = if certs.exists() { folder::pairs(&certs)? } else { Vec::new() };
    if pairs.is_empty() {
        join(args, &certs, cores).await?;
    }
    let mut config = super::node::config(&args.node, &certs, &[trust::Role::Worker]).await?;
    if args.node.bind.is_none() {
        config.bind = own_address(&args.join).await?;
    }
    let kept = enrol::managers_in(&certs).map_err(Failure::failed)?;
    for seed in args.join.iter().chain(&kept) {
        config.seed(seed).map_err(|error| Failure::failed(format!("--join {error}")))?;
    }
    Ok(config)
}

async fn join(args: &WorkerArgs, certs: &Path, cores: u32) -> Result<(), Failure> {
    let text = token_text(args)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let token = JoinToken::from_text(&text, now).map_err(Failure::failed)?;
    let enlistment = Enrolment {
        managers: args.join.clone(),
        token,
        folder: certs.to_path_buf(),
        cores,
        deadline: DEADLINE,
        patience: PATIENCE,
        notice: Some(Arc::new(|text: &str| eprintln!("volley: {text}"))),
    };
    let enlisted = enrol::enrol(&enlistment).await.map_err(Failure::failed)?;
    print::line(&format!(
        "joined at {} as {}; its certificate is in {} and ends at {}",
        enlisted.manager,
        enlisted.identity,
        certs.display(),
        Utc(enlisted.not_after)
    ));
    Ok(())
}

/// From the file, the flag or the environment.
fn token_text(args: &WorkerArgs) -> Result<String, Failure> {
    match (&args.token_file, &args.token) {
        (Some(file), _) if file.as_os_str() == "-" => {
            read(std::io::stdin()).map_err(|error| Failure::failed(error).at("the standard input"))
        }
        (Some(file), _) => std::fs::File::open(file)
            .and_then(read)
            .map_err(|error| Failure::failed(error).at(format!("--token-file {}", file.display()))),
        (None, Some(token)) if Path::new(token).is_file() => Err(Failure::failed(format!(
            "--token {token} is a file, and --token is the token itself"
        ))
        .help(format!("write --token-file {token}"))),
        (None, Some(token)) => Ok(token.clone()),
        (None, None) => {
            let what =
                "to join, a worker needs a token: --token, --token-file or VOLLEY_JOIN_TOKEN";
            Err(Failure::failed(what).help("`volley certs token` makes one where the CA is"))
        }
    }
}

fn read(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(TOKEN_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The address of this machine from which the managers are reached: the managers reach it there,
/// too. On one machine many nodes share an address, so there the port is any free one.
async fn own_address(managers: &[String]) -> Result<SocketAddr, Failure> {
    for manager in managers {
        let Ok(found) = tokio::net::lookup_host(manager).await else { continue };
        if let Some(ip) = found.filter_map(way_to).next() {
            let port = if ip.is_loopback() { 0 } else { PORT };
            return Ok(SocketAddr::new(ip, port));
        }
    }
    Err(Failure::failed(format!("there is no way to {} from here", managers.join(", ")))
        .help("say with --bind where to listen"))
}

/// Nothing is sent: the system only chooses the way.
fn way_to(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}
