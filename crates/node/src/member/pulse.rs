//! The heartbeat of the role: asked for every second, and carried by the gossip.

use std::sync::Arc;
use std::time::Duration;

use membership::heartbeat::{Heartbeat, Stage};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Inner;

const EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn run(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let Some(report) = inner.config.report.clone() else { return };
    let every = inner.scaled(EVERY);
    let (mut synced, mut leaving) = (inner.synced.subscribe(), inner.leaving.subscribe());
    let mut sequence = 0;
    loop {
        let vitals = report();
        sequence += 1;
        let stage = if *leaving.borrow_and_update() {
            Stage::Draining
        } else if *synced.borrow_and_update() {
            vitals.stage
        } else {
            Stage::Syncing
        };
        let heartbeat = Heartbeat {
            sequence,
            stage,
            overload: vitals.overload,
            work: vitals.work,
            beat: vitals.beat,
        };
        *super::lock(&inner.numbers.heartbeat) = Some(heartbeat);
        if inner.agent.heartbeat(heartbeat.encode()).await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = synced.changed() => {}
            _ = leaving.changed() => {}
            () = sleep(every) => {}
        }
    }
}
