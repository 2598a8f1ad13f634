//! Sends a request, follows redirects, answers challenges; every exchange on the way is counted and
//! measured like any other.

use base::clock;
use fence::Moment;
use std::rc::Rc;
use std::time::Duration;

use client::{
    Deadline, ExchangeEnd, Keep, Outgoing, Peer, Phases, Progress, Response, decode_body,
};

use super::address::Address;
use super::blocked;
use super::debug;
use super::digest::Challenge;
use super::render::{Hop, render};
use super::request::{Request, ResponseType};
use super::samples::{self, Measured};
use super::trouble::Trouble;
use crate::host::Host;
use crate::log::{Level, Line};

/// Buffers of finished answers that are kept for the next ones, and how large they may be.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 64 << 10;

/// What an exchange needs; reused from one to the next.
pub struct Scratch {
    response: Response,
    progress: Progress,
    deadline: Deadline,
    wire: Vec<u8>,
}

/// How a request ended.
pub struct Answer {
    pub request: Request,
    /// Where the last exchange went.
    pub address: Rc<Address>,
    /// 0: there is no answer.
    pub status: u16,
    /// From the status line to the empty line.
    pub head: Vec<u8>,
    /// `None`: there is none, or nobody wanted it.
    pub body: Option<Vec<u8>>,
    pub phases: Phases,
    pub peer: Option<Rc<Peer>>,
    pub trouble: Option<Trouble>,
    /// The header `Cookie` of the first exchange.
    pub cookie: Option<String>,
}

impl Answer {
    /// k6's number for how this ended; 0: well.
    pub fn k6_code(&self) -> u16 {
        match &self.trouble {
            Some(trouble) => trouble.code,
            None if self.status >= 400 => 1000 + self.status,
            None => 0,
        }
    }
}

/// Where an exchange is counted if it is dropped before its end.
struct InFlight<'a> {
    host: &'a Host,
    progress: &'a Progress,
    done: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.host.setup.environment.ended();
        if !self.done {
            self.host.setup.environment.interrupted(self.progress);
        }
    }
}

pub async fn send(host: &Host, request: Request) -> Answer {
    if let Some(at) = host.setup.environment.next_request_at() {
        tokio::time::sleep_until(clock::instant(at).into()).await;
    }
    let state = &host.cells.http;
    let scratch = state.scratch.borrow_mut().pop();
    let mut scratch = scratch.unwrap_or_else(|| new_scratch(host));
    scratch.deadline.arm(clock::now().after(request.timeout));
    let answer = follow(host, request, &mut scratch).await;
    scratch.deadline.disarm();
    state.scratch.borrow_mut().push(scratch);
    answer
}

fn new_scratch(host: &Host) -> Box<Scratch> {
    let response = Response { keep_head: true, kept_limit: Some(u64::MAX), ..Response::default() };
    Box::new(Scratch {
        response,
        progress: Progress::default(),
        deadline: host.setup.deadlines.slot(),
        wire: Vec::new(),
    })
}

async fn follow(host: &Host, request: Request, scratch: &mut Scratch) -> Answer {
    let rules = host.script().rules();
    let limit = request.redirects.unwrap_or(rules.max_redirects);
    let mut hop = Hop::first(&request);
    let mut hops = 0;
    let mut first_cookie = None;
    let mut challenged = false;
    loop {
        let (trouble, cookie) = exchange(host, &request, &hop, challenged, scratch).await;
        if hops == 0 && !challenged {
            first_cookie = cookie;
        }
        if trouble.is_some() {
            return conclude(host, request, hop, scratch, trouble, first_cookie);
        }
        if request.digest && !challenged && scratch.response.status == 401 {
            challenged = true;
            if let Some(answer) = answer_challenge(&request, &hop, scratch) {
                hop.authorization = Some(answer);
                continue;
            }
        }
        match next(host, &request, &hop, scratch) {
            Ok(None) => return conclude(host, request, hop, scratch, None, first_cookie),
            Ok(Some(_)) if hops >= limit => {
                if request.redirects.is_none() && !rules.max_redirects_chosen {
                    let line = Line::new(
                        Level::Warning,
                        format!(
                            "Stopped after {} redirects and returned the redirection; pass {{ \
                             redirects: n }} in request params or set global maxRedirects to \
                             silence this",
                            hops + 1
                        ),
                    );
                    host.log(line.with("url", &*request.address.shown));
                }
                return conclude(host, request, hop, scratch, None, first_cookie);
            }
            Ok(Some(there)) => {
                hops += 1;
                hop = there;
            }
            Err(trouble) => {
                return conclude(host, request, hop, scratch, Some(trouble), first_cookie);
            }
        }
    }
}

/// One exchange, counted and measured. Gives the `Cookie` header that was sent.
async fn exchange(
    host: &Host,
    request: &Request,
    hop: &Hop,
    challenged: bool,
    scratch: &mut Scratch,
) -> (Option<Trouble>, Option<String>) {
    let Scratch { response, progress, deadline, wire } = scratch;
    response.clear();
    progress.reset();
    let mut cookie = None;
    let begun = clock::now();
    let mut trouble =
        attempt(host, request, hop, wire, &mut cookie, deadline, response, progress, begun).await;
    let ended = if trouble.is_none() { clock::recent() } else { clock::now() };
    let latency_ns = ended.nanos_since(begun);
    if trouble.is_none() && request.response_type != ResponseType::None {
        trouble = decode(response, host.setup.settings.http.body_limit).err();
    }
    let status = if trouble.is_some() { 0 } else { response.status };
    // The challenge is part of the game, not a failure.
    let asks = request.digest && !challenged && status == 401;
    let expected = if asks { Some(true) } else { request.judge.expects(status) };
    let error = match &trouble {
        Some(trouble) => Some(trouble.kind),
        None if expected == Some(false) => Some(stats::ErrorKind::Status),
        None => None,
    };
    let seen = (status != 0).then_some(status);
    let name = request.name.as_deref().unwrap_or_else(|| hop.shown());
    host.setup.environment.exchanged(
        progress,
        ExchangeEnd { status: seen, error, latency_ns },
        name,
    );
    let measured = Measured {
        host,
        request,
        hop,
        status,
        head: &response.head,
        progress,
        expected,
        trouble: trouble.as_ref(),
    };
    samples::record(&measured);
    if !response.set_cookies.is_empty() && host.setup.settings.http.cookies {
        store_cookies(host, request, hop, response);
    }
    (trouble, cookie)
}

#[allow(clippy::too_many_arguments)]
async fn attempt(
    host: &Host,
    request: &Request,
    hop: &Hop,
    wire: &mut Vec<u8>,
    cookie: &mut Option<String>,
    deadline: &Deadline,
    response: &mut Response,
    progress: &Progress,
    begun: Moment,
) -> Option<Trouble> {
    if request.broken.is_some() {
        return request.broken.clone();
    }
    let origin = match &hop.address.origin {
        Ok(origin) => origin,
        Err(trouble) => return Some(trouble.clone()),
    };
    let rules = host.script().rules();
    let is_picky = !rules.block_hostnames.is_empty() || !rules.blacklist_ips.is_empty();
    if is_picky && let Some(trouble) = Box::pin(blocked::check(host, &hop.address, origin)).await {
        return Some(trouble);
    }
    if deadline.at() <= begun {
        return Some(Trouble::timeout());
    }
    let rendered = render(host, request, hop, origin, wire);
    *cookie = rendered.cookie;
    let bytes: &[u8] = rendered.plain.as_deref().unwrap_or(wire);
    let wants_body = request.response_type != ResponseType::None || rules.http_debug == Some(true);
    let out = Outgoing {
        origin,
        wire: bytes,
        body_at: rendered.body_at,
        head_only: hop.method == "HEAD",
        idempotent: matches!(&*hop.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS"),
        keep: Keep { headers: false, body: wants_body, cookies: true, location: true },
    };
    debug::sent(host, bytes, rendered.body_at);
    host.setup.environment.begun();
    let mut in_flight = InFlight { host, progress, done: false };
    let result = host.client.exchange(out, deadline, response, progress).await;
    in_flight.done = true;
    drop(in_flight);
    match result {
        Ok(()) => {
            debug::received(host, response);
            None
        }
        Err(failure) => {
            let passed = deadline.at() <= clock::now().after(Duration::from_millis(1));
            Some(Trouble::from_failure(failure, passed))
        }
    }
}

fn decode(response: &mut Response, limit: u64) -> Result<(), Trouble> {
    let Some(encoding) = response.encoding.take() else { return Ok(()) };
    let known =
        |coding: &str| matches!(coding.trim(), "gzip" | "x-gzip" | "deflate" | "br" | "zstd");
    // What is not known is handed over as it came.
    if response.body.is_empty() || !encoding.split(',').all(known) {
        return Ok(());
    }
    decode_body(&encoding, &mut response.body, limit)
        .map_err(|failure| Trouble::undecodable(&failure))
}

fn store_cookies(host: &Host, request: &Request, hop: &Hop, response: &Response) {
    let jar = request.jar.as_ref().unwrap_or(&host.jar);
    if let Some(url) = hop.address.url() {
        jar.borrow_mut().store(url, &response.set_cookies);
    }
}

fn answer_challenge(request: &Request, hop: &Hop, scratch: &Scratch) -> Option<String> {
    let header = super::head::find(&scratch.response.head, "www-authenticate")?;
    let challenge = Challenge::parse(&String::from_utf8_lossy(header))?;
    let (user, password) = request.address.user.clone().unwrap_or_default();
    let body = hop.body(request).unwrap_or_default();
    challenge.answer(&hop.method, &hop.address.target, &user, &password, body)
}

/// Where the answer sends us; `None`: nowhere.
fn next(
    host: &Host,
    request: &Request,
    hop: &Hop,
    scratch: &Scratch,
) -> Result<Option<Hop>, Trouble> {
    let status = scratch.response.status;
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = scratch.response.location.as_deref().filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    let there = hop.address.follow(&host.setup.settings.origins, location).map_err(|trouble| {
        let why = trouble.text.trim_start_matches("invalid URL: ");
        Trouble::general(format!("failed to parse Location header {location:?}: {why}"))
    })?;
    Ok(Some(hop.redirected(request, status, there, location)))
}

fn conclude(
    host: &Host,
    request: Request,
    hop: Hop,
    scratch: &mut Scratch,
    trouble: Option<Trouble>,
    cookie: Option<String>,
) -> Answer {
    let Scratch { response, progress, .. } = scratch;
    let (head, body) = host.cells.http.spare.borrow_mut().pop().unwrap_or_default();
    let head = std::mem::replace(&mut response.head, head);
    let body = std::mem::replace(&mut response.body, body);
    let bodiless = matches!(response.status, 0 | 204 | 304) && body.is_empty();
    let unwanted = request.response_type == ResponseType::None || bodiless;
    let failed = trouble.is_some();
    // Of an answer that broke off there is at least its beginning.
    let keep = !unwanted && (!failed || !body.is_empty());
    let decoded = trouble.as_ref().is_none_or(|t| t.kind != stats::ErrorKind::Body);
    Answer {
        request,
        address: hop.address,
        status: if failed { 0 } else { response.status },
        head: if failed { Vec::new() } else { head },
        body: (keep && decoded).then_some(body),
        phases: progress.phases.get(),
        peer: progress.peer.borrow_mut().take(),
        trouble,
        cookie,
    }
}

/// Takes the buffers of an answer that nobody looks at any more.
pub fn give_back(host: &Host, head: Vec<u8>, body: Option<Vec<u8>>) {
    let body = body.unwrap_or_default();
    let mut spare = host.cells.http.spare.borrow_mut();
    let small = head.capacity() <= SPARE_BYTES_MAX && body.capacity() <= SPARE_BYTES_MAX;
    if small && spare.len() < SPARE_MAX {
        spare.push((head, body));
    }
}
