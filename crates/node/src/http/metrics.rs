//! The metrics of a member, for Prometheus.

use std::sync::atomic::Ordering::Relaxed;

use membership::member::role_index;
use membership::{Role, State};

use super::text::Page;
use crate::member::Inner;

#[rustfmt::skip]
pub(super) fn render(inner: &Inner) -> String {
    let mut page = Page::default();
    gossip(&mut page, inner);
    let numbers = &inner.numbers;
    page.counter("volley_membership_hellos_total", "First contacts answered.", &[], numbers.hellos_in.load(Relaxed));
    for (direction, count) in [("in", &numbers.exchanges_in), ("out", &numbers.exchanges_out)] {
        page.counter("volley_membership_exchanges_total", "Full state exchanges.", &[("direction", direction)], count.load(Relaxed));
    }
    for (kind, count) in numbers.exchange_failures.get() {
        page.counter("volley_membership_exchange_failures_total", "Exchanges that came to nothing.", &[("kind", kind)], count);
    }
    for (kind, count) in numbers.calls_refused.get() {
        page.counter("volley_membership_calls_refused_total", "Calls refused, by reason.", &[("kind", kind)], count);
    }
    page.counter("volley_membership_key_changes_total", "Steps of key rotations.", &[], numbers.key_changes.load(Relaxed));
    page.counter("volley_membership_peers_not_saved_total", "Times that peers could not be remembered on disk.", &[], numbers.peers_not_saved.load(Relaxed));
    search(&mut page, inner);
    for (direction, kind, count) in inner.network.counts() {
        page.counter("volley_node_connections_total", "Connections made and refused, by kind.", &[("direction", direction.name()), ("kind", kind)], count);
    }
    for (result, count) in [("done", &inner.reloads.done), ("failed", &inner.reloads.failed)] {
        page.counter("volley_node_certificate_reloads_total", "Certificates taken into use while running.", &[("result", result)], count.load(Relaxed));
    }
    let tasks = inner.supervisor.counts();
    for (task, counts) in &tasks {
        page.counter("volley_node_task_restarts_total", "Background tasks started again.", &[("task", task)], counts.restarts);
    }
    for (task, counts) in &tasks {
        page.counter("volley_node_task_panics_total", "Background tasks that panicked.", &[("task", task)], counts.panics);
    }
    page.gauge("volley_node_ready", "Whether this node has joined and may be offered work.", &[], u8::from(inner.is_ready()));
    page.finish()
}

#[rustfmt::skip]
fn gossip(page: &mut Page, inner: &Inner) {
    let view = inner.agent.view();
    let counters = &view.counters;
    for state in State::ALL {
        page.gauge("volley_membership_members", "Other members by state.", &[("state", state.name())], view.count(state));
    }
    page.gauge("volley_membership_local_health", "Local health score, 0 (well) to 8.", &[], view.health);
    page.gauge("volley_membership_suspicions", "Suspicions under way.", &[], view.suspicions);
    page.gauge("volley_membership_incarnation", "Own incarnation.", &[], view.incarnation);
    page.gauge("volley_membership_boot", "Which start of this node this is.", &[], inner.life.boot.0);
    for (result, count) in [("sent", counters.probes_sent), ("answered", counters.probes_answered), ("failed", counters.probes_failed)] {
        page.counter("volley_membership_probes_total", "Probes sent, and how they ended.", &[("result", result)], count);
    }
    for (direction, count) in [("in", counters.nacks_in), ("out", counters.nacks_out)] {
        page.counter("volley_membership_nacks_total", "Proxies' words that they had no answer either.", &[("direction", direction)], count);
    }
    for (step, count) in [("started", counters.suspicions_started), ("confirmed", counters.suspicions_confirmed), ("refuted", counters.suspicions_refuted)] {
        page.counter("volley_membership_suspicions_total", "Suspicions of others, by step.", &[("step", step)], count);
    }
    page.counter("volley_membership_self_refuted_total", "False alarms about this node that it has contradicted.", &[], counters.self_refuted);
    for (kind, count) in [
        ("direct", counters.deaths_direct),
        ("gossip", counters.deaths_gossip),
        ("stale", counters.deaths_stale),
        ("doubted", counters.deaths_doubted),
        ("held", counters.deaths_held),
    ] {
        page.counter("volley_membership_deaths_total", "Deaths declared or reported, and what became of the reports.", &[("kind", kind)], count);
    }
    page.counter("volley_membership_leaves_total", "Farewells heard.", &[], counters.leaves);
    page.counter("volley_membership_stalls_total", "Times that this process did not run.", &[], counters.stalls);
    for role in Role::ALL {
        page.counter("volley_membership_confirmation_attempts_total", "Knocks at peers only heard of.", &[("role", role.name())], counters.confirm_attempts[role_index(role)]);
    }
    for role in Role::ALL {
        page.counter("volley_membership_unconfirmed_removed_total", "Peers dropped because nobody ever reached them.", &[("role", role.name())], counters.unconfirmed_removed[role_index(role)]);
    }
    for (direction, count) in [("in", counters.datagrams_in), ("out", counters.datagrams_out)] {
        page.counter("volley_membership_datagrams_total", "Gossip datagrams.", &[("direction", direction)], count);
    }
    for (direction, count) in [("in", counters.bytes_in), ("out", counters.bytes_out)] {
        page.counter("volley_membership_bytes_total", "Gossip bytes.", &[("direction", direction)], count);
    }
    page.counter("volley_membership_unsent_total", "Datagrams that the system would not take.", &[], view.unsent);
    for (refusal, count) in view.refusals.iter() {
        page.counter("volley_membership_refused_total", "Datagrams refused, by kind.", &[("kind", refusal.name())], count);
    }
    page.counter("volley_membership_updates_refused_total", "Reports about members that were refused.", &[], counters.updates_refused);
    page.counter("volley_membership_core_errors_total", "Errors of the protocol core.", &[], counters.core_errors);
    let rtts = view.entries.iter().filter_map(|entry| entry.rtt).map(|rtt| rtt.as_secs_f64()).collect();
    page.summary("volley_membership_rtt_seconds", "Smoothed round-trip times, one per member.", rtts);
}

#[rustfmt::skip]
fn search(page: &mut Page, inner: &Inner) {
    let counts = inner.search.borrow().counts;
    for (result, count) in [("asked", counts.lookups), ("failed", counts.lookups_failed), ("timed_out", counts.lookups_timed_out), ("cached", counts.cache_hits), ("cached_negative", counts.negative_cache_hits)] {
        page.counter("volley_discovery_lookups_total", "DNS lookups.", &[("result", result)], count);
    }
    for (result, count) in [("sent", counts.probes), ("answered", counts.probes_answered), ("timed_out", counts.probes_timed_out), ("failed", counts.probes_failed), ("refused", counts.refused)] {
        page.counter("volley_discovery_probes_total", "First contacts tried.", &[("result", result)], count);
    }
    for (result, count) in [("done", counts.joins), ("failed", counts.joins_failed)] {
        page.counter("volley_discovery_joins_total", "Joins and merges.", &[("result", result)], count);
    }
    page.counter("volley_discovery_rounds_failed_total", "Rounds in which nobody was found.", &[], counts.rounds_failed);
}
