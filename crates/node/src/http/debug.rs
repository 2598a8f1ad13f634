//! The debug pages, as JSON: what this member knows and why. Fields are for people and may grow.

use std::time::Duration;

use membership::heartbeat::Heartbeat;
use membership::member::{passive_wait, role_index};
use membership::{Entry, Role, State};
use serde_json::{Value, json};

use crate::member::{Inner, lock};
use crate::wire;

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// This member and its gossip, in one page (DET-130).
pub(super) fn membership(inner: &Inner) -> Value {
    let view = inner.agent.view();
    let identity = &inner.identity;
    let counts: serde_json::Map<String, Value> = State::ALL
        .iter()
        .map(|state| (state.name().to_owned(), view.count(*state).into()))
        .collect();
    let refusals: serde_json::Map<String, Value> = view
        .refusals
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(refusal, count)| (refusal.name().to_owned(), count.into()))
        .collect();
    let notices: Vec<Value> = view
        .notices
        .iter()
        .map(|(at, notice)| {
            let ago = seconds(view.age.saturating_sub(*at));
            json!({ "seconds_ago": ago, "notice": format!("{notice:?}") })
        })
        .collect();
    let end = inner.end.borrow().as_ref().map(ToString::to_string);
    json!({
        "node": identity.node.to_string(),
        "role": identity.role.name(),
        "cluster": identity.cluster,
        "environment": identity.environment,
        "datacenter": identity.datacenter,
        "address": inner.address.to_string(),
        "boot": inner.life.boot.0,
        "generation": view.me.generation,
        "incarnation": view.incarnation,
        "age_seconds": seconds(view.age),
        "version": view.version,
        "local_health": view.health,
        "suspicions": view.suspicions,
        "ready": inner.is_ready(),
        "synced": *inner.synced.borrow(),
        "leaving": *inner.leaving.borrow(),
        "must_stop": end,
        "members": counts,
        "refused_datagrams": refusals,
        "refused_calls": inner.numbers.calls_refused.get(),
        "exchange_failures": inner.numbers.exchange_failures.get(),
        "notices": notices,
    })
}

/// Every member with its state, times and signals.
pub(super) fn members(inner: &Inner) -> Value {
    let view = inner.agent.view();
    view.entries.iter().map(|entry| member(inner, entry, view.age)).collect()
}

fn member(inner: &Inner, entry: &Entry, now: Duration) -> Value {
    let node = entry.peer.node;
    let ago = |at: Duration| seconds(now.saturating_sub(at));
    let health = inner.assessment(node).map(|health| {
        let history: Vec<Value> = lock(&inner.health)
            .history(node)
            .map(|(at, verdict)| {
                json!({ "seconds_ago": ago(at), "verdict": wire::verdict_name(verdict) })
            })
            .collect();
        json!({
            "live": health.live,
            "ready": health.ready,
            "progress": wire::progress_name(health.progress),
            "verdict": wire::verdict_name(health.verdict),
            "history": history,
        })
    });
    let heartbeat = Heartbeat::decode(&entry.heartbeat).map(|beat| {
        json!({
            "sequence": beat.sequence,
            "stage": wire::stage_name(beat.stage),
            "overload": wire::overload_name(beat.overload),
            "done": beat.work.done,
            "runnable": beat.work.runnable,
            "role": format!("{:?}", beat.beat),
        })
    });
    json!({
        "node": node.to_string(),
        "role": entry.peer.role.name(),
        "datacenter": entry.datacenter,
        "address": entry.peer.address.to_string(),
        "state": entry.state.name(),
        "boot": entry.peer.boot.0,
        "generation": entry.peer.generation,
        "incarnation": entry.incarnation,
        "known_for_seconds": ago(entry.first_seen),
        "in_state_for_seconds": ago(entry.since),
        "heard_seconds_ago": entry.last_heard.map(ago),
        "two_way": entry.two_way,
        "rtt_ms": entry.rtt.map(millis),
        "deaths": entry.deaths,
        "health": health,
        "heartbeat": heartbeat,
    })
}

/// Lists the peers that were only heard of.
pub(super) fn unconfirmed(inner: &Inner) -> Value {
    let view = inner.agent.view();
    let rows = view.entries.iter().filter(|entry| entry.state == State::Unconfirmed).map(|entry| {
        let age = view.age.saturating_sub(entry.first_seen);
        let remaining = passive_wait(entry.peer.role).saturating_sub(age);
        json!({
            "peer": entry.peer.node.to_string(),
            "address": entry.peer.address.to_string(),
            "role": entry.peer.role.name(),
            "discovered_at": seconds(entry.first_seen),
            "age_seconds": seconds(age),
            "passive_timeout_remaining": seconds(remaining),
            "confirmation_attempts": entry.confirm_attempts,
            "next_attempt_in": seconds(remaining.max(entry.next_attempt.saturating_sub(view.age))),
        })
    });
    let peers: Vec<Value> = rows.collect();
    let by_role = |counts: [u64; Role::ALL.len()]| -> Value {
        let pairs =
            Role::ALL.iter().map(|role| (role.name().to_owned(), counts[role_index(*role)].into()));
        Value::Object(pairs.collect())
    };
    json!({
        "peers": peers,
        "confirmation_attempts": by_role(view.counters.confirm_attempts),
        "removed": by_role(view.counters.unconfirmed_removed),
    })
}

/// The search for peers.
pub(super) fn discovery(inner: &Inner) -> Value {
    let search = inner.search.borrow().clone();
    let counts = search.counts;
    json!({
        "phase": format!("{:?}", search.phase).to_lowercase(),
        "looked_around": search.looked_around,
        "candidates": search.candidates,
        "lookups": counts.lookups,
        "lookups_failed": counts.lookups_failed,
        "lookups_timed_out": counts.lookups_timed_out,
        "cache_hits": counts.cache_hits,
        "negative_cache_hits": counts.negative_cache_hits,
        "probes": counts.probes,
        "probes_answered": counts.probes_answered,
        "probes_timed_out": counts.probes_timed_out,
        "probes_failed": counts.probes_failed,
        "refused": counts.refused,
        "rounds_failed": counts.rounds_failed,
        "joins": counts.joins,
        "joins_failed": counts.joins_failed,
        "notices": search.notices,
    })
}

/// The background tasks.
pub(super) fn tasks(inner: &Inner) -> Value {
    let tasks = inner.supervisor.counts().into_iter().map(|(name, counts)| {
        json!({
            "name": name,
            "running": counts.running,
            "restarts": counts.restarts,
            "panics": counts.panics,
        })
    });
    tasks.collect()
}
