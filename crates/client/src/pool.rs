//! One virtual user's connections, per origin, and the exchange over whichever version they speak.

use base::clock;
use permit::SendControl;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plan::HttpOptions;
use rustls::ClientConfig;
use stats::ErrorKind;
use tokio::sync::Notify;

use crate::connect::{ConnectTimes, connect};
use crate::deadline::Deadline;
use crate::describe::describe;
use crate::h1::{Connection, Wanted};
use crate::h2::Http2;
use crate::origin::{Origin, OriginTable};
use crate::response::{Keep, Response};
use crate::{Failure, Progress};

/// Bytes of a body that a step may read; longer ones can be received, not inspected.
const KEPT_BODY_BYTES_MAX: u64 = 8 << 20;

/// What all clients of a workflow on one core share.
pub struct Settings {
    pub http: HttpOptions,
    /// Made when a connection first needs it: reading the system's certificates takes longer than a
    /// whole plain test may need to start.
    pub tls: Arc<LazyTls>,
    pub origins: Rc<OriginTable>,
    /// Asked before every request.
    pub send_control: SendControl,
}

/// A workflow's TLS settings, made once for all its cores.
pub type LazyTls = OnceLock<Result<Arc<ClientConfig>, String>>;

/// A request, rendered.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    pub origin: &'a Rc<Origin>,
    /// The HTTP/1.1 form; HTTP/2 takes its parts from it.
    pub wire: &'a [u8],
    /// Where the body begins in `wire`.
    pub body_at: usize,
    pub head_only: bool,
    /// May be sent again if a kept-alive connection turns out to be closed (RFC 9110, section
    /// 9.2.2).
    pub idempotent: bool,
    pub keep: Keep,
}

pub struct Client {
    settings: Rc<Settings>,
    /// Source address of this virtual user.
    local: Option<IpAddr>,
    /// One per origin met; a virtual user meets few.
    pools: RefCell<Vec<Rc<Pool>>>,
    /// Somebody wants to see each TLS session in words, which costs more than an exchange.
    describes_tls: Cell<bool>,
}

struct Pool {
    origin: Rc<Origin>,
    idle: RefCell<Vec<Connection>>,
    http2: RefCell<Option<Rc<Http2>>>,
    /// HTTP/1.1 connections, idle or in use.
    open: Cell<u32>,
    /// What was agreed in the last TLS handshake, for people.
    tls: RefCell<Option<String>>,
    /// Somebody is finding out which version the server speaks.
    probing: Cell<bool>,
    /// Told when a connection becomes free or `probing` ends.
    changed: Notify,
}

enum Acquired {
    Http1(Connection, bool),
    Http2(Rc<Http2>, bool),
}

impl Client {
    pub fn new(settings: Rc<Settings>, local: Option<IpAddr>) -> Client {
        Client { settings, local, pools: RefCell::default(), describes_tls: Cell::new(false) }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Closes all connections, so that the next exchange begins like the first.
    pub fn disconnect(&self) {
        self.pools.borrow_mut().clear();
    }

    /// Sends a request and reads its answer. The deadline must be armed.
    pub async fn exchange(
        &self,
        out: Outgoing<'_>,
        deadline: &Deadline,
        response: &mut Response,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let pool = self.pool(out.origin);
        loop {
            let begun = clock::recent();
            let (acquired, times) = self.acquire(&pool, deadline).await?;
            let mut phases = progress.phases.get();
            if let Some(times) = times {
                phases.connecting += times.connecting;
                phases.tls_handshaking += times.tls_handshaking;
                phases.blocked += clock::now().nanos_since(begun);
                progress.phases.set(phases);
            }
            let (result, reused) = match acquired {
                Acquired::Http1(connection, reused) => {
                    progress.version.set(1);
                    *progress.peer.borrow_mut() = Some(connection.peer.clone());
                    let result =
                        self.exchange_h1(&pool, connection, out, deadline, response, progress);
                    (result.await, reused)
                }
                Acquired::Http2(http2, reused) => {
                    progress.version.set(2);
                    *progress.peer.borrow_mut() = Some(http2.peer.clone());
                    let wanted = self.wanted(out, response);
                    let send_control = &self.settings.send_control;
                    let exchange =
                        http2.exchange(out, wanted, send_control, deadline, response, progress);
                    let result = Box::pin(exchange).await;
                    if result.is_err() && http2.is_closed() {
                        pool.http2.borrow_mut().take_if(|current| Rc::ptr_eq(current, &http2));
                    }
                    (result, reused)
                }
            };
            match result {
                Ok(()) => return Ok(()),
                Err(broken) => {
                    let closed = broken.failure.kind == ErrorKind::Reset && !broken.answered;
                    if !(reused && closed && out.idempotent) {
                        return Err(broken.failure);
                    }
                    // The server had closed the idle connection as we wrote. That write counts as a
                    // request of its own; where nothing could be written, there was none.
                    if progress.sent.take() {
                        progress.retries.set(progress.retries.get() + 1);
                    }
                    response.clear();
                }
            }
        }
    }

    /// Opens a connection to `origin` without using it, so that the first request does not pay for
    /// it.
    pub async fn warm(&self, origin: &Rc<Origin>, deadline: &Deadline) -> Result<(), Failure> {
        let pool = self.pool(origin);
        if let (Acquired::Http1(connection, _), _) = self.acquire(&pool, deadline).await? {
            pool.give_back(connection);
        }
        Ok(())
    }

    /// From now on, what is agreed in TLS handshakes is kept for [`Client::tls_description`].
    pub fn keep_tls_descriptions(&self) {
        self.describes_tls.set(true);
    }

    /// What was agreed in the last TLS handshake with `origin`, and whose certificate was shown.
    pub fn tls_description(&self, origin: &Rc<Origin>) -> Option<String> {
        let pool = self.pool(origin);
        pool.tls.borrow().clone()
    }

    fn wanted(&self, out: Outgoing<'_>, response: &Response) -> Wanted {
        let body_limit = self.settings.http.body_limit;
        let kept_limit = response.kept_limit.unwrap_or(KEPT_BODY_BYTES_MAX).min(body_limit);
        Wanted { keep: out.keep, head_only: out.head_only, body_limit, kept_limit }
    }

    async fn exchange_h1(
        &self,
        pool: &Rc<Pool>,
        connection: Connection,
        out: Outgoing<'_>,
        deadline: &Deadline,
        response: &mut Response,
        progress: &Progress,
    ) -> Result<(), crate::h1::Broken> {
        // Counted out again even if the virtual user is cancelled in the middle.
        let mut held = Held { pool, connection: Some(connection) };
        let connection = held.connection.as_mut().expect("just put there");
        let wanted = self.wanted(out, response);
        let send_control = &self.settings.send_control;
        let result =
            connection.exchange(out.wire, wanted, send_control, deadline, response, progress).await;
        if self.settings.http.keep_alive
            && let Some(connection) = held.connection.take_if(|c| result.is_ok() && c.is_reusable())
        {
            pool.give_back(connection);
        }
        result
    }

    fn pool(&self, origin: &Rc<Origin>) -> Rc<Pool> {
        let mut pools = self.pools.borrow_mut();
        if let Some(pool) = pools.iter().find(|pool| Rc::ptr_eq(&pool.origin, origin)) {
            return pool.clone();
        }
        let pool = Rc::new(Pool {
            origin: origin.clone(),
            idle: RefCell::default(),
            http2: RefCell::default(),
            open: Cell::new(0),
            tls: RefCell::default(),
            probing: Cell::new(false),
            changed: Notify::new(),
        });
        pools.push(pool.clone());
        pool
    }

    /// A connection at hand, one that becomes free, or a new one. `Some`: it had to be waited for.
    async fn acquire(
        &self,
        pool: &Rc<Pool>,
        deadline: &Deadline,
    ) -> Result<(Acquired, Option<ConnectTimes>), Failure> {
        let mut waited = None;
        loop {
            if let Some(acquired) = pool.ready() {
                return Ok((acquired, waited));
            }
            let full = pool.open.get() >= self.settings.http.connections.max(1);
            if !full && !pool.probing.get() {
                // Boxed, like all that is rare: a future is as large as its largest part, and ten
                // thousand of them should stay in cache.
                let (acquired, times) = Box::pin(self.open(pool, deadline)).await?;
                return Ok((acquired, Some(times)));
            }
            waited = Some(ConnectTimes::default());
            let left = Duration::from_nanos(deadline.at().nanos_since(clock::now()));
            let freed = Box::pin(tokio::time::timeout(left, pool.changed.notified()));
            if freed.await.is_err() {
                let message = format!("no free connection to {} in time", pool.origin.authority);
                return Err(Failure::new(ErrorKind::Timeout, message));
            }
        }
    }

    async fn open(
        &self,
        pool: &Rc<Pool>,
        deadline: &Deadline,
    ) -> Result<(Acquired, ConnectTimes), Failure> {
        let opening = Opening::new(pool, self.may_speak_http2(&pool.origin));
        let left = Duration::from_nanos(deadline.at().nanos_since(clock::now()));
        let limit = left.min(self.settings.http.connect_timeout);
        self.settings.send_control.before_connect().await;
        let connected = connect(&pool.origin, &self.settings, self.local, limit).await?;
        if self.describes_tls.get()
            && let Some(session) = connected.stream.session()
        {
            *pool.tls.borrow_mut() = Some(describe(session));
        }
        if connected.http2 {
            let http2 =
                Rc::new(Http2::start(connected.stream, self.settings.send_control.clone()).await?);
            if self.settings.http.keep_alive {
                *pool.http2.borrow_mut() = Some(http2.clone());
            }
            drop(opening);
            return Ok((Acquired::Http2(http2, false), connected.times));
        }
        if self.settings.http.version == plan::HttpVersion::Http2 {
            let message = format!("{} does not speak HTTP/2 (ALPN)", pool.origin.authority);
            return Err(Failure::new(ErrorKind::Protocol, message));
        }
        opening.keep();
        Ok((Acquired::Http1(Connection::new(connected.stream), false), connected.times))
    }

    fn may_speak_http2(&self, origin: &Origin) -> bool {
        match self.settings.http.version {
            plan::HttpVersion::Http1 => false,
            plan::HttpVersion::Http2 => true,
            plan::HttpVersion::Auto => origin.tls,
        }
    }
}

impl Pool {
    fn ready(&self) -> Option<Acquired> {
        if let Some(http2) = &*self.http2.borrow()
            && !http2.is_closed()
        {
            return Some(Acquired::Http2(http2.clone(), true));
        }
        let mut idle = self.idle.borrow_mut();
        while let Some(connection) = idle.pop() {
            if connection.is_usable() {
                let reused = connection.exchanges > 0;
                return Some(Acquired::Http1(connection, reused));
            }
            self.open.set(self.open.get() - 1);
        }
        None
    }

    fn give_back(&self, connection: Connection) {
        self.idle.borrow_mut().push(connection);
        self.changed.notify_one();
    }

    fn closed(&self) {
        self.open.set(self.open.get() - 1);
        self.changed.notify_one();
    }
}

/// A connection in use: if it is dropped here, it is gone.
struct Held<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.pool.closed();
        }
    }
}

/// A connection being opened: counted from the beginning, so that the limit holds.
struct Opening<'a> {
    pool: &'a Pool,
    probing: bool,
    counted: bool,
}

impl<'a> Opening<'a> {
    fn new(pool: &'a Pool, probing: bool) -> Opening<'a> {
        pool.open.set(pool.open.get() + 1);
        pool.probing.set(probing);
        Opening { pool, probing, counted: true }
    }

    /// It is an HTTP/1.1 connection now, and goes on counting.
    fn keep(mut self) {
        self.counted = false;
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.pool.open.set(self.pool.open.get() - 1);
        }
        if self.probing {
            self.pool.probing.set(false);
        }
        self.pool.changed.notify_waiters();
        self.pool.changed.notify_one();
    }
}
