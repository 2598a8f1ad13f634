//! A core's counts on their way into the sum of the run.

use stats::Window;
use stats::aggregate::Aggregate;
use stats::series::SeriesWindow;

use crate::core::Swapped;

/// Takes one core's window; what is left of it, cleared, can be used again.
pub fn take(aggregate: &mut Aggregate, swapped: Swapped) -> (Window, Option<Box<SeriesWindow>>) {
    let Swapped {
        core,
        mut window,
        mut series,
        vus,
        under_way,
        messages,
        samples_dropped,
        cpu,
        loop_lag,
        ..
    } = swapped;
    aggregate.add(&window, series.as_deref());
    window.clear();
    if let Some(series) = &mut series {
        series.clear();
    }
    aggregate.set_vus(core, vus);
    aggregate.set_under_way(core, under_way);
    for (step, kind, message) in messages {
        aggregate.note(step, kind, message.text, message.exchange);
    }
    aggregate.samples_dropped += samples_dropped;
    aggregate.add_loop_lag(&loop_lag.to_sparse());
    aggregate.set_cpu(core, cpu);
    (window, series)
}
