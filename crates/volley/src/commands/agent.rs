//! `volley debug agent`: a bare member of a cluster, until a signal ends it.

use std::time::Duration;

use membership::{Change, Notice};
use node::{End, Member};
use report::ExitCode;
use tokio::sync::mpsc;
use trust::Identity;

use super::members::{Step, time_of_day};
use crate::cli::AgentArgs;
use crate::failure::{Failure, Threads, block_on, told};
use crate::{log, print, signals};

/// How long a farewell and the end of all tasks may take.
const FAREWELL: Duration = Duration::from_secs(5);

pub fn agent(args: &AgentArgs) -> ExitCode {
    log::to_stderr("warn");
    told(block_on(Threads::Two, run(args)))
}

/// What was asked for and what the certificate says must agree.
fn check(args: &AgentArgs, identity: &Identity) -> Result<(), Failure> {
    let certs = args.certs.display();
    if let Some(role) = args.role.filter(|role| *role != identity.role) {
        return Err(Failure::failed(format!(
            "--role {role}, but the certificate in {certs} is a {}'s",
            identity.role
        )));
    }
    match &args.datacenter {
        Some(name) if *name != identity.datacenter => Err(Failure::failed(format!(
            "--datacenter {name}, but the certificate in {certs} is of {}",
            identity.datacenter
        ))),
        _ => Ok(()),
    }
}

async fn run(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let config = super::node::config(&args.node, &args.certs, &[]).await?;
    // Before the start, which would already raise the boot in the data folder and speak to others.
    let shown = trust::show(&config.credentials.certificate).map_err(Failure::failed)?;
    if let Some(Ok(identity)) = shown.first().map(|facts| &facts.identity) {
        check(args, identity)?;
    }
    let (stop, mut stopped) = mpsc::unbounded_channel();
    signals::on_interrupt(move || {
        if stop.send(()).is_err() {
            // Already on the way out, and asked again.
            std::process::exit(ExitCode::Interrupted.number());
        }
    });
    let starting = Member::start(config);
    let member = tokio::select! {
        biased;
        _ = stopped.recv() => return Ok(ExitCode::Interrupted),
        started = starting => started.map_err(Failure::failed)?,
    };
    print::line(&format!(
        "{} (boot {}) listens on {}; Ctrl-C says goodbye and ends",
        member.identity(),
        member.life().boot,
        member.address()
    ));
    if let Some(address) = member.http_address() {
        print::line(&format!("metrics on http://{address}/metrics"));
    }
    let end: Option<End> = tokio::select! {
        biased;
        _ = stopped.recv() => None,
        end = member.ended() => Some(end),
        () = tell(&member) => None,
    };
    if let Some(end) = end {
        return Err(Failure::failed(end));
    }
    // From here on the next signal ends at once.
    drop(stopped);
    print::line("saying goodbye");
    match member.leave(FAREWELL).await {
        Ok(()) => print::line("left"),
        Err(unfinished) => eprintln!("volley: {unfinished}"),
    }
    Ok(ExitCode::Passed)
}

/// A line for whatever changes, until the gossip ends.
async fn tell(member: &Member) {
    let mut views = member.watch();
    let (mut version, mut heard) = (0, 0);
    loop {
        let view = views.borrow_and_update().clone();
        if view.version > version {
            match member.changes(version).await {
                Ok(Ok(changes)) => changes.iter().for_each(|change| {
                    version = change.version;
                    print::line(&format!("{}  {}", time_of_day(), step_of(change)));
                }),
                Ok(Err(missed)) => {
                    version = missed.version;
                    print::line(&format!("{}  so much that not all is told", time_of_day()));
                }
                Err(_) => return,
            }
        }
        // The view keeps the last few; a place in it is when it was noticed.
        for (at, notice) in &view.notices {
            let at = at.as_nanos() + 1;
            if at > heard {
                heard = at;
                if let Some(words) = words_of(notice) {
                    print::line(&format!("{}  {words}", time_of_day()));
                }
            }
        }
        if views.changed().await.is_err() {
            return;
        }
    }
}

fn step_of(change: &Change) -> Step {
    Step {
        role: change.peer.role,
        node: change.peer.node,
        address: Some(change.peer.address),
        boot: change.peer.boot,
        from: change.from,
        to: change.to,
        cause: change.cause,
    }
}

/// What is not seen from the changes; the farewell speaks for itself.
fn words_of(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::Left => return None,
        Notice::DeathRefuted { generation } => format!(
            "the others believed that this member was dead; it has come back (life {generation} of this boot)"
        ),
        Notice::LaterLifeTold { peer } => format!(
            "others tell of a later start of this node ({}, at {}); the managers are asked whether that is so",
            peer.boot, peer.address
        ),
        Notice::MassDeath { suspects, tier } => format!(
            "{suspects} of {tier} seem to be gone at once; perhaps it is this one that is cut off, so it waits"
        ),
        Notice::Unconfirmed { peer, since } => format!(
            "{peer} has not been reached for {} s; is its address right, and is UDP let through?",
            since.as_secs()
        ),
        Notice::UnconfirmedPeerRemoved { peer } => {
            format!("{peer} was never reached and is dropped")
        }
        Notice::Stalled { by } => {
            format!("this process did not run for {by:.1?}; is the machine overloaded?")
        }
        Notice::HeartbeatTooLong { bytes } => {
            format!("a heartbeat of {bytes} bytes does not fit and was not sent")
        }
    })
}
