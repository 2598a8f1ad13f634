//! The server's own book: how many requests it saw, on which route, by which method.
//!
//! Each thread has its own [`Counters`], which only it writes while requests run, so that counting
//! costs an uncontended add. Reading sums over the threads. The total is not kept but summed from
//! the routes: two numbers that must be equal would be one too many.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use hyper::Method;
use serde_json::{Map, Value, json};

use crate::route::Route;

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"];

#[derive(Default)]
pub(crate) struct Counters {
    by_route: [AtomicU64; Route::ALL.len()],
    by_method: [AtomicU64; METHODS.len()],
    connections: AtomicU64,
    connections_open: AtomicI64,
    in_flight: AtomicI64,
    stalled: AtomicU64,
}

impl Counters {
    /// Counts a request whose head has arrived.
    pub(crate) fn request(&self, route: Route, method: &Method) {
        self.by_route[route as usize].fetch_add(1, Relaxed);
        self.by_method[method_index(method)].fetch_add(1, Relaxed);
    }

    /// In flight until the guard is dropped, which happens too when the client goes away.
    pub(crate) fn in_flight(&self) -> Gauge<'_> {
        Gauge::up(&self.in_flight)
    }

    pub(crate) fn connection(&self) -> Gauge<'_> {
        self.connections.fetch_add(1, Relaxed);
        Gauge::up(&self.connections_open)
    }

    pub(crate) fn stalled(&self) {
        self.stalled.fetch_add(1, Relaxed);
    }

    /// Zeroes what is counted; what is open or in flight stays so.
    pub(crate) fn reset(&self) {
        for counter in self.by_route.iter().chain(&self.by_method) {
            counter.store(0, Relaxed);
        }
        self.connections.store(0, Relaxed);
        self.stalled.store(0, Relaxed);
    }
}

/// One more while it exists.
pub(crate) struct Gauge<'a>(&'a AtomicI64);

impl<'a> Gauge<'a> {
    fn up(gauge: &'a AtomicI64) -> Self {
        gauge.fetch_add(1, Relaxed);
        Gauge(gauge)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn method_index(method: &Method) -> usize {
    match *method {
        Method::GET => 0,
        Method::HEAD => 1,
        Method::POST => 2,
        Method::PUT => 3,
        Method::PATCH => 4,
        Method::DELETE => 5,
        Method::OPTIONS => 6,
        _ => METHODS.len() - 1,
    }
}

/// What a target has seen since its start or the last reset; `/volley/*` excepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: u64,
    /// Route as in the documentation (`/bytes/N`), requests; routes without any are left out.
    pub by_path: Vec<(&'static str, u64)>,
    pub by_method: Vec<(&'static str, u64)>,
    /// Accepted, those included that carried only `/volley/*`.
    pub connections: u64,
    pub connections_open: u64,
    /// Heads received whose answer has not begun.
    pub in_flight: u64,
    /// Requests that had to wait for the end of a stall.
    pub stalled: u64,
}

impl Counts {
    pub(crate) fn sum(all: &[Counters]) -> Self {
        let sum = |read: &dyn Fn(&Counters) -> u64| all.iter().map(read).sum::<u64>();
        let gauge = |read: &dyn Fn(&Counters) -> i64| {
            // a guard may be dropped by another thread between two reads
            all.iter().map(read).sum::<i64>().max(0).unsigned_abs()
        };
        let seen = |pair: &(&'static str, u64)| pair.1 > 0;
        let by_path: Vec<_> = Route::ALL
            .iter()
            .map(|&route| (route.name(), sum(&|c| c.by_route[route as usize].load(Relaxed))))
            .filter(seen)
            .collect();
        let by_method = METHODS.iter().enumerate();
        Counts {
            total: by_path.iter().map(|(_, count)| count).sum(),
            by_path,
            by_method: by_method
                .map(|(i, &name)| (name, sum(&|c| c.by_method[i].load(Relaxed))))
                .filter(seen)
                .collect(),
            connections: sum(&|c| c.connections.load(Relaxed)),
            connections_open: gauge(&|c| c.connections_open.load(Relaxed)),
            in_flight: gauge(&|c| c.in_flight.load(Relaxed)),
            stalled: sum(&|c| c.stalled.load(Relaxed)),
        }
    }

    /// Requests on one route, named as in `by_path`.
    pub fn of(&self, path: &str) -> u64 {
        self.by_path.iter().find(|(name, _)| *name == path).map_or(0, |(_, count)| *count)
    }

    /// As `/volley/seen` answers.
    pub fn to_json(&self) -> Value {
        let object = |pairs: &[(&str, u64)]| -> Value {
            let pairs = pairs.iter().map(|&(name, count)| (name.to_owned(), count.into()));
            pairs.collect::<Map<_, _>>().into()
        };
        json!({
            "total": self.total,
            "by_path": object(&self.by_path),
            "by_method": object(&self.by_method),
            "connections": self.connections,
            "connections_open": self.connections_open,
            "in_flight": self.in_flight,
            "stalled": self.stalled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_threads_and_gauges_fall_with_their_guards() {
        let threads = [Counters::default(), Counters::default()];
        let [one, two] = &threads;
        let connection = one.connection();
        one.request(Route::Root, &Method::GET);
        let first = one.in_flight();
        two.request(Route::Root, &Method::GET);
        two.request(Route::Login, &Method::POST);
        let both = || Counts::sum(&threads);

        let counts = both();
        assert_eq!((counts.total, counts.of("/"), counts.of("/login")), (3, 2, 1));
        assert_eq!(counts.by_method, [("GET", 2), ("POST", 1)]);
        assert_eq!((counts.in_flight, counts.connections_open), (1, 1));

        drop(first);
        drop(connection);
        let counts = both();
        assert_eq!((counts.in_flight, counts.connections_open, counts.connections), (0, 0, 1));
        one.reset();
        assert_eq!(both().total, 2);
    }

    #[test]
    fn the_parts_by_path_and_by_method_have_the_same_sum() {
        let counters = Counters::default();
        for (i, route) in Route::ALL.iter().enumerate() {
            let method = if i % 2 == 0 { Method::GET } else { Method::TRACE };
            counters.request(*route, &method);
        }
        let counts = Counts::sum(&[counters]);
        assert_eq!(counts.total, Route::ALL.len() as u64);
        assert_eq!(counts.by_method.iter().map(|(_, n)| n).sum::<u64>(), counts.total);
    }
}
