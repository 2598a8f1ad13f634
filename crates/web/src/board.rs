//! The newest state of one run, and when each part of it last changed.
//!
//! ```text
//! number   1        2        3            every publication has a number
//! header   1 ─────▶ 2 ─────▶ 3
//! checks   1 ──────────────▶ 3            parts remember when they last changed
//! slots    1 1 1 ─▶ 1 1 2 ─▶ 1 1 2 3      so does each slot of the history
//! ```
//!
//! Whoever has seen everything up to `n` gets what changed after `n`, in one event, however long it
//! was away. Nothing is queued for anybody: a viewer costs what it is being sent at the moment.
//!
//! A long history goes out in pieces of bounded size, made one after the other as the viewer takes
//! them; only the last has an id, so that a viewer that is lost between them begins again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use report::live;
use report::{About, Record};
use serde_json::Value;
use stats::{Progress, RunResult};
use tokio::sync::watch;

use crate::frames::{Id, event, object};
use crate::viewers::Viewers;

/// Slots times rows in one event: about 200 KiB.
const CELLS_MAX: usize = 2000;

pub struct Board {
    epoch: u64,
    about: About,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    pub(crate) viewers: Viewers,
}

#[derive(Default)]
struct State {
    /// Of the newest publication.
    number: u64,
    shown: Option<Arc<Shown>>,
    /// For each slot, when it last changed.
    slots: Vec<u64>,
    parts: BTreeMap<&'static str, (u64, String)>,
    /// Something about the connection to the run, if there is something to say.
    words: String,
    end: Option<(u64, Bytes)>,
    /// The event of whoever was up to date before.
    newest: Option<(u64, usize, Bytes)>,
}

struct Shown {
    progress: Progress,
    document: String,
}

/// How far one viewer has come.
pub(crate) struct Cursor {
    after: u64,
    /// In the middle of a long history: up to which number it goes, and the next slot.
    catching_up: Option<(u64, usize)>,
}

pub(crate) enum Next {
    Event(Bytes),
    /// The run has ended; nothing comes after it.
    Last(Bytes),
    Nothing,
}

impl Board {
    pub fn new(about: About) -> Board {
        let mut seed = [0; 8];
        // Without chance, a viewer of an earlier server at this port may keep its old slots.
        let _ = getrandom::fill(&mut seed);
        Board {
            epoch: u64::from_le_bytes(seed),
            about,
            state: Mutex::default(),
            changed: watch::channel(0).0,
            viewers: Viewers::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many look at it now.
    pub fn viewers(&self) -> usize {
        self.viewers.count()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().shown.is_none()
    }

    pub fn is_over(&self) -> bool {
        self.lock().end.is_some()
    }

    /// The run as it is now, in the place of what was known.
    pub fn publish(&self, progress: Progress) {
        let document = live::document(&progress.result, &self.about);
        let parts: Vec<_> = live::parts(&document, Some(&progress)).collect();
        let shown = Arc::new(Shown { progress, document: document.to_string() });
        let mut state = self.lock();
        state.number += 1;
        let number = state.number;
        state.note_slots(&shown.progress.result);
        for (name, html) in parts {
            state.note_part(name, html);
        }
        let _old = state.shown.replace(shown);
        drop(state);
        self.changed.send_replace(number);
    }

    /// Words about the connection to the run; empty: there is nothing to say.
    pub fn say(&self, words: &str) {
        let mut state = self.lock();
        if state.words == words {
            return;
        }
        words.clone_into(&mut state.words);
        state.number += 1;
        let number = state.number;
        drop(state);
        self.changed.send_replace(number);
    }

    /// The run has ended. Whoever looks is sent the report, and then nothing more.
    pub fn finish(&self, record: &Record) {
        let mut parts = serde_json::Map::new();
        for (name, html) in live::parts(record.document(), None) {
            parts.insert(name.to_owned(), html.into());
        }
        let page = Value::from(report::html::page(record)).to_string();
        let data = object(&[("parts", Value::from(parts).to_string()), ("report", page)]);
        let mut state = self.lock();
        state.number += 1;
        let number = state.number;
        let id = Id { epoch: self.epoch, number };
        state.end = Some((number, event("end", Some(id), &data)));
        drop(state);
        self.changed.send_replace(number);
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    /// The newest result, with what is known of the run.
    pub fn record(&self) -> Option<Record> {
        let shown = self.lock().shown.clone()?;
        Some(Record::new(&shown.progress.result, &self.about))
    }

    /// Where a viewer stands that has seen `id` last.
    pub(crate) fn cursor(&self, id: Option<Id>) -> Cursor {
        let number = self.lock().number;
        let known = id.filter(|id| id.epoch == self.epoch && id.number <= number);
        Cursor { after: known.map_or(0, |id| id.number), catching_up: None }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What comes next for a viewer.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Next {
        let mut state = self.lock();
        if let Some((_, last)) = &state.end {
            return Next::Last(last.clone());
        }
        if cursor.catching_up.is_none() && cursor.after >= state.number {
            return Next::Nothing;
        }
        let viewers = self.viewers.count();
        if let Some((after, count, frame)) = &state.newest
            && cursor.catching_up.is_none()
            && (*after, *count) == (cursor.after, viewers)
        {
            let frame = frame.clone();
            cursor.after = state.number;
            return Next::Event(frame);
        }
        let (target, from) = cursor.catching_up.unwrap_or_else(|| {
            let known = state.slots.iter().position(|changed| *changed > cursor.after);
            (state.number, known.unwrap_or(state.slots.len()))
        });
        let to = state.slots.len().min(from + state.slots_at_once());
        let is_first = cursor.catching_up.is_none();
        let is_last = to >= state.slots.len();
        let id = is_last.then_some(Id { epoch: self.epoch, number: target });
        let data = state.update(cursor.after, from.min(to)..to, is_first, viewers);
        let frame = event("update", id, &data);
        if is_first && is_last {
            state.newest = Some((cursor.after, viewers, frame.clone()));
        }
        cursor.catching_up = (!is_last).then_some((target, to));
        if is_last {
            cursor.after = target;
        }
        Next::Event(frame)
    }
}

impl State {
    /// Marks the slots that are new or other than before.
    fn note_slots(&mut self, result: &RunResult) {
        self.newest = None;
        let number = self.number;
        let new = result.history.slots();
        let before = self.shown.as_ref().map(|shown| &shown.progress.result.history);
        let same_width =
            before.is_some_and(|it| it.ticks_per_slot() == result.history.ticks_per_slot());
        let old = before.map(|history| history.slots()).filter(|_| same_width).unwrap_or_default();
        let marks = new.iter().enumerate().map(|(at, slot)| match old.get(at) {
            Some(known) if known == slot => self.slots.get(at).copied().unwrap_or(number),
            _ => number,
        });
        self.slots = marks.collect();
    }

    fn note_part(&mut self, name: &'static str, html: String) {
        let number = self.number;
        match self.parts.get_mut(name) {
            Some((_, known)) if *known == html => {}
            _ => drop(self.parts.insert(name, (number, html))),
        }
    }

    fn slots_at_once(&self) -> usize {
        let rows = self.shown.as_ref().map_or(1, |shown| {
            let history = &shown.progress.result.history;
            history.rows().len() + history.metrics().len() + 1
        });
        (CELLS_MAX / rows).max(8)
    }

    /// `whole`: with everything but slots, too.
    fn update(
        &self,
        after: u64,
        slots: std::ops::Range<usize>,
        whole: bool,
        viewers: usize,
    ) -> String {
        let mut members = vec![
            ("viewers", viewers.to_string()),
            ("slots", self.slots.len().to_string()),
            ("from", slots.start.to_string()),
            ("words", Value::from(self.words.as_str()).to_string()),
        ];
        if let Some(shown) = &self.shown {
            if whole {
                let changed = self.parts.iter().filter(|(_, (number, _))| *number > after);
                let parts: serde_json::Map<String, Value> = changed
                    .map(|(name, (_, html))| ((*name).to_owned(), Value::from(html.as_str())))
                    .collect();
                let state = format!("{:?}", shown.progress.state).to_lowercase();
                members.push(("parts", Value::from(parts).to_string()));
                members.push(("state", Value::from(state).to_string()));
                members.push(("document", shown.document.clone()));
            }
            let history = live::history(&shown.progress.result, slots);
            members.push(("history", history.to_string()));
        }
        object(&members)
    }
}
