//! What to look at next: one sentence per thing that went wrong, each with something to do.

use stats::{DropCause, ErrorKind, RunResult, StepStats, StopReason, VerdictState};

use crate::format;
use crate::rollup::Rollup;
use crate::unrun;

/// Characters of a message that are repeated here; they end with what to do.
const SAID_MAX: usize = 400;

/// Nothing for a run without trouble.
pub(crate) fn hints(result: &RunResult, rollup: &Rollup) -> Vec<String> {
    let mut hints = Vec::new();
    for kind in ErrorKind::ALL {
        let count = rollup.total.errors[kind as usize];
        if count > 0 {
            hints.extend(error_hint(kind, count, result, rollup));
        }
    }
    hints.extend(
        unrun::login_wall(result, rollup)
            .map(|wall| format!("{wall} (`redirects: false`, or a check of the body, shows it)")),
    );
    hints.extend(unrun::unrun_words(result, rollup));
    hints.extend(drop_hints(result, rollup));
    hints.extend(generator_hint(result));
    hints.extend(slow_hint(result, rollup));
    if rollup.checked.fails > 0 && rollup.total.failed == 0 {
        hints.push(
            "answers came but checks failed: what they found stands below them; `volley run --debug` \
             makes one iteration and shows the full exchanges"
                .to_owned(),
        );
    }
    hints
}

fn error_hint(kind: ErrorKind, n: u64, result: &RunResult, rollup: &Rollup) -> Option<String> {
    let mut samples = result.error_samples.iter().filter(|sample| sample.count > 0);
    let sample = samples.find(|sample| sample.kind == kind);
    let said = sample.map_or(String::new(), |sample| {
        format!(" ({})", format::fit(&format::clean(&sample.message), SAID_MAX))
    });
    let nothing_came = rollup.total.completed == 0;
    let n = format::count(n);
    Some(match kind {
        ErrorKind::Dns => format!("{n} × dns: is the host name in `target` right?{said}"),
        ErrorKind::Refused => {
            format!("{n} × refused: nothing listens there; is the target up?{said}")
        }
        ErrorKind::Connect => {
            format!("{n} × connect: no way to the target (route, firewall, local ports){said}")
        }
        ErrorKind::Tls if said.contains("is not TLS") => {
            format!("{n} × tls: does that port speak TLS? Try http://{said}")
        }
        ErrorKind::Tls if said.contains("the certificate is not for") => format!(
            "{n} × tls: write `tls: {{ server_name: NAME }}` with a name that it is for, or that name in `target`, \
             led to its address by `hosts: {{ NAME: ADDRESS }}`{said}"
        ),
        ErrorKind::Tls => format!(
            "{n} × tls: if the certificate is a private one, trust its CA or set \
             `insecure: true`{said}"
        ),
        ErrorKind::Timeout => format!(
            "{n} × timeout: the target did not keep up; lower the load, or raise `timeout` if \
             such waits are acceptable"
        ),
        ErrorKind::Reset if nothing_came => format!(
            "{n} × reset: the target closed every connection without an answer: does that port speak TLS? Try \
             https://; if not, its log says why"
        ),
        ErrorKind::Reset => format!(
            "{n} × reset: the target closed connections in the middle; its log and its limits on \
             connections and workers are the place to look"
        ),
        ErrorKind::Protocol if said.contains("does not speak HTTP/2") => {
            format!("{n} × protocol: write `version: auto`, or `1.1` (`--http 1.1`){said}")
        }
        ErrorKind::Protocol => {
            format!(
                "{n} × protocol: the answer was not HTTP; http and https, or ports, mixed up?{said}"
            )
        }
        ErrorKind::Body => {
            format!("{n} × body: an answer could not be decoded or was too long{said}")
        }
        ErrorKind::Redirect => {
            format!("{n} × redirect: follow one by hand with `volley ping`{said}")
        }
        ErrorKind::Local => format!(
            "{n} × local: the generator ran out of descriptors or ports; raise `ulimit -n` (limit \
             {}, used {})",
            format::count(result.generator.descriptors_limit),
            format::count(result.generator.descriptors_max),
        ),
        ErrorKind::Extract => format!(
            "{n} × extract: an answer did not have what the step takes from it; if that is \
             expected, say `optional: true`{said}"
        ),
        ErrorKind::NoValue => format!(
            "{n} × no_value: a step was not sent because a value was missing; find out why the \
             step that sets it did not, or did not run, or give a default{said}"
        ),
        ErrorKind::Status => return status_hint(rollup, result),
    })
}

/// The most frequent unexpected answer decides what to say.
fn status_hint(rollup: &Rollup, result: &RunResult) -> Option<String> {
    let total = &rollup.total;
    let shown = result.error_samples.iter().any(|sample| sample.exchange.is_some());
    let look = if shown { "see the exchange above" } else { "look at one with `volley ping`" };
    let errors = total.status.iter().filter(|(status, _)| *status >= 400);
    let Some((status, n)) = errors.max_by_key(|(_, n)| *n) else {
        // Which of the others was not expected, only the failure itself can say: a redirect that
        // was followed is among the answers too.
        let mut samples = result.error_samples.iter();
        let sample = samples.find(|one| one.kind == ErrorKind::Status && one.count > 0);
        let what = sample.map_or("status".into(), |one| format::clean(&one.message));
        let n = format::count(total.errors[ErrorKind::Status as usize]);
        return Some(format!("{n} × {what}: the step's check wants another one: {look}"));
    };
    let what = match status {
        401 | 403 => match lost_cookies(result, rollup) {
            Some(why) => format!("credentials missing or wrong: {look}; {why}"),
            None => format!("credentials missing or wrong: {look}"),
        },
        404 | 405 if total.status.iter().all(|(other, _)| other == status) => format!(
            "the path, the method or the host name is not what the target serves: {look}; a server that \
             serves by name needs the name: in `target` with `hosts: {{ NAME: ADDRESS }}`, or as a `host` header"
        ),
        404 | 405 => format!("the path or method is not what the target serves: {look}"),
        429 => {
            "the target limits its callers: exempt the generator, or test below the limit".into()
        }
        400..=499 => format!("the target does not accept the request: {look}"),
        _ => "the target failed: its log at the time of the run says why".into(),
    };
    Some(format!("{} × status {status}: {what}", format::count(n)))
}

/// Cookies of the plan's `setup` reach nobody; those of `vu_setup` are gone when the first
/// iteration begins, unless they are kept.
fn lost_cookies(result: &RunResult, rollup: &Rollup) -> Option<String> {
    let step = rollup.steps.iter().enumerate().find(|(number, step)| {
        let layout = &result.layout;
        let facts = &layout.workflows[step.workflow].about;
        let name = &layout.steps[*number].name;
        name.starts_with("vu_setup: ") && step.stats.completed > 0 && !facts.keeps_cookies
    });
    let of_setup = rollup.steps.iter().enumerate().find_map(|(number, step)| {
        let name = result.layout.steps[number].name.strip_prefix("setup: ")?;
        (step.stats.completed > 0).then_some(name)
    });
    if let (None, Some(name)) = (&step, of_setup) {
        return Some(format!(
            "if `{name}` in `setup` signs in by a cookie: virtual users do not get it; sign in in `vu_setup` with \
             `cookies: keep` in `defaults`, or extract the value and send it"
        ));
    }
    step.map(|(number, _)| {
        let name = result.layout.steps[number].name.trim_start_matches("vu_setup: ");
        format!(
            "if `{name}` in `vu_setup` signs in by a cookie: cookies last one iteration, unless \
             `defaults` has `cookies: keep`"
        )
    })
}

/// How many virtual users the planned rate needs at the speed that was seen.
fn users_needed(result: &RunResult, rollup: &Rollup, workflow: usize) -> Option<u64> {
    let block = &rollup.workflows[workflow];
    let over = result.layout.workflows[workflow].about.lasts?.as_secs_f64();
    let planned = block.start_lag.count() + block.dropped[DropCause::NoFreeVu as usize];
    let each_s = block.iteration_duration.mean_ms() / 1000.0;
    let needed = (planned as f64 / over * each_s).ceil();
    (over > 0.0 && (1.0..1e9).contains(&needed)).then_some(needed as u64)
}

fn drop_hints(result: &RunResult, rollup: &Rollup) -> Vec<String> {
    let mut hints = Vec::new();
    let dropped = |cause: DropCause| rollup.all.dropped[cause as usize];
    let workflows = result.layout.workflows.iter().zip(&rollup.workflows).enumerate();
    for (number, (workflow, block)) in workflows {
        let n = block.dropped[DropCause::NoFreeVu as usize];
        if n == 0 {
            continue;
        }
        let known = result.workflows.iter().find(|other| other.name == workflow.name);
        let to = users_needed(result, rollup, number).map_or_else(String::new, |needed| {
            let each = format::time_ms(block.iteration_duration.mean_ms());
            format!(" to {} or more (an iteration took {each})", format::count(needed))
        });
        let users = match known.map_or(0, |known| known.vus_max) {
            1 => "the only virtual user".to_owned(),
            many => format!("all {} virtual users", format::count(many)),
        };
        hints.push(format!(
            "{} of {} not started, {users} being busy: raise `max_vus`{to}, unless the target's \
             slowness is the finding",
            format::plural(n, "iteration"),
            workflow.name,
        ));
    }
    if dropped(DropCause::TimeOver) > 0 && result.stop == StopReason::Finished {
        hints.push(format!(
            "{} left when the time was over: raise `max_duration` or ask for fewer",
            format::plural(dropped(DropCause::TimeOver), "iteration"),
        ));
    }
    if dropped(DropCause::DataExhausted) > 0 {
        hints.push(
            "the data set had no row left: add rows, or let them repeat (`order: sequential`, \
             `when_exhausted: recycle`)"
                .to_owned(),
        );
    }
    hints
}

/// A verdict may have many causes; only a busy generator is helped by more of it.
fn generator_hint(result: &RunResult) -> Option<String> {
    let busy = result.generator.busiest_core > 0.9
        || result.verdict.reasons.iter().any(|reason| reason.contains("generator saturated"));
    let word = match result.verdict.state {
        VerdictState::Valid => return None,
        VerdictState::Degraded => "degraded",
        VerdictState::Invalid => "invalid",
    };
    if busy && result.generator.busiest_core < 0.5 {
        return Some(format!(
            "the result is {word}: the generator was late though its cores were mostly idle; \
             something else on this machine had them, or they are throttled"
        ));
    }
    busy.then(|| {
        format!(
            "the result is {word}: give the generator more cores (it had {}), lower the load, or \
             spread it over more machines",
            result.generator.cores,
        )
    })
}

/// A time threshold failed: which step is slowest, and in which phase it spends its time.
fn slow_hint(result: &RunResult, rollup: &Rollup) -> Option<String> {
    let slow = |metric: &str| {
        metric == "latency" || metric == "iteration_duration" || metric.starts_with("http_req_")
    };
    let is_time = |t: &&stats::ThresholdResult| {
        !t.ok && slow(&t.metric) && t.unit == stats::Unit::Milliseconds
    };
    result.thresholds.iter().find(is_time)?;
    let p95 = |stats: &StepStats| stats.latency.percentile_ms(95.0);
    let slowest = rollup.steps.iter().max_by(|a, b| p95(&a.stats).total_cmp(&p95(&b.stats)))?;
    let stats = &slowest.stats;
    let before = (stats.latency.mean_ms() - stats.duration.mean_ms()).max(0.0);
    let phases = [
        ("before sending: the schedule or the connections were behind", before),
        ("sending", stats.sending.mean_ms()),
        ("waiting for the target's first byte", stats.waiting.mean_ms()),
        ("receiving the body", stats.receiving.mean_ms()),
    ];
    let (phase, mean) = phases.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "slowest step: {} with p95 {}; most of its time ({} on average) is spent {phase}",
        slowest.key,
        format::time_ms(p95(stats)),
        format::time_ms(mean),
    ))
}
