//! The fleet for people: the nodes, and what the managers think of the workers.
//!
//! Only a job's owner talks with its workers, so only it knows which of them does not answer.
//! Whoever is asked by a client asks the other managers, and shows the worst that any of them says.

use std::time::Duration;

use control::pool::Worker;
use fence::NodeId;
use membership::Entry;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Parts, Shared, effects, roster};
use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::proto::{FleetNode, FleetReply, FleetRequest};

/// For another manager's view. One that is slow is left out.
const OTHERS_WITHIN: Duration = Duration::from_millis(500);
/// Of a node's id, for people.
const SHORT: usize = 8;

/// As this manager sees it. `owned`: the owner of each running job.
pub fn here(shared: &Shared, parts: &Parts, owned: &[NodeId]) -> FleetReply {
    let view = parts.member.view();
    let leader = parts.ledger.status().leader.map(|(node, _)| node);
    let nodes = roster::nodes(&view, leader, owned, |entry: &Entry| shared.judge(parts, entry));
    let workers = shared.workers(parts);
    let ready = workers.iter().filter(|worker| Worker::takes_work(worker));
    let (cores, cores_free) =
        ready.fold((0, 0), |(total, free), one| (total + one.total, free + one.free));
    FleetReply { nodes, cores, cores_free }
}

/// Adds what the other managers think, as far as they answer.
pub async fn everywhere(parts: &Parts, reply: &mut FleetReply) {
    let me = parts.ledger.id();
    let mut others = JoinSet::new();
    for node in roster::managers(&parts.member.view()).into_iter().filter(|node| *node != me) {
        let Some(channel) = effects::channel(parts, node) else { continue };
        others.spawn(async move {
            let mut jobs = JobsClient::new(channel);
            let answered = timeout(OTHERS_WITHIN, jobs.fleet(FleetRequest {})).await;
            answered.ok()?.ok().map(|answer| (node, answer.into_inner()))
        });
    }
    while let Some(answered) = others.join_next().await {
        if let Ok(Some((node, theirs))) = answered {
            adopt(&mut reply.nodes, &theirs.nodes, node);
        }
    }
}

/// Takes what another manager thinks of a worker, if that is worse.
fn adopt(nodes: &mut [FleetNode], theirs: &[FleetNode], manager: NodeId) {
    for node in nodes {
        let Some(other) = theirs.iter().find(|other| other.node == node.node) else { continue };
        if !other.why.is_empty() && other.routing() > node.routing() {
            let manager = manager.to_string();
            node.routing = other.routing;
            node.why = format!("{}; says manager {}", other.why, &manager[..SHORT]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::proto::Routing;

    fn node(name: &str, routing: Routing, why: &str) -> FleetNode {
        FleetNode {
            node: name.to_owned(),
            routing: routing.into(),
            why: why.to_owned(),
            ..FleetNode::default()
        }
    }

    /// The worst that anybody says is shown, with who says it.
    #[test]
    fn the_worst_verdict_of_all_managers_is_shown() {
        let mut nodes = [
            node("a", Routing::Route, ""),
            node("b", Routing::Investigate, "slow"),
            node("c", Routing::Drain, "breaker open: mine"),
            node("d", Routing::Route, ""),
        ];
        let theirs = [
            node("c", Routing::Drain, "breaker open: theirs"),
            node("b", Routing::Drain, "breaker open: no answer 3 times in 9 s"),
            node("a", Routing::Drain, ""),
            node("e", Routing::Drain, "breaker open"),
        ];
        adopt(&mut nodes, &theirs, NodeId(0xabcd << 112));
        let whys: Vec<&str> = nodes.iter().map(|node| &node.why[..]).collect();
        let second = "breaker open: no answer 3 times in 9 s; says manager abcd0000";
        assert_eq!(whys, ["", second, "breaker open: mine", ""]);
        assert_eq!(nodes[1].routing(), Routing::Drain);
    }
}
