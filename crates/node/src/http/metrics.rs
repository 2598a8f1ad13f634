//! The metrics of a member, for Prometheus.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use membership::member::role_index;
use membership::{Counters, Role, State};

use super::text::Page;
use crate::member::{Inner, lock};

pub(super) fn render(inner: &Inner) -> String {
    let mut page = Page::default();
    gossip(&mut page, inner);
    shell(&mut page, inner);
    search(&mut page, inner);
    node(&mut page, inner);
    page.finish()
}

fn gossip(page: &mut Page, inner: &Inner) {
    let view = inner.agent.view();
    for state in State::ALL {
        let labels = [("state", state.name())];
        let count = view.count(state);
        page.gauge("volley_membership_members", "Other members by state.", &labels, count);
    }
    let mut gauge = |name, help, value: u64| page.gauge(name, help, &[], value);
    gauge("volley_membership_local_health", "Score, 0 (well) to 8.", view.health.into());
    gauge("volley_membership_suspicions", "Suspicions under way.", view.suspicions as u64);
    gauge("volley_membership_incarnation", "Own incarnation.", view.incarnation.into());
    gauge("volley_membership_boot", "Which start of this node this is.", inner.life.boot.0);
    verdicts(page, &view.counters);
    traffic(page, &view.counters);
    let help = "Datagrams that the system would not take.";
    page.counter("volley_membership_unsent_total", help, &[], view.unsent);
    let kinds = view.refusals.iter().map(|(refusal, count)| (refusal.name(), count));
    page.counters("volley_membership_refused_total", "Datagrams refused.", "kind", kinds);
    let rtts = view.entries.iter().filter_map(|entry| entry.rtt);
    let rtts = rtts.map(|rtt| rtt.as_secs_f64()).collect();
    let help = "Smoothed round-trip times, one per member.";
    page.summary("volley_membership_rtt_seconds", help, rtts);
}

fn verdicts(page: &mut Page, counters: &Counters) {
    let probes = [
        ("sent", counters.probes_sent),
        ("answered", counters.probes_answered),
        ("failed", counters.probes_failed),
    ];
    let help = "Probes, and how they ended.";
    page.counters("volley_membership_probes_total", help, "result", probes);
    let nacks = [("in", counters.nacks_in), ("out", counters.nacks_out)];
    let help = "Proxies' words that they had no answer either.";
    page.counters("volley_membership_nacks_total", help, "direction", nacks);
    let suspicions = [
        ("started", counters.suspicions_started),
        ("confirmed", counters.suspicions_confirmed),
        ("refuted", counters.suspicions_refuted),
    ];
    let help = "Suspicions of others, by step.";
    page.counters("volley_membership_suspicions_total", help, "step", suspicions);
    let deaths = [
        ("direct", counters.deaths_direct),
        ("gossip", counters.deaths_gossip),
        ("stale", counters.deaths_stale),
        ("doubted", counters.deaths_doubted),
        ("held", counters.deaths_held),
    ];
    let help = "Deaths found or reported, and what became of the reports.";
    page.counters("volley_membership_deaths_total", help, "kind", deaths);
    let mut counter = |name, help, count| page.counter(name, help, &[], count);
    let help = "False alarms about this node that it has contradicted.";
    counter("volley_membership_self_refuted_total", help, counters.self_refuted);
    counter("volley_membership_leaves_total", "Farewells heard.", counters.leaves);
    let help = "Times that this process did not run.";
    counter("volley_membership_stalls_total", help, counters.stalls);
    let by_role = |counts: [u64; Role::ALL.len()]| {
        Role::ALL.map(|role| (role.name(), counts[role_index(role)]))
    };
    let attempts = by_role(counters.confirm_attempts);
    let help = "Knocks at peers only heard of.";
    page.counters("volley_membership_confirmation_attempts_total", help, "role", attempts);
    let removed = by_role(counters.unconfirmed_removed);
    let help = "Peers dropped because nobody ever reached them.";
    page.counters("volley_membership_unconfirmed_removed_total", help, "role", removed);
}

fn traffic(page: &mut Page, counters: &Counters) {
    let datagrams = [("in", counters.datagrams_in), ("out", counters.datagrams_out)];
    page.counters("volley_membership_datagrams_total", "Gossip.", "direction", datagrams);
    let bytes = [("in", counters.bytes_in), ("out", counters.bytes_out)];
    page.counters("volley_membership_bytes_total", "Gossip.", "direction", bytes);
    let help = "Reports about members that were refused.";
    page.counter("volley_membership_updates_refused_total", help, &[], counters.updates_refused);
    let help = "Errors of the protocol core.";
    page.counter("volley_membership_core_errors_total", help, &[], counters.core_errors);
}

fn shell(page: &mut Page, inner: &Inner) {
    let numbers = &inner.numbers;
    let load = |count: &AtomicU64| count.load(Relaxed);
    let help = "First contacts answered.";
    page.counter("volley_membership_hellos_total", help, &[], load(&numbers.hellos_in));
    let exchanges = [("in", load(&numbers.exchanges_in)), ("out", load(&numbers.exchanges_out))];
    let help = "Full state exchanges.";
    page.counters("volley_membership_exchanges_total", help, "direction", exchanges);
    let help = "Exchanges that were not needed: the other one knew the same.";
    let spared = load(&numbers.exchanges_spared);
    page.counter("volley_membership_exchanges_spared_total", help, &[], spared);
    let failures = numbers.exchange_failures.get();
    let help = "Exchanges that came to nothing.";
    page.counters("volley_membership_exchange_failures_total", help, "kind", failures);
    let refused = numbers.calls_refused.get();
    page.counters("volley_membership_calls_refused_total", "Calls refused.", "kind", refused);
    let help = "Connections to these endpoints that were closed because too many were open.";
    page.counter("volley_node_http_refused_total", help, &[], load(&numbers.http_refused));
    let help = "Steps of key rotations.";
    page.counter("volley_membership_key_changes_total", help, &[], load(&numbers.key_changes));
    let help = "Later starts of this node that gossip has told of and nobody has confirmed.";
    let unproven = load(&numbers.unproven_lives);
    page.counter("volley_membership_unproven_lives_total", help, &[], unproven);
    let help = "Workers that were given a certificate for a join token.";
    page.counter("volley_enlisted_total", help, &[], load(&numbers.enlisted));
    let breakers = lock(&numbers.breakers).clone();
    let opened = breakers.iter().map(|(target, (opened, _))| (*target, *opened));
    let help = "Circuit breakers that opened, failed trials included.";
    page.counters("volley_breaker_openings_total", help, "target", opened);
    for (target, (_, open)) in &breakers {
        let help = "Circuit breakers that are not closed.";
        page.gauge("volley_breakers_open", help, &[("target", target)], open);
    }
    let not_saved = load(&numbers.peers_not_saved);
    let help = "Times that peers could not be remembered on disk.";
    page.counter("volley_membership_peers_not_saved_total", help, &[], not_saved);
}

fn search(page: &mut Page, inner: &Inner) {
    let counts = inner.search.borrow().counts;
    let lookups = [
        ("asked", counts.lookups),
        ("failed", counts.lookups_failed),
        ("timed_out", counts.lookups_timed_out),
        ("cached", counts.cache_hits),
        ("cached_negative", counts.negative_cache_hits),
    ];
    page.counters("volley_discovery_lookups_total", "DNS lookups.", "result", lookups);
    let probes = [
        ("sent", counts.probes),
        ("answered", counts.probes_answered),
        ("timed_out", counts.probes_timed_out),
        ("failed", counts.probes_failed),
        ("refused", counts.refused),
    ];
    page.counters("volley_discovery_probes_total", "First contacts tried.", "result", probes);
    let joins = [("done", counts.joins), ("failed", counts.joins_failed)];
    page.counters("volley_discovery_joins_total", "Joins and merges.", "result", joins);
    let help = "Rounds in which nobody was found.";
    page.counter("volley_discovery_rounds_failed_total", help, &[], counts.rounds_failed);
}

fn node(page: &mut Page, inner: &Inner) {
    for (direction, kind, count) in inner.network.counts() {
        let labels = [("direction", direction.name()), ("kind", kind)];
        let help = "Connections made and refused.";
        page.counter("volley_node_connections_total", help, &labels, count);
    }
    let reloads = &inner.reloads;
    let reloads = [("done", reloads.done.load(Relaxed)), ("failed", reloads.failed.load(Relaxed))];
    let help = "Certificates taken into use while running.";
    page.counters("volley_node_certificate_reloads_total", help, "result", reloads);
    let tasks = inner.supervisor.counts();
    let restarts = tasks.iter().map(|(task, counts)| (*task, counts.restarts));
    let help = "Background tasks started again.";
    page.counters("volley_node_task_restarts_total", help, "task", restarts);
    let panics = tasks.iter().map(|(task, counts)| (*task, counts.panics));
    let help = "Background tasks that panicked.";
    page.counters("volley_node_task_panics_total", help, "task", panics);
    let ready = u8::from(inner.is_ready());
    page.gauge("volley_node_ready", "It has joined and may be offered work.", &[], ready);
}
