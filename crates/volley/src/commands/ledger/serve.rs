//! `volley debug ledger serve DIR`: one member, until a signal ends it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fence::{Hlc, NodeId};
use ledger::store::{Storage, StoreOptions, WalOwner};
use ledger::{Bootstrap, Node, NodeConfig, TcpTransport};
use report::ExitCode;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::draw;
use crate::cli::ServeArgs;
use crate::failure::{Failure, Threads, block_on, told};
use crate::{log, print, signals};

pub fn serve(args: &ServeArgs) -> ExitCode {
    log::to_stderr(crate::commands::node::QUIET);
    told(block_on(Threads::PerCore, run(args)))
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn storage(args: &ServeArgs) -> Result<Storage, Failure> {
    let options = StoreOptions {
        node: None,
        draw: Arc::new(draw),
        // The node puts its own id and count in; here only the time is known.
        clock: Arc::new(|| Hlc { wall_ms: wall_ms(), logical: 0, node: NodeId::default() }),
        wal: wal::Options::default(),
        blobs: ledger::blobs::BlobLimits::default(),
        snapshot_bytes: 1 << 30,
    };
    let disk = Arc::new(wal::RealDisk);
    Storage::open(disk, args.folder.clone(), options, WalOwner::Thread).map_err(Failure::failed)
}

async fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let bootstrap = match (&args.peers[..], args.join) {
        (_, true) => Bootstrap::Join,
        ([], false) => Bootstrap::Alone,
        (peers, false) if !peers.contains(&args.listen) => {
            return Err(Failure::failed(format!(
                "--peers lists all voters, this one included: {} is missing",
                args.listen
            )));
        }
        (peers, false) => Bootstrap::Peers(peers.iter().map(ToString::to_string).collect()),
    };
    let storage = storage(args)?;
    let recovered = storage.recovered();
    if let Some(torn) = &recovered.wal.torn {
        eprintln!("volley: a torn tail was cut off the log: {torn}");
    }
    if storage.fresh_disk() && recovered.lost_disk.is_some() {
        eprintln!(
            "volley: this member has lost its log; it votes again when a member has admitted it: \
             `volley debug ledger members MEMBER readmit {}`",
            args.listen
        );
    }
    let mut config =
        NodeConfig { address: args.listen.to_string(), bootstrap, ..NodeConfig::default() };
    config.timing.pace = args.pace;
    let node =
        Node::start(config, storage, Arc::new(TcpTransport)).await.map_err(Failure::failed)?;
    print::line(&format!(
        "member {} (start {}) listens on {}; Ctrl-C ends it",
        node.id(),
        node.session().boot,
        args.listen
    ));

    let (stop, mut stopped) = mpsc::unbounded_channel();
    signals::on_interrupt(move || {
        let _ = stop.send(());
    });
    let mut failed = node.failed();
    let failure = tokio::select! {
        biased;
        _ = stopped.recv() => None,
        // The sender lives as long as the node.
        Ok(why) = failed.wait_for(Option::is_some) => why.clone(),
        () = say_what_changes(&node) => None,
    };
    if let Some(why) = failure {
        return Err(Failure::failed(format!("the member has stopped: {why}")));
    }
    node.shutdown().await;
    print::line("ended; everything that was acknowledged is on the disk");
    Ok(ExitCode::Passed)
}

/// A line whenever who leads, or what it waits for, has changed.
async fn say_what_changes(node: &Node) {
    let mut last = String::new();
    loop {
        let status = node.status();
        let now = match (&status.waiting_for, &status.leader) {
            (Some(what), _) => what.clone(),
            (None, _) if status.leads => format!("leads, term {}", status.term),
            (None, Some((id, address))) if *id != status.node => {
                format!("follows {id} at {address}, term {}", status.term)
            }
            (None, _) => "nobody leads".to_owned(),
        };
        if now != last {
            print::line(&now);
            last = now;
        }
        sleep(Duration::from_millis(100)).await;
    }
}
