//! Agents on machines of their own: network namespaces, with a wire between them that loses, delays
//! and cuts.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::agents::cluster::{Cluster, let_pass};
use crate::agents::net::{Net, Wire, place};
use crate::common::until;
use serde_json::Value;

const SIZE: usize = 5;
/// At the pace of these tests.
const PROBE_PERIOD: Duration = Duration::from_millis(200);
const ANTI_ENTROPY: Duration = Duration::from_secs(6);

/// Five agents on five machines, all known to each other; `None`, with the reason said, where that
/// cannot be.
fn machines() -> Option<(Rc<Net>, Cluster)> {
    let net = match Net::new(SIZE) {
        Ok(net) => Rc::new(net),
        Err(why) => {
            eprintln!("skipped: {why} (network namespaces need root, `ip` and /dev/net/tun)");
            return None;
        }
    };
    let wires = Rc::clone(&net);
    let placing = Box::new(move |at, command: &mut _| wires.run_on(at, command));
    let cluster = Cluster::placed(SIZE, |at| (place(at, 7500), place(at, 7600)), placing);
    Some((net, cluster.formed()))
}

fn deaths(cluster: &Cluster, at: usize) -> u64 {
    let table = cluster.table(at).expect("the agent answers");
    let rows = table["members"].as_array().unwrap().iter();
    rows.map(|row| row["deaths"].as_u64().unwrap()).sum()
}

fn rtts_us(table: &Value) -> Vec<u64> {
    let rows = table["members"].as_array().unwrap().iter();
    rows.filter(|row| row["self"] == false).filter_map(|row| row["rtt_us"].as_u64()).collect()
}

/// ARCH-31, ARCH-33, LIFE-90: a third of all packets lost, all late, later a pair that hears each
/// other in one direction only: nobody is declared dead, because others are asked and suspects
/// contradict. Round-trip times are the wire's.
#[test]
fn loss_and_one_way_cuts_kill_nobody() {
    let Some((net, cluster)) = machines() else { return };
    let delay = Duration::from_millis(10);
    let jitter = Duration::from_millis(5);
    net.set(|_, _| Wire { loss: 30, delay, jitter, cut: false });
    let before = net.lost();
    let_pass(PROBE_PERIOD * 50);
    let lost = net.lost() - before;
    assert!(lost > 100, "only {lost} packets were lost");
    // Questions of ours pass the same wire; without the loss they are quicker.
    net.set(|_, _| Wire { delay, jitter, ..Wire::default() });
    for at in 0..SIZE {
        assert_eq!(deaths(&cluster, at), 0, "{}", cluster.table(at).unwrap());
        // They are smoothed: the time before the delay has to wear off.
        until("round-trip times are the wire's", || {
            let rtts = rtts_us(&cluster.table(at).expect("the agent answers"));
            rtts.len() == SIZE - 1 && rtts.iter().all(|rtt| *rtt >= 18_000)
        });
    }

    // 0 cannot reach 1, but 1 reaches 0, and everybody else reaches both.
    net.set(|from, to| Wire { cut: (from, to) == (0, 1), ..Wire::default() });
    let before = net.lost();
    let_pass(PROBE_PERIOD * 40);
    assert!(net.lost() > before, "nothing was cut");
    net.heal();
    for at in 0..SIZE {
        assert_eq!(deaths(&cluster, at), 0, "{}", cluster.table(at).unwrap());
    }
    cluster.wait_until_all_know_all();
}

/// One that is heard but hears nothing cannot contradict. It is given up, and comes back by itself
/// in a new life of the same boot once it hears again.
#[test]
fn who_hears_nothing_is_given_up_and_comes_back() {
    let Some((net, cluster)) = machines() else { return };
    net.set(|_, to| Wire { cut: to == 4, ..Wire::default() });
    until("the others have given it up", || (0..4).all(|at| cluster.state(at, 4) == "dead"));
    net.heal();
    cluster.wait_until_all_know_all();
    let row = cluster.row(0, 4).unwrap();
    assert_eq!(row["boot"], 1, "{row}");
    assert!(row["generation"].as_u64().unwrap() > 0, "{row}");
}

/// DET-83: a full split, until neither side counts on the other; healed, they are one again within
/// ten probe periods and two rounds of anti-entropy, without anybody's help.
#[test]
fn a_full_split_heals_by_itself() {
    let Some((net, cluster)) = machines() else { return };
    net.set(|from, to| Wire { cut: (from < 3) != (to < 3), ..Wire::default() });
    until("neither side counts on the other", || {
        (0..3).all(|at| cluster.confirmed(at) == 3) && (3..5).all(|at| cluster.confirmed(at) == 2)
    });
    // Long enough for verdicts, where there are any.
    let_pass(PROBE_PERIOD * 30);
    net.heal();
    let healed = Instant::now();
    cluster.wait_until_all_know_all();
    let took = healed.elapsed();
    assert!(took <= PROBE_PERIOD * 10 + ANTI_ENTROPY * 2, "it took {took:?}");
    eprintln!("merged after {took:?}");
}
