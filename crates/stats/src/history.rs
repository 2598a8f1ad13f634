//! The run over time, in slots with histograms, bounded by bytes.
//!
//! ```text
//! tick   1 s │ 1 s │ 1 s │ 1 s │ …           every closed tick goes into the last slot
//! slots  └ 1 tick each, up to 480 ┘
//!        └─ 2 ticks each ─┘                   too many slots, or too many bytes: pairs are joined
//! ```
//!
//! - **Joining is merging**: counts are added and histograms merged, so a percentile of a joined
//!   slot is that of all its requests, and sums over the slots are the totals, whatever the length
//!   of the run.
//! - **Bounded**: [`SLOTS_MAX`] slots, [`BYTES_MAX`] bytes as they are written, [`ROWS_MAX`] rows.
//!   What is too much costs resolution ([`History::ticks_per_slot`] says how much), never counts.
//! - **Rows** are the plan's steps, and the values of tags that only the run knows (a script's
//!   `name`) as parts of them. Tag values beyond the limit are `other`.
//!
//! It is made from windows that are collected once a second anyway; no request pays for it.

mod exponential;
mod slot;

#[cfg(test)]
mod properties;

use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::result::HistoryPoint;
use crate::series::{SeriesLayout, SeriesWindow, builtin};
use crate::window::{StepStats, Window};

pub use exponential::{BUCKETS_PER_OCTAVE, Exponential, RELATIVE_ERROR, SCALE};
pub use slot::{MetricSlot, Row, Slot};

pub const SLOTS_MAX: usize = 480;
/// Of all slots, as they are written.
pub const BYTES_MAX: usize = 1 << 20;
/// Steps and tag values together; steps always have a row.
pub const ROWS_MAX: usize = 256;
/// Of a script's own metrics.
const METRICS_MAX: usize = 32;
/// A tick that is shorter becomes a part of the slot before it.
const SHORT_NS: u64 = 500_000_000;
/// The row of tag values for which there was none left.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    slots: Vec<Slot>,
    /// Bytes of each slot as it is written; of the last one as far as it is complete.
    bytes: Vec<u32>,
    /// So many ticks make a slot; a power of two.
    ticks_per_slot: u32,
    /// Ticks in the last slot.
    ticks_in_last: u32,
    rows: Vec<RowName>,
    metrics: Vec<MetricName>,
}

/// What a row counts: all requests of a step, or those with one value of its tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowName {
    /// Number of the step in the layout.
    pub step: u32,
    pub tags: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricName {
    pub name: String,
    /// Milliseconds.
    pub time: bool,
    /// Of a script: its number there.
    series: Option<u32>,
}

/// What a tick has beyond its counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct TickFacts {
    pub at_ns: u64,
    pub over_ns: u64,
    pub vus: u64,
    pub busy_ns: u64,
    pub lag_max_ns: u64,
}

impl History {
    pub fn new(layout: &Layout, series: Option<&SeriesLayout>) -> History {
        let steps = 0..u32::try_from(layout.steps.len()).unwrap_or(u32::MAX);
        let own = layout.metrics.iter().map(|metric| MetricName {
            name: metric.name.clone(),
            time: metric.time,
            series: None,
        });
        let of_script = series.into_iter().flat_map(|series| {
            let shown = series.metrics().filter(|(id, _)| {
                series.is_custom(*id) || *id == builtin::GROUP_DURATION || *id == builtin::WS_PING
            });
            shown.map(|(id, metric)| MetricName {
                name: metric.name.clone(),
                time: metric.contains == crate::series::Contains::Time,
                series: Some(id.0),
            })
        });
        History {
            slots: Vec::new(),
            bytes: Vec::new(),
            ticks_per_slot: 1,
            ticks_in_last: 0,
            rows: steps.map(|step| RowName { step, tags: None }).collect(),
            metrics: own.chain(of_script).take(METRICS_MAX).collect(),
        }
    }

    /// One tick's counts. `series`: of a script, since the tick before.
    pub fn close_tick(
        &mut self,
        layout: &Layout,
        window: &Window,
        series: Option<&SeriesWindow>,
        facts: TickFacts,
    ) {
        let mut slot = Slot {
            at_ns: facts.at_ns,
            over_ns: facts.over_ns,
            vus: facts.vus,
            busy_ns: facts.busy_ns,
            lag_max_ns: facts.lag_max_ns,
            ..Slot::default()
        };
        for (stage, block) in window.blocks.iter().enumerate().take(layout.stages.len()) {
            let Some(block) = block else { continue };
            slot.iterations += block.iterations;
            slot.iterations_interrupted += block.iterations_interrupted;
            slot.dropped.iter_mut().zip(block.dropped).for_each(|(sum, count)| *sum += count);
            for check in &block.checks {
                slot.checks[0] += check.passes;
                slot.checks[1] += check.fails;
            }
            let first = layout.workflow_of_stage(stage).steps.start;
            for (number, step) in block.steps.iter().enumerate() {
                self.add_step(&mut slot, first + number, step);
            }
            for (number, value) in block.metrics.iter().enumerate().take(METRICS_MAX) {
                if let Some(value) = MetricSlot::of_custom(value) {
                    slot.add_metric(number as u32, value);
                }
            }
        }
        if let Some(series) = series {
            self.add_series(&mut slot, series);
        }
        self.push(slot);
    }

    fn add_step(&mut self, slot: &mut Slot, number: usize, step: &StepStats) {
        if step.requests == 0 {
            return;
        }
        slot.rows.entry(number as u32).or_default().add_step(step);
        for (tags, tagged) in &step.tagged {
            let row = self.row_of(number as u32, tags);
            slot.rows.entry(row).or_default().add_tagged(tagged);
        }
    }

    /// The row of a step's tag value.
    fn row_of(&mut self, step: u32, tags: &str) -> u32 {
        let find = |rows: &[RowName], tags: &str| {
            let is_it = |row: &RowName| row.step == step && row.tags.as_deref() == Some(tags);
            rows.iter().position(is_it)
        };
        let known = find(&self.rows, tags);
        let full = self.rows.len() >= ROWS_MAX;
        let tags = if known.is_none() && full { OTHER } else { tags };
        let at = known.or_else(|| find(&self.rows, tags)).unwrap_or_else(|| {
            self.rows.push(RowName { step, tags: Some(tags.to_owned()) });
            self.rows.len() - 1
        });
        at as u32
    }

    fn add_series(&self, slot: &mut Slot, series: &SeriesWindow) {
        if let Some(crate::series::Sink::Rate { trues, total }) = series.sink(builtin::CHECKS) {
            slot.checks[0] += trues;
            slot.checks[1] += total - trues;
        }
        for (number, metric) in self.metrics.iter().enumerate() {
            let sink = metric.series.and_then(|id| series.sink(crate::series::MetricId(id)));
            if let Some(value) = sink.and_then(MetricSlot::of_sink) {
                slot.add_metric(number as u32, value);
            }
        }
    }

    fn push(&mut self, slot: Slot) {
        match self.slots.last_mut() {
            // The rest of a run would look like a fall.
            Some(last) if slot.over_ns < SHORT_NS => {
                last.join(&slot);
                self.bytes.pop();
            }
            Some(last) if self.ticks_in_last < self.ticks_per_slot => {
                last.join(&slot);
                self.bytes.pop();
                self.ticks_in_last += 1;
            }
            _ => {
                self.slots.push(slot);
                self.ticks_in_last = 1;
            }
        }
        self.bytes.push(self.slots.last().map_or(0, size));
        while self.slots.len() > SLOTS_MAX || (self.bytes() > BYTES_MAX && self.slots.len() > 1) {
            self.halve();
        }
    }

    /// Half as many slots, each twice as long.
    pub fn halve(&mut self) {
        let joined = |pair: &[Slot]| {
            let mut slot = pair[0].clone();
            pair[1..].iter().for_each(|next| slot.join(next));
            slot
        };
        // The last pair may lack its second half, or a part of it.
        if self.slots.len().is_multiple_of(2) {
            self.ticks_in_last += self.ticks_per_slot;
        }
        self.ticks_per_slot = self.ticks_per_slot.saturating_mul(2);
        self.slots = self.slots.chunks(2).map(joined).collect();
        self.bytes = self.slots.iter().map(size).collect();
    }

    /// What each threshold compares now.
    pub fn note_thresholds(&mut self, values: impl ExactSizeIterator<Item = Option<f64>>) {
        let (Some(last), Some(bytes)) = (self.slots.last_mut(), self.bytes.last_mut()) else {
            return;
        };
        if values.len() > 0 {
            // A value takes nine bytes; they are counted anew when the slot is joined.
            *bytes += 9 * values.len().saturating_sub(last.thresholds.len()) as u32;
            last.thresholds = values.collect();
        }
    }

    /// As it is written.
    pub fn bytes(&self) -> usize {
        self.bytes.iter().map(|bytes| *bytes as usize).sum()
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// More than 1: neighbours were joined so often that it fits.
    pub fn ticks_per_slot(&self) -> u32 {
        self.ticks_per_slot
    }

    pub fn rows(&self) -> &[RowName] {
        &self.rows
    }

    pub fn metrics(&self) -> &[MetricName] {
        &self.metrics
    }

    /// Whether a row is a step's own: together these are all requests, each once.
    pub fn is_step(&self, row: u32) -> bool {
        self.rows.get(row as usize).is_some_and(|row| row.tags.is_none())
    }

    /// One point per slot.
    pub fn points(&self) -> Vec<HistoryPoint> {
        self.slots.iter().map(|slot| slot.point(|row| self.is_step(row))).collect()
    }

    /// Whether it may have been made with this layout: every number has a name.
    pub(crate) fn is_sound(&self, layout: &Layout) -> bool {
        let steps = layout.steps.len();
        let slots = self.slots.iter().all(|slot| {
            slot.rows.keys().all(|row| (*row as usize) < self.rows.len())
                && slot.metrics.keys().all(|metric| (*metric as usize) < self.metrics.len())
        });
        let one_kind = |number: u32| {
            let mut kinds = self.slots.iter().filter_map(|slot| slot.metrics.get(&number));
            let first = kinds.next().map(MetricSlot::kind);
            kinds.all(|metric| Some(metric.kind()) == first)
        };
        slots
            && self.slots.len() == self.bytes.len()
            && self.slots.len() <= SLOTS_MAX
            && self.ticks_per_slot.is_power_of_two()
            && self.rows.iter().all(|row| (row.step as usize) < steps)
            && (0..self.metrics.len() as u32).all(one_kind)
    }
}

fn size(slot: &Slot) -> u32 {
    postcard::to_stdvec(slot).map_or(0, |bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX))
}
