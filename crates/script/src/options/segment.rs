//! Execution segments: the part of a test that one instance runs when a test is run as several.
//!
//! A segment is an interval of the test, as `1/4:1/2`; a sequence says where all segments begin and
//! end. Units (virtual users, iterations) are dealt out in turns of as many slots as the common
//! denominator, so that the parts add up to the whole for every total:
//!
//! ```text
//! sequence 0,1/4,3/4,1       widths 1 2 1 of 4
//! slot                0 1 2 3 | 0 1 2 3 | …
//! segment             b a b c | b a b c | …    b is the longest and begins
//! ```
//!
//! A slot goes to the longest segment whose next ideal place (how many it has, times the turn's
//! length, over its width) is not later than the slot. This is k6's order, so that instances of
//! both tools could share one test.

use std::fmt;
use std::time::Duration;

use plan::units::Wrong;
use plan::{Executor, Load, Rate};

use super::problem::plain;
use super::values::shorten;

/// Turns of more slots than this are refused: such fractions are mistakes.
const TURN_SLOTS_MAX: u64 = 100_000;

/// A number from 0 to 1, kept exact and in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    numerator: u64,
    denominator: u64,
}

impl Fraction {
    const ZERO: Fraction = Fraction { numerator: 0, denominator: 1 };
    const ONE: Fraction = Fraction { numerator: 1, denominator: 1 };

    fn new(numerator: u64, denominator: u64) -> Fraction {
        let divisor = gcd(numerator, denominator).max(1);
        Fraction { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// `1/3`, `25%`, `0.2`, `1`.
    fn parse(text: &str) -> Result<Fraction, Wrong> {
        let wrong = || {
            let message = format!("`{}` is not a part of a whole", shorten(text));
            Wrong::new(message, "write 1/3, 25%, 0.2, or an interval such as 1/4:1/2")
        };
        let fraction = if let Some((numerator, denominator)) = text.split_once('/') {
            let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            (number(numerator)?, number(denominator)?)
        } else {
            let (number, percent) = match text.strip_suffix('%') {
                Some(number) => (number, 100),
                None => (text, 1),
            };
            let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
            let digits = format!("{whole}{decimals}");
            let power = u32::try_from(decimals.len()).ok().and_then(|n| 10u64.checked_pow(n));
            let denominator = power.and_then(|power| power.checked_mul(percent));
            (digits.parse().map_err(|_| wrong())?, denominator.ok_or_else(wrong)?)
        };
        match fraction {
            (_, 0) => Err(wrong()),
            (numerator, denominator) if numerator > denominator => {
                Err(plain(format!("`{}` is more than 1, which is the whole test", shorten(text))))
            }
            (numerator, denominator) => Ok(Fraction::new(numerator, denominator)),
        }
    }

    /// In units of `1 / denominator`, a multiple of this fraction's own.
    fn units(self, denominator: u64) -> u64 {
        self.numerator * (denominator / self.denominator)
    }

    fn less_than(self, other: Fraction) -> bool {
        u128::from(self.numerator) * u128::from(other.denominator)
            < u128::from(other.numerator) * u128::from(self.denominator)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

/// The part of the test that this instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub from: Fraction,
    pub to: Fraction,
}

impl Segment {
    pub const WHOLE: Segment = Segment { from: Fraction::ZERO, to: Fraction::ONE };

    /// `1/4:1/2`, or only the end of a part that begins at 0.
    pub fn parse(text: &str) -> Result<Segment, Wrong> {
        let (from, to) = text.split_once(':').unwrap_or(("0", text));
        let segment = Segment { from: Fraction::parse(from)?, to: Fraction::parse(to)? };
        if segment.from.less_than(segment.to) {
            return Ok(segment);
        }
        let message = format!("`{}` ends where it begins, or before", shorten(text));
        Err(Wrong::new(message, "write the smaller part first: 1/4:1/2"))
    }

    /// The share of the whole, from 0 to 1.
    pub fn length(self) -> f64 {
        let part = |f: Fraction| f.numerator as f64 / f.denominator as f64;
        part(self.to) - part(self.from)
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.from, self.to)
    }
}

/// The borders of all segments of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSequence(pub Vec<Fraction>);

impl SegmentSequence {
    /// `0,1/3,2/3,1`.
    pub fn parse(text: &str) -> Result<SegmentSequence, Wrong> {
        let points: Vec<Fraction> =
            text.split(',').map(Fraction::parse).collect::<Result<_, _>>()?;
        if points.len() < 2 {
            let message = format!("`{}` has less than two points", shorten(text));
            return Err(Wrong::new(message, "write all borders: 0,1/3,2/3,1"));
        }
        if let Some(pair) = points.windows(2).find(|pair| !pair[0].less_than(pair[1])) {
            let message = format!("{} is followed by {}", pair[0], pair[1]);
            return Err(Wrong::new(message, "write the borders in rising order"));
        }
        Ok(SegmentSequence(points))
    }
}

impl fmt::Display for SegmentSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points: Vec<String> = self.0.iter().map(Fraction::to_string).collect();
        f.write_str(&points.join(","))
    }
}

/// Which units of a test are this segment's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripes {
    /// Of all segments, in slots.
    widths: Vec<u64>,
    /// The segment that each slot of a turn belongs to.
    owners: Vec<usize>,
    own: usize,
}

impl Stripes {
    /// Without a sequence, what lies before and after the segment are one segment each.
    pub fn new(segment: Segment, sequence: Option<&SegmentSequence>) -> Result<Stripes, Wrong> {
        let mut points = match sequence {
            Some(sequence) => sequence.0.clone(),
            None => vec![segment.from, segment.to],
        };
        if points.first() != Some(&Fraction::ZERO) {
            points.insert(0, Fraction::ZERO);
        }
        if points.last() != Some(&Fraction::ONE) {
            points.push(Fraction::ONE);
        }
        let own = points.windows(2).position(|pair| pair == [segment.from, segment.to]);
        let own = own.ok_or_else(|| {
            let text = sequence.map_or_else(String::new, SegmentSequence::to_string);
            let message = format!("the segment {segment} is not in the sequence {text}");
            Wrong::new(message, "executionSegment must be two neighbours of the sequence")
        })?;
        let slots = points.iter().try_fold(1u64, |slots, point| {
            let common = slots / gcd(slots, point.denominator);
            common.checked_mul(point.denominator).filter(|slots| *slots <= TURN_SLOTS_MAX)
        });
        let too_fine = || {
            let message = format!("segments finer than 1/{TURN_SLOTS_MAX} are not supported");
            Wrong::new(message, "use simpler fractions, such as 1/3")
        };
        let slots = slots.ok_or_else(too_fine)?;
        let width = |pair: &[Fraction]| pair[1].units(slots) - pair[0].units(slots);
        Ok(Stripes::from_widths(points.windows(2).map(width).collect(), own))
    }

    fn from_widths(widths: Vec<u64>, own: usize) -> Stripes {
        let slots: u64 = widths.iter().sum();
        let mut longest_first: Vec<usize> = (0..widths.len()).filter(|i| widths[*i] > 0).collect();
        longest_first.sort_by_key(|i| std::cmp::Reverse(widths[*i]));
        let mut taken = vec![0u64; widths.len()];
        let mut owners = Vec::with_capacity(slots as usize);
        for slot in 0..slots {
            let is_due = |i: &&usize| taken[**i] * slots <= slot * widths[**i];
            // One is always due: the ideal places of all segments together fill every slot.
            let owner = longest_first.iter().find(is_due).copied().unwrap_or(own);
            taken[owner] += 1;
            owners.push(owner);
        }
        Stripes { widths, owners, own }
    }

    /// How many of `0..total` are this segment's.
    pub fn share(&self, total: u64) -> u64 {
        self.share_of(self.own, total)
    }

    /// Whether unit `index` is this segment's.
    pub fn owns(&self, index: u64) -> bool {
        self.owners[(index % self.owners.len() as u64) as usize] == self.own
    }

    /// Which unit of the whole is this segment's `n`-th, both counted from 0.
    pub fn nth(&self, n: u64) -> u64 {
        let width = self.widths[self.own].max(1);
        let own = self.owners.iter().enumerate().filter(|(_, owner)| **owner == self.own);
        let slot = own.map(|(slot, _)| slot as u64).nth((n % width) as usize).unwrap_or(0);
        n / width * self.owners.len() as u64 + slot
    }

    fn share_of(&self, segment: usize, total: u64) -> u64 {
        let slots = self.owners.len() as u64;
        let begun = &self.owners[..(total % slots) as usize];
        let of_begun = begun.iter().filter(|owner| **owner == segment).count() as u64;
        (total / slots) * self.widths[segment] + of_begun
    }

    /// The stripes among those segments that have a part of `vus`, as wide as their parts: work is
    /// given only to who has somebody to do it.
    fn by_vus(&self, vus: u64) -> Stripes {
        let widths: Vec<u64> = (0..self.widths.len()).map(|i| self.share_of(i, vus)).collect();
        let divisor = widths.iter().fold(0, |divisor, width| gcd(divisor, *width)).max(1);
        // With so many users every segment has some, in very nearly its own width.
        if vus == 0 || vus / divisor > TURN_SLOTS_MAX {
            return self.clone();
        }
        Stripes::from_widths(widths.iter().map(|width| width / divisor).collect(), self.own)
    }
}

/// This segment's part of a load; `None` if no virtual user falls to it.
///
/// Virtual users and iterations of all segments add up to the whole exactly, and so do rates.
/// Within a ramp, each segment steps on its own between its parts of the targets.
pub fn cut(load: &Load, stripes: &Stripes) -> Result<Option<Load>, Wrong> {
    let share32 = |vus: u32| stripes.share(u64::from(vus)) as u32;
    let mut part = load.clone();
    let has_work = match &mut part.executor {
        Executor::ConstantVus { vus, .. } | Executor::PerVuIterations { vus, .. } => {
            *vus = share32(*vus);
            *vus > 0
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            *iterations = stripes.by_vus(u64::from(*vus)).share(*iterations);
            *vus = share32(*vus);
            *vus > 0 && *iterations > 0
        }
        Executor::RampingVus { start, stages, .. } => {
            *start = share32(*start);
            for stage in &mut *stages {
                stage.to = share32(stage.to);
            }
            *start > 0 || stages.iter().any(|stage| stage.to > 0)
        }
        Executor::ConstantArrivalRate { rate, vus, max_vus, .. } => {
            let divider = Divider::new(stripes, max_vus.or(*vus));
            *rate = divider.part(*rate)?;
            *vus = vus.map(share32);
            *max_vus = max_vus.map(share32);
            divider.own > 0
        }
        Executor::RampingArrivalRate { start, stages, vus, max_vus } => {
            let divider = Divider::new(stripes, max_vus.or(*vus));
            *start = divider.part(*start)?;
            for stage in stages {
                stage.to = divider.part(stage.to)?;
            }
            *vus = vus.map(share32);
            *max_vus = max_vus.map(share32);
            divider.own > 0
        }
    };
    Ok(has_work.then_some(part))
}

/// The part of a rate that goes with a part of the virtual users.
struct Divider {
    own: u64,
    all: u64,
}

impl Divider {
    fn new(stripes: &Stripes, vus: Option<u32>) -> Divider {
        let (own, all) = match vus {
            Some(vus) => (stripes.share(u64::from(vus)), u64::from(vus)),
            None => (stripes.widths[stripes.own], stripes.owners.len() as u64),
        };
        let divisor = gcd(own, all).max(1);
        Divider { own: own / divisor, all: (all / divisor).max(1) }
    }

    /// Exact: the time of a rate grows where its events cannot be divided.
    fn part(&self, rate: Rate) -> Result<Rate, Wrong> {
        let divisor = gcd(rate.events, self.all).max(1);
        let events = (rate.events / divisor).checked_mul(self.own);
        let per = u64::try_from(rate.per.as_nanos()).ok();
        let per = per.and_then(|per| per.checked_mul(self.all / divisor));
        match (events, per) {
            (Some(events), Some(per)) => Ok(Rate { events, per: Duration::from_nanos(per) }),
            _ => Err(Wrong::new(
                "the rate cannot be divided among the segments exactly",
                "use a simpler timeUnit or fewer maxVUs",
            )),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
