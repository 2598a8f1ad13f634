//! Charts that need no JavaScript: inline SVG with presentation attributes only, which a browser
//! shows even where a content security policy forbids every style.
//!
//! The page's own style, where it is allowed, gives them the colours of the theme by their classes.

use std::fmt::Write;

use super::markup::{Part, escaped};
use crate::format;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// Points of a line; a screen shows no more.
const POINTS_MAX: usize = 480;
const COLUMNS: usize = 96;
const ROWS: usize = 32;
/// From few requests to many.
const SHADES: [&str; 6] = ["#dbe7f6", "#b3cdec", "#83aedf", "#4f8bcf", "#2767b3", "#124485"];

/// One line of a chart.
pub struct Line<'a> {
    pub name: &'a str,
    pub class: &'a str,
    pub color: &'a str,
    /// Seconds, value.
    pub points: Vec<(f64, f64)>,
}

/// How values become heights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Milliseconds, by powers.
    Latency,
    PerSecond,
}

struct Frame {
    seconds: f64,
    low: f64,
    high: f64,
    axis: Axis,
}

impl Frame {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (seconds / self.seconds).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.axis {
            Axis::PerSecond => (value - self.low) / (self.high - self.low),
            Axis::Latency => {
                let place = |value: f64| value.max(self.low).log10();
                (place(value) - place(self.low)) / (place(self.high) - place(self.low))
            }
        };
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// Grid and labels.
    fn grid(&self, svg: &mut String) {
        let mut ticks = Vec::new();
        match self.axis {
            Axis::PerSecond => {
                let step = round_step(self.high / 4.0);
                let mut value = 0.0;
                while value <= self.high * 1.001 {
                    ticks.push((value, format::rate(value)));
                    value += step;
                }
            }
            Axis::Latency => {
                let decades = (self.high / self.low).log10();
                let factors: &[f64] = if decades > 3.3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let mut power = 10f64.powf(self.low.log10().floor());
                while power <= self.high {
                    for factor in factors {
                        let value = power * factor;
                        if value >= self.low * 0.999 && value <= self.high * 1.001 {
                            ticks.push((value, format::time_ms(value)));
                        }
                    }
                    power *= 10.0;
                }
            }
        }
        for (value, label) in ticks {
            let y = self.y(value);
            let (right, text) = (WIDTH - RIGHT, LEFT - 8.0);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#d8dde5\"/>\
                 <text class=\"label\" x=\"{text}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                y + 4.0
            );
        }
        let step = time_step(self.seconds);
        let mut second = 0.0;
        while second <= self.seconds {
            let _ = write!(
                svg,
                "<text class=\"label\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x(second),
                HEIGHT - 8.0,
                clock(second)
            );
            second += step;
        }
    }
}

/// `45s`, `2:05`, `1:02:05`.
fn clock(seconds: f64) -> String {
    let all = seconds.round() as u64;
    let (hours, minutes, rest) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) if seconds < 10.0 && seconds.fract() > 0.0 => format!("{seconds:.1}s"),
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

/// 1, 2 or 5 times a power of ten, not below.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = factors.into_iter().find(|factor| factor * power >= least * 0.999);
    fits.unwrap_or(10.0) * power
}

fn time_step(seconds: f64) -> f64 {
    const STEPS: [f64; 16] = [
        0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0,
        7200.0, 14400.0,
    ];
    STEPS.into_iter().find(|step| seconds / step <= 10.0).unwrap_or(43_200.0)
}

fn open(title: &str, about: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"100%\" font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#5a6472\" \
         aria-label=\"{0}. {1}\"><title>{0}. {1}</title>",
        escaped(title),
        escaped(about)
    )
}

/// Lines over time, with their names at the right end of the title's line.
pub fn lines(title: &str, about: &str, axis: Axis, seconds: f64, lines: &[Line<'_>]) -> String {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    let most = values().fold(0.0, f64::max);
    let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let frame = match axis {
        Axis::PerSecond => {
            let high = if most > 0.0 { round_step(most / 4.0) * 4.0 } else { 1.0 };
            Frame { seconds, low: 0.0, high, axis }
        }
        Axis::Latency => latency_frame(seconds, least, most),
    };
    let mut svg = open(title, about);
    frame.grid(&mut svg);
    for line in lines {
        let mut path = String::new();
        let every = line.points.len().div_ceil(POINTS_MAX).max(1);
        for (at, points) in line.points.chunks(every).enumerate() {
            let (seconds, _) = points[points.len() - 1];
            let value = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
            let letter = if at == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", frame.x(seconds), frame.y(value));
        }
        if line.points.len() == 1 {
            path.push_str("h2");
        }
        let _ = write!(
            svg,
            "<path class=\"line {}\" d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" \
             stroke-linejoin=\"round\"/>",
            line.class, line.color
        );
    }
    let mut x = WIDTH - RIGHT;
    for line in lines.iter().rev() {
        x -= 26.0 + 6.2 * line.name.len() as f64;
        let _ = write!(
            svg,
            "<rect class=\"fill {}\" x=\"{x:.0}\" y=\"2\" width=\"9\" height=\"9\" rx=\"2\" \
             fill=\"{}\"/><text class=\"label\" x=\"{:.0}\" y=\"10\">{}</text>",
            line.class,
            line.color,
            x + 12.0,
            escaped(line.name)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn latency_frame(seconds: f64, least: f64, most: f64) -> Frame {
    let low = if least.is_finite() { least } else { 1.0 };
    let high = most.max(low * 1.5);
    // A little air, so that no line lies on the border.
    Frame { seconds, low: low / 1.1, high: high * 1.1, axis: Axis::Latency }
}

/// Requests by time and latency: a stronger colour is more.
pub fn heatmap(title: &str, history: Part<'_>, seconds: f64) -> Option<String> {
    let counts = Grid::of(history, seconds)?;
    let frame = Frame { seconds, low: counts.low, high: counts.high, axis: Axis::Latency };
    let mut svg =
        open(title, "A stronger colour is more requests; the axis of latency grows by factors");
    frame.grid(&mut svg);
    let (width, height) =
        ((WIDTH - LEFT - RIGHT) / COLUMNS as f64, (HEIGHT - TOP - BOTTOM) / ROWS as f64);
    let most = counts.cells.iter().copied().fold(0.0, f64::max).max(1.0);
    for (shade, color) in SHADES.iter().enumerate() {
        let mut path = String::new();
        for (at, count) in counts.cells.iter().enumerate() {
            // Few requests are worth seeing: by the square root.
            let level = ((count / most).sqrt() * SHADES.len() as f64).ceil() as usize;
            if *count <= 0.0 || level.clamp(1, SHADES.len()) != shade + 1 {
                continue;
            }
            let x = LEFT + (at / ROWS) as f64 * width;
            let y = HEIGHT - BOTTOM - ((at % ROWS) + 1) as f64 * height;
            let _ = write!(path, "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
        }
        if !path.is_empty() {
            let _ = write!(svg, "<path class=\"shade{shade}\" d=\"{path}\" fill=\"{color}\"/>");
        }
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// Counts of a heatmap, column by column.
struct Grid {
    cells: Vec<f64>,
    low: f64,
    high: f64,
}

impl Grid {
    fn of(history: Part<'_>, seconds: f64) -> Option<Grid> {
        let octave = history.at("/buckets_per_octave").number().max(1.0);
        // (from, to, milliseconds, count)
        let mut dots: Vec<(f64, f64, f64, f64)> = Vec::new();
        let ends: Vec<f64> = history.at("/at_s").list().map(Part::number).collect();
        let overs: Vec<f64> = history.at("/over_s").list().map(Part::number).collect();
        let steps = history.at("/rows").list().filter(|row| row.at("/tags").is_null());
        for row in steps {
            for ((slot, end), over) in row.at("/latency").list().zip(&ends).zip(&overs) {
                for (bucket, count) in buckets(slot) {
                    let ms = 1e3 * ((bucket as f64 + 0.5) / octave).exp2();
                    dots.push((end - over, *end, ms, count));
                }
            }
        }
        let low = dots.iter().map(|dot| dot.2).fold(f64::INFINITY, f64::min) / 1.1;
        let high = dots.iter().map(|dot| dot.2).fold(0.0, f64::max) * 1.1;
        if !low.is_finite() {
            return None;
        }
        // A narrow spread is no reason for tall rows.
        let (low, high) = (low.min(high / 4.0), high);
        let mut cells = vec![0.0; COLUMNS * ROWS];
        let column_of = |second: f64| (second / seconds * COLUMNS as f64).max(0.0);
        for (from, to, ms, count) in dots {
            let share = ((ms / low).log10() / (high / low).log10()).clamp(0.0, 0.999);
            let row = (share * ROWS as f64) as usize;
            let (from, to) = (column_of(from), column_of(to).min(COLUMNS as f64));
            // A slot gives each column what it has of it.
            let (first, last) = (from as usize, (to.ceil() as usize).min(COLUMNS));
            for column in first..last {
                let start = (column as f64).max(from);
                let part = ((column + 1) as f64).min(to) - start;
                cells[column * ROWS + row] += count * (part / (to - from).max(1e-9)).max(0.0);
            }
        }
        Some(Grid { cells, low, high })
    }
}

/// Buckets and counts of a histogram as the record has it.
fn buckets(slot: Part<'_>) -> Vec<(i64, f64)> {
    let flat = if slot.0.is_object() { slot.at("/buckets") } else { slot };
    let numbers: Vec<i64> = flat.list().map(|number| number.0.as_i64().unwrap_or(0)).collect();
    let mut bucket = 0i64;
    let pairs = numbers.chunks_exact(2).map(|pair| {
        bucket = bucket.saturating_add(pair[0]);
        (bucket.clamp(-1000, 1000), pair[1] as f64)
    });
    pairs.collect()
}
