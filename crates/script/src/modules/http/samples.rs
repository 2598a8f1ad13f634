//! What an exchange leaves in the record. Tags are put into words only if somebody asks for them.

use std::cell::Ref;
use std::sync::Arc;

use client::Progress;
use stats::series::{SampleTags, Tags, builtin};

use super::head;
use super::render::Hop;
use super::request::Request;
use super::trouble::Trouble;
use crate::host::Host;
use crate::tags::{SampleScope, SystemTags, TagSet};

/// One exchange, as it ended.
pub struct Measured<'a> {
    pub host: &'a Host,
    pub request: &'a Request,
    pub hop: &'a Hop,
    /// 0: no complete answer.
    pub status: u16,
    pub head: &'a [u8],
    pub progress: &'a Progress,
    /// `None`: nobody judges.
    pub expected: Option<bool>,
    pub trouble: Option<&'a Trouble>,
}

pub fn record(measured: &Measured<'_>) {
    let phases = measured.progress.phases.get();
    let ms = |ns: u64| ns as f64 / 1e6;
    let failed = measured.expected.map_or(0.0, |expected| f64::from(u8::from(!expected)));
    let values = [
        (builtin::HTTP_REQS, 1.0),
        (builtin::HTTP_REQ_DURATION, ms(phases.duration())),
        (builtin::HTTP_REQ_BLOCKED, ms(phases.blocked)),
        (builtin::HTTP_REQ_CONNECTING, ms(phases.connecting)),
        (builtin::HTTP_REQ_TLS_HANDSHAKING, ms(phases.tls_handshaking)),
        (builtin::HTTP_REQ_SENDING, ms(phases.sending)),
        (builtin::HTTP_REQ_WAITING, ms(phases.waiting)),
        (builtin::HTTP_REQ_RECEIVING, ms(phases.receiving)),
        (builtin::HTTP_REQ_FAILED, failed),
    ];
    let judged = measured.expected.is_some();
    let recorder = measured.host.recorder();
    let scope = ExchangeScope::new(measured);
    recorder.record_all(&values[..values.len() - usize::from(!judged)], &scope);
    drop(scope);
    // Traffic belongs to the iteration, not to a request.
    let progress = measured.progress;
    measured.host.add_traffic(progress.bytes_sent.get(), progress.bytes_received.get());
}

struct ExchangeScope<'a> {
    measured: &'a Measured<'a>,
    base: Ref<'a, TagSet>,
    status: Digits,
    code: Digits,
    system: SystemTags,
    address: std::cell::OnceCell<String>,
}

impl<'a> ExchangeScope<'a> {
    fn new(measured: &'a Measured<'a>) -> ExchangeScope<'a> {
        let code = match measured.trouble {
            Some(trouble) => trouble.code,
            None if measured.status >= 400 => 1000 + measured.status,
            None => 0,
        };
        ExchangeScope {
            measured,
            base: measured.host.tags.borrow(),
            status: Digits::new(measured.status),
            code: Digits::new(code),
            system: measured.host.system_tags(),
            address: std::cell::OnceCell::new(),
        }
    }

    /// What the exchange itself says; it wins over what the script says.
    fn own(&self, key: &str) -> Option<&str> {
        let Measured { request, hop, .. } = self.measured;
        let has = |tag| self.system.has(tag);
        let named = || request.name.as_deref().unwrap_or_else(|| hop.shown());
        match key {
            "status" if has(SystemTags::STATUS) => Some(self.status.text()),
            "method" if has(SystemTags::METHOD) => Some(&hop.method),
            "url" if has(SystemTags::URL) => Some(named()),
            "name" if has(SystemTags::NAME) => Some(named()),
            // A name that a script gives is a tag like any other.
            "name" => request.name.as_deref(),
            "proto" if has(SystemTags::PROTO) && self.measured.status != 0 => {
                Some(head::protocol(self.measured.head))
            }
            "expected_response" if has(SystemTags::EXPECTED_RESPONSE) => {
                self.measured.expected.map(|expected| if expected { "true" } else { "false" })
            }
            "error" if has(SystemTags::ERROR) => {
                self.measured.trouble.map(|trouble| trouble.text.as_str())
            }
            "error_code" if has(SystemTags::ERROR_CODE) && self.code.0 != 0 => {
                Some(self.code.text())
            }
            "tls_version" if has(SystemTags::TLS_VERSION) && self.measured.status != 0 => {
                let peer = self.measured.progress.peer.borrow();
                peer.as_ref().and_then(|peer| peer.tls_version)
            }
            "ocsp_status" if has(SystemTags::OCSP_STATUS) => {
                let peer = self.measured.progress.peer.borrow();
                peer.as_ref().and_then(|peer| peer.tls_version).map(|_| "unknown")
            }
            "ip" if has(SystemTags::IP) => {
                let peer = self.measured.progress.peer.borrow();
                let address = peer.as_ref()?.address?;
                Some(self.address.get_or_init(|| address.ip().to_string()))
            }
            _ => None,
        }
    }
}

const OWN: [&str; 11] = [
    "status",
    "method",
    "url",
    "name",
    "proto",
    "expected_response",
    "error",
    "error_code",
    "tls_version",
    "ocsp_status",
    "ip",
];

impl Tags for ExchangeScope<'_> {
    fn tag(&self, key: &str) -> Option<&str> {
        if let Some(own) = self.own(key) {
            return Some(own);
        }
        match self.measured.request.tags.iter().find(|(known, _)| **known == *key) {
            Some((_, value)) => Some(value),
            None => self.base.get(key),
        }
    }
}

impl SampleScope for ExchangeScope<'_> {
    fn sample_tags(&self) -> SampleTags {
        let mut all: Vec<(Arc<str>, Arc<str>)> = self.measured.request.tags.clone();
        let own = OWN.iter().filter_map(|key| Some(((*key).into(), self.own(key)?.into())));
        all.extend(own);
        self.measured.host.sample_tags(&all)
    }
}

/// A small number and its digits.
struct Digits(u16, [u8; 4]);

impl Digits {
    fn new(number: u16) -> Digits {
        let digit = |unit: u16| b'0' + (number / unit % 10) as u8;
        Digits(number, [digit(1000), digit(100), digit(10), digit(1)])
    }

    fn text(&self) -> &str {
        let from = match self.0 {
            0..=9 => 3,
            10..=99 => 2,
            100..=999 => 1,
            _ => 0,
        };
        std::str::from_utf8(&self.1[from..]).unwrap_or_default()
    }
}
