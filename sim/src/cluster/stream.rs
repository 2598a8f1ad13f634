//! How a stream behaves where packets are lost.
//!
//! Nodes talk over TCP. A lost packet does not lose a message there: it comes later, and everything
//! behind it waits. The model has one stream for each ordered pair of hosts, and a packet for each
//! message:
//!
//! - Every transmission is lost with the given probability, on its own.
//! - What is lost is sent again after 200 ms, then after 400, 800 and so on: the least
//!   retransmission time-out of Linux, which is far above the round trips of a datacenter. At 20 %
//!   loss one message in 25 is 600 ms late or more, one in 625 three seconds.
//! - A later message that gets through tells the sender of the gap (selective acknowledgement), and
//!   what is missing is sent again at once, and may be lost again. So busy streams recover sooner
//!   than quiet ones.
//! - Messages come out in the order in which they went in.
//!
//! Left out: lost acknowledgements, which cost a needless repeat and no time; windows, since
//! messages are small; connections that are given up, since that takes the kernel a quarter of an
//! hour.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

/// Linux's TCP_RTO_MIN.
pub const RETRANSMIT: Duration = Duration::from_millis(200);
/// Linux's TCP_RTO_MAX is 2^9 times that.
const DOUBLED_MAX: u32 = 9;

struct Waiting<T> {
    message: T,
    arrived: bool,
}

/// Messages from one host to another that have not come out yet.
pub struct Stream<T> {
    waiting: VecDeque<Waiting<T>>,
    /// When the first of them is sent again.
    again: Option<Duration>,
    doubled: u32,
}

impl<T> Default for Stream<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), again: None, doubled: 0 }
    }
}

fn is_lost(percent: u8, rng: &mut Rng) -> bool {
    rng.u8(..100) < percent
}

impl<T> Stream<T> {
    /// What comes out now that this has been sent, in order.
    pub fn send(&mut self, message: T, percent: u8, now: Duration, rng: &mut Rng) -> Vec<T> {
        let arrived = !is_lost(percent, rng);
        if arrived {
            // The sender hears that those before it have not come.
            for one in self.waiting.iter_mut().filter(|one| !one.arrived) {
                one.arrived = !is_lost(percent, rng);
            }
        }
        self.waiting.push_back(Waiting { message, arrived });
        self.come_out(now)
    }

    /// The time-out has passed: the first that is missing is sent again, and while that works those
    /// behind it.
    pub fn resend(&mut self, percent: u8, now: Duration, rng: &mut Rng) -> Vec<T> {
        if self.again.is_none_or(|again| again > now) {
            return Vec::new();
        }
        self.again = None;
        self.doubled = (self.doubled + 1).min(DOUBLED_MAX);
        for one in self.waiting.iter_mut().filter(|one| !one.arrived) {
            if is_lost(percent, rng) {
                break;
            }
            one.arrived = true;
        }
        self.come_out(now)
    }

    fn come_out(&mut self, now: Duration) -> Vec<T> {
        let mut out = Vec::new();
        while self.waiting.front().is_some_and(|first| first.arrived) {
            out.extend(self.waiting.pop_front().map(|first| first.message));
        }
        if !out.is_empty() {
            (self.doubled, self.again) = (0, None);
        }
        if self.waiting.is_empty() {
            self.again = None;
        } else if self.again.is_none() {
            self.again = Some(now + RETRANSMIT * (1 << self.doubled));
        }
        out
    }

    /// When [`Self::resend`] has something to do.
    pub fn again(&self) -> Option<Duration> {
        self.again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How late each of `count` messages is that are sent so far apart, in order of their sending.
    fn delays(percent: u8, count: usize, every: Duration) -> Vec<Duration> {
        let (mut rng, mut stream) = (Rng::with_seed(7), Stream::default());
        let mut late = Vec::new();
        for n in 0..count {
            let sent = every * n as u32;
            while let Some(again) = stream.again().filter(|again| *again <= sent) {
                let out = stream.resend(percent, again, &mut rng);
                late.extend(out.into_iter().map(|sent: Duration| again - sent));
            }
            let out = stream.send(sent, percent, sent, &mut rng);
            late.extend(out.into_iter().map(|before| sent - before));
        }
        late
    }

    #[test]
    fn nothing_is_late_where_nothing_is_lost() {
        assert!(delays(0, 100, Duration::from_millis(1)).iter().all(Duration::is_zero));
    }

    /// Messages far apart have only their own time-outs: 20 % are late by 200 ms, 4 % by 600, 0.8 %
    /// by 1,400.
    #[test]
    fn a_quiet_stream_waits_for_its_time_outs() {
        let late = delays(20, 100_000, Duration::from_secs(500));
        assert!(late.len() >= 99_999, "nothing is lost for good");
        for (ms, share) in [(200, 0.2), (600, 0.04), (1_400, 0.008)] {
            let found = late.iter().filter(|late| late.as_millis() >= ms).count();
            let found = found as f64 / late.len() as f64;
            assert!((found / share - 1.0).abs() < 0.2, "{ms} ms: {found}");
        }
    }

    /// Where messages follow each other quickly, the next one tells of the gap.
    #[test]
    fn a_busy_stream_recovers_with_its_next_messages() {
        let late = delays(20, 100_000, Duration::from_millis(20));
        let over = late.iter().filter(|late| late.as_millis() > 200).count();
        assert!((over as f64) < 0.001 * late.len() as f64, "{over}");
    }
}
