//! The protocol core's gateway to us: it only collects what the core wants, and we decide what
//! becomes of it.

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::{Foca, Message, NoCustomBroadcast, Notification, PostcardCodec, Timer};
use rand010::rngs::StdRng;

use crate::identity::Peer;
use crate::rumours::times_told;
use crate::settings::Settings;

pub(super) type Core = Foca<Peer, PostcardCodec, StdRng, NoCustomBroadcast>;

/// The core's share of a datagram. The rest is for the envelope, the heartbeat and a few claims.
pub(super) const CORE_BYTES_MAX: usize = 1000;

/// A packet that the core wants sent.
pub(super) struct Outgoing {
    pub(super) to: Peer,
    pub(super) bytes: Vec<u8>,
    /// What it is; told by the core right after it has handed the bytes over.
    pub(super) message: Option<Message<Peer>>,
}

/// What the core has noticed.
pub(super) enum Note {
    Touched(Peer),
    Idle,
    Defunct,
    Rejoined(Peer),
    Received(Peer, Message<Peer>),
    ProbeFailed(Peer),
    Incarnation(u16),
}

#[derive(Default)]
pub(super) struct Collected {
    pub(super) sends: Vec<Outgoing>,
    pub(super) timers: Vec<(Timer<Peer>, Duration)>,
    pub(super) notes: Vec<Note>,
}

impl foca::Runtime<Peer> for Collected {
    fn notify(&mut self, notification: Notification<'_, Peer>) {
        let note = match notification {
            Notification::MemberUp(peer)
            | Notification::MemberDown(peer)
            | Notification::Rename(_, peer) => Note::Touched(*peer),
            Notification::Active => return,
            Notification::Idle => Note::Idle,
            Notification::Defunct => Note::Defunct,
            Notification::Rejoin(peer) => Note::Rejoined(*peer),
            Notification::DataReceived(header) => {
                Note::Received(header.src, header.message.clone())
            }
            Notification::DataSent(header) => {
                if let Some(last) = self.sends.last_mut() {
                    last.message = Some(header.message.clone());
                }
                Note::Incarnation(header.src_incarnation)
            }
            Notification::ProbeFailed(_, peer) => Note::ProbeFailed(*peer),
        };
        self.notes.push(note);
    }

    fn send_to(&mut self, to: Peer, data: &[u8]) {
        self.sends.push(Outgoing { to, bytes: data.to_vec(), message: None });
    }

    fn submit_after(&mut self, event: Timer<Peer>, after: Duration) {
        self.timers.push((event, after));
    }
}

/// The core's settings for a cluster of `members`.
pub(super) fn config(settings: &Settings, members: usize) -> foca::Config {
    let params = |frequency, members| {
        Some(foca::PeriodicParams { frequency, num_members: at_least_one(members) })
    };
    let times = u8::try_from(times_told(members)).unwrap_or(u8::MAX);
    foca::Config {
        probe_period: settings.probe_period,
        probe_rtt: settings.probe_timeout,
        num_indirect_probes: at_least_one(settings.proxies),
        max_transmissions: NonZeroU8::new(times).unwrap_or(NonZeroU8::MIN),
        // Never used: the deadlines of suspicions are ours.
        suspect_to_down_after: settings.probe_period,
        remove_down_after: Some(settings.dead_for),
        max_packet_size: at_least_one(CORE_BYTES_MAX),
        // "Down" cannot be refuted, only outlived. So the one concerned has to be told.
        notify_down_members: true,
        periodic_announce: params(settings.greet_period, 1),
        periodic_announce_to_down_members: params(settings.greet_period, 1),
        // Ours as well, because our claims ride on it.
        periodic_gossip: None,
    }
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}
