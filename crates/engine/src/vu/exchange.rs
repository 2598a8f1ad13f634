//! One request step: send, follow redirects, judge, extract, count.

use base::clock;
use fence::Moment;
use std::time::Duration;

use plan::OnFailure;
use stats::ErrorKind;

use super::render::{Hop, Rendered};
use super::{Flow, Scratch, Vu};
use crate::program::{CheckProgram, RequestProgram, TargetProgram, status_fits};
use crate::recorder::At;
use crate::trace;
use client::{
    ExchangeEnd, Failure, Keep, Outgoing, Progress, Response, decode_body, parse_url, take_userinfo,
};

/// How long a user waits after the first connection that was refused; twice as long after each one
/// more.
const BACK_OFF_FIRST: Duration = Duration::from_millis(1);
const BACK_OFF_MAX: Duration = Duration::from_millis(100);

/// Where an exchange is counted if it is dropped before its end.
struct InFlight<'a> {
    vu: &'a Vu,
    at: At,
    progress: &'a Progress,
    done: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.vu.context.recorder.ended();
        if !self.done {
            self.vu.context.recorder.interrupted(self.at, self.progress);
        }
    }
}

/// How one hop ended.
struct Hopped {
    result: Result<(), Failure>,
    latency_ns: u64,
}

impl Vu {
    pub(super) async fn request(&self, request: &RequestProgram) -> Flow {
        let mut scratch = self.take_scratch();
        let flow = self.request_with(request, &mut scratch).await;
        self.scratch.borrow_mut().push(scratch);
        flow
    }

    async fn request_with(&self, request: &RequestProgram, scratch: &mut Scratch) -> Flow {
        // The step before, or the iteration, has just read the clock.
        let now = clock::recent();
        // The first request of an iteration answers for the whole delay of its start (R16).
        let from = self.charge_from.take().unwrap_or(now);
        let at = At { stage: self.stage.get(), step: request.step };
        let keep = self.keep(request);
        scratch.deadline.arm(now.after(request.timeout));
        self.render_tags(request, scratch);

        let mut from_hop = from;
        let mut hops = 0;
        let mut rendered = self.render(request, scratch);
        let mut came_by: Option<Hop> = None;
        let last = loop {
            let hopped = match rendered {
                Ok(ready) => {
                    let head_only =
                        came_by.as_ref().map_or(request.head_only, |hop| hop.method == "HEAD");
                    self.hop(request, &ready, keep, head_only, at, from_hop, scratch).await
                }
                Err(failure) => {
                    scratch.response.clear();
                    scratch.progress.reset();
                    self.trace_failure(request, &failure);
                    let latency_ns = clock::now().nanos_since(from_hop);
                    Hopped { result: Err(failure), latency_ns }
                }
            };
            match self.next_hop(request, &hopped, hops, came_by.as_ref(), scratch) {
                Some(Ok(hop)) => {
                    // A redirect is an answer like any other; it is counted, and the step goes on.
                    let status = Some(scratch.response.status);
                    let ended = ExchangeEnd { status, error: None, latency_ns: hopped.latency_ns };
                    self.count(at, scratch, ended);
                    let step = self.context.first_step() + request.step;
                    self.context.recorder.landed(step, hop.url.path());
                    hops += 1;
                    from_hop = clock::now();
                    rendered = self.render_hop(request, &hop, scratch);
                    came_by = Some(hop);
                }
                Some(Err(failure)) => break Hopped { result: Err(failure), ..hopped },
                None => break hopped,
            }
        };
        scratch.deadline.disarm();
        // A step's own latency runs over all its hops.
        let latency_ns = if hops == 0 { last.latency_ns } else { clock::now().nanos_since(from) };
        let flow = self.conclude(request, at, &last, latency_ns, scratch);
        match &last.result {
            Err(failure) if failure.kind == ErrorKind::Refused => self.back_off().await,
            _ => self.refused.set(0),
        }
        flow
    }

    /// A refusal comes back at once, so users who wait for answers alone would do nothing but ask a
    /// target that is not there, a hundred thousand times a second. Each waits a little, and never
    /// so long that a target that is back is not met at once. Arrivals have their own pace.
    async fn back_off(&self) {
        if self.context.is_open() {
            return;
        }
        let times = self.refused.get();
        self.refused.set(times.saturating_add(1));
        let wait = BACK_OFF_FIRST.saturating_mul(1 << times.min(10)).min(BACK_OFF_MAX);
        tokio::time::sleep(wait).await;
        clock::now();
    }

    fn keep(&self, request: &RequestProgram) -> Keep {
        let step = self.context.first_step() + request.step;
        if self.context.trace.is_some() || self.context.recorder.wants_exchange(step) {
            return Keep { headers: true, body: true, ..request.keep };
        }
        request.keep
    }

    fn render_tags(&self, request: &RequestProgram, scratch: &mut Scratch) {
        scratch.tags.clear();
        for (key, text) in &request.tags {
            if !scratch.tags.is_empty() {
                scratch.tags.push(',');
            }
            scratch.tags.push_str(key);
            scratch.tags.push('=');
            scratch.tags.push_str(&String::from_utf8_lossy(&text.to_bytes(&self.vars)));
        }
        let secrets = &self.context.program.shown;
        if !scratch.tags.is_empty() {
            scratch.tags = secrets.shown(std::mem::take(&mut scratch.tags));
        }
    }

    #[allow(clippy::too_many_arguments)]
    async fn hop(
        &self,
        request: &RequestProgram,
        ready: &Rendered,
        keep: Keep,
        head_only: bool,
        at: At,
        from: Moment,
        scratch: &mut Scratch,
    ) -> Hopped {
        let Scratch { wire, response, progress, deadline, .. } = scratch;
        response.clear();
        response.for_show = keep.body && !request.keep.body;
        progress.reset();
        let (wire, body_at): (&[u8], usize) = match (&request.fixed, ready.body_at) {
            (_, Some(body_at)) => (wire, body_at),
            (Some((fixed, body_at)), None) => (fixed, *body_at),
            (None, None) => unreachable!("rendered without a fixed form goes to the buffer"),
        };
        let idempotent = request.idempotent;
        let out = Outgoing { origin: &ready.origin, wire, body_at, head_only, idempotent, keep };
        self.context.recorder.begun();
        let mut in_flight = InFlight { vu: self, at, progress, done: false };
        let mut result = self.client.exchange(out, deadline, response, progress).await;
        in_flight.done = true;
        drop(in_flight);
        let ended = if result.is_ok() { clock::recent() } else { clock::now() };
        let latency_ns = ended.nanos_since(from);
        if result.is_ok()
            && let Some(encoding) = response.encoding.take()
            && !response.body.is_empty()
        {
            let limit = self.context.settings.http.body_limit.min(8 << 20);
            let decoded = decode_body(&encoding, &mut response.body, limit);
            // Nobody needs it: then it is shown as it came.
            if !response.for_show {
                result = decoded;
            }
        }
        if let Some(trace) = &self.context.trace {
            trace(trace::exchange(
                &request.name,
                wire,
                body_at,
                response,
                progress,
                result.as_ref().err(),
                &self.context.program.shown,
            ));
        }
        if !response.set_cookies.is_empty() && self.context.settings.http.cookies {
            self.store_cookies(request, scratch);
        }
        Hopped { result, latency_ns }
    }

    fn store_cookies(&self, request: &RequestProgram, scratch: &mut Scratch) {
        if scratch.url.is_none()
            && let TargetProgram::Known { url, .. } = &request.target
        {
            let text = url.to_bytes(&self.vars);
            scratch.url = parse_url(None, &String::from_utf8_lossy(&text)).ok();
        }
        if let Some(url) = &scratch.url {
            self.jar.borrow_mut().store(url, &scratch.response.set_cookies);
        }
    }

    /// `Some` if the answer sends us elsewhere. `came_by`: the hop that has led here.
    fn next_hop(
        &self,
        request: &RequestProgram,
        hopped: &Hopped,
        hops: u32,
        came_by: Option<&Hop>,
        scratch: &Scratch,
    ) -> Option<Result<Hop, Failure>> {
        let status = scratch.response.status;
        let moved = hopped.result.is_ok() && matches!(status, 301 | 302 | 303 | 307 | 308);
        if !moved || request.redirects == 0 {
            return None;
        }
        let location = scratch.response.location.as_deref()?;
        if hops >= request.redirects {
            let message = format!("stopped after {hops} redirects, next was {location}");
            return Some(Err(Failure::new(ErrorKind::Redirect, message)));
        }
        let base = match (&scratch.url, &request.target) {
            (Some(url), _) => url.clone(),
            (None, TargetProgram::Known { url, .. } | TargetProgram::Unknown { url }) => {
                let text = url.to_bytes(&self.vars);
                match parse_url(None, &String::from_utf8_lossy(&text)) {
                    Ok(url) => url,
                    Err(failure) => return Some(Err(failure)),
                }
            }
        };
        let mut url = match parse_url(Some(&base), location) {
            Ok(url) => url,
            Err(failure) => return Some(Err(Failure { kind: ErrorKind::Redirect, ..failure })),
        };
        // A place that cannot be asked is this answer's fault, not a request of its own.
        if let Err(failure) = self.context.settings.origins.intern(&url) {
            return Some(Err(failure));
        }
        let method = came_by.map_or(&request.method, |hop| &hop.method);
        let rewrite = status == 303 || matches!(status, 301 | 302) && method == "POST";
        let method = if rewrite && method != "HEAD" { "GET" } else { method }.to_owned();
        let with_body = !rewrite && came_by.is_none_or(|hop| hop.with_body);
        // Once left behind, credentials are not fetched again: the way back was chosen by a
        // stranger.
        let foreign = base.origin() != url.origin() || came_by.is_some_and(|hop| hop.foreign);
        let said = take_userinfo(&mut url);
        let kept = || scratch.authorization.clone().filter(|_| !foreign);
        let authorization = said.or_else(kept);
        Some(Ok(Hop { url, method, with_body, foreign, authorization }))
    }

    fn count(&self, at: At, scratch: &Scratch, ended: ExchangeEnd) {
        let tags = (!scratch.tags.is_empty()).then_some(scratch.tags.as_str());
        self.context.recorder.exchange(at, &scratch.progress, ended, tags);
    }

    /// Judges the last answer, takes what is wanted from it, and counts it.
    fn conclude(
        &self,
        request: &RequestProgram,
        at: At,
        last: &Hopped,
        latency_ns: u64,
        scratch: &mut Scratch,
    ) -> Flow {
        let recorder = &self.context.recorder;
        let status = scratch.response.status;
        let answered = last.result.is_ok();
        let expected = match &request.expected {
            Some(ranges) => status_fits(ranges, status),
            None => (200..400).contains(&status),
        };
        let error = match &last.result {
            Err(failure) => Some(failure.kind),
            Ok(()) if !expected => Some(ErrorKind::Status),
            Ok(()) => None,
        };
        let unmatched = self.extract(request, answered, scratch);
        let unmatched = unmatched.filter(|_| error.is_none());
        if let Some(failure) = &unmatched {
            self.trace_failure(request, failure);
        }
        let error = error.or(unmatched.as_ref().map(|failure| failure.kind));
        let completed = answered || matches!(error, Some(ErrorKind::Redirect));
        let status_seen = (completed && status != 0).then_some(status);
        self.count(
            at,
            scratch,
            ExchangeEnd { status: status_seen, error, latency_ns: last.latency_ns },
        );

        let response = answered.then_some(&scratch.response);
        let mut failed_check = None;
        for check in &request.checks {
            let holds = check.holds(response, latency_ns, &self.vars);
            recorder.check(at.stage, check.id, holds);
            if !holds && failed_check.is_none() {
                failed_check = Some(check.id);
                if error.is_none() {
                    self.note_check(request, check, response, latency_ns);
                }
            }
        }
        self.keep_results(request, latency_ns, scratch);
        if !request.record.is_empty() {
            self.record(&request.record, request.step);
        }
        if error.is_none() && failed_check.is_none() {
            return Flow::Continue;
        }
        let failure = last.result.as_ref().err().or(unmatched.as_ref());
        self.note_failure(request, error, failure, failed_check, scratch);
        match request.on_failure {
            OnFailure::Continue => Flow::Continue,
            OnFailure::EndIteration => Flow::EndIteration,
        }
    }

    /// Takes what the step wants from the answer; the first that is not there and is needed.
    ///
    /// A variable for which nothing was found has no value, not the one of an earlier turn.
    fn extract(
        &self,
        request: &RequestProgram,
        answered: bool,
        scratch: &Scratch,
    ) -> Option<Failure> {
        let mut unmatched = None;
        for extract in &request.extract {
            let mut rng = self.vars.rng.borrow_mut();
            let found = answered.then(|| extract.find(&scratch.response, &mut rng)).flatten();
            match found {
                Some((value, form)) => self.vars.set_as(extract.slot, &value, form),
                None => {
                    self.vars.clear(extract.slot);
                    if extract.required && answered && unmatched.is_none() {
                        let message = extract.explain(&scratch.response);
                        unmatched = Some(Failure::new(ErrorKind::Extract, message));
                    }
                }
            }
        }
        unmatched
    }

    /// `--debug` shows exchanges as they end; what is found out besides is shown by itself.
    fn trace_failure(&self, request: &RequestProgram, failure: &Failure) {
        if let Some(trace) = &self.context.trace {
            let text = format!("── {}\n! {failure}\n", request.name);
            trace(self.context.program.shown.redact(text));
        }
    }

    /// What later steps may refer to as `${steps.NAME...}` (EXEC-42).
    fn keep_results(&self, request: &RequestProgram, latency_ns: u64, scratch: &Scratch) {
        if let Some(slot) = request.status_slot {
            self.vars.set(slot, scratch.response.status.to_string().as_bytes());
        }
        if let Some(slot) = request.body_slot {
            self.vars.set(slot, &scratch.response.body);
        }
        if let Some(slot) = request.latency_slot {
            let ms = latency_ns as f64 / 1e6;
            self.vars.set(slot, format!("{ms:.3}").as_bytes());
        }
    }

    /// What the first failed check of a step has found instead.
    fn note_check(
        &self,
        request: &RequestProgram,
        check: &CheckProgram,
        response: Option<&Response>,
        latency_ns: u64,
    ) {
        let step = self.context.first_step() + request.step;
        self.context.recorder.remark(step, ErrorKind::Body, || {
            let layout = &self.context.program.layout;
            let first = layout.workflows[self.context.workflow().index].checks.start;
            let name = &layout.checks[first + check.id].name;
            let found = check.explain(response, latency_ns);
            self.context.program.shown.shown(format!("{}{name}: {found}", stats::CHECKED))
        });
    }

    fn note_failure(
        &self,
        request: &RequestProgram,
        error: Option<ErrorKind>,
        failure: Option<&Failure>,
        failed_check: Option<usize>,
        scratch: &Scratch,
    ) {
        let step = self.context.first_step() + request.step;
        let status = scratch.response.status;
        let describe = || match (failure, error, failed_check) {
            (Some(failure), ..) => failure.message.clone(),
            (None, Some(_), _) => format!("unexpected status {status}"),
            (None, None, check) => {
                let first = self.context.program.layout.workflows[self.context.workflow().index]
                    .checks
                    .start;
                let name =
                    check.map(|id| self.context.program.layout.checks[first + id].name.clone());
                format!("check failed: {}", name.unwrap_or_default())
            }
        };
        if self.trouble.borrow().is_none() {
            let trouble = format!("step `{}`: {}", request.name, describe());
            *self.trouble.borrow_mut() = Some(self.context.program.shown.shown(trouble));
        }
        let Some(kind) = error else { return };
        let whole = self.context.recorder.wants_exchange(step);
        let exchange = whole.then(|| {
            let (wire, body_at) = match &request.fixed {
                Some((fixed, body_at)) if scratch.wire.is_empty() => (&fixed[..], *body_at),
                _ => (&scratch.wire[..], scratch.wire.len() - scratch.body.len()),
            };
            let name = &request.name;
            let secrets = &self.context.program.shown;
            let Scratch { response, progress, .. } = scratch;
            trace::exchange(name, wire, body_at, response, progress, failure, secrets)
        });
        let described = || self.context.program.shown.shown(describe());
        self.context.recorder.failure(step, kind, described, exchange);
    }
}
