//! Data rows that cannot last: known before the first request.

use plan::{DataOrder, Plan, WhenExhausted};
use report::format;
use schedule;

/// A sentence for each workflow that will find no row left.
pub fn short_of_rows(plan: &Plan) -> Vec<String> {
    let mut words = Vec::new();
    let ends = |set: &&plan::DataSet| {
        set.when_exhausted == WhenExhausted::Stop
            && matches!(set.order, DataOrder::Sequential | DataOrder::UniquePerIteration)
    };
    for set in plan.data.iter().filter(ends) {
        for workflow in set.used_by.iter().filter_map(|number| plan.workflows.get(*number)) {
            let planned = schedule::expected_iterations(&workflow.load).unwrap_or(0);
            if planned > set.rows {
                words.push(format!(
                    "the data set `{}` has {}, and `{}` plans {}: {} will find no row left; add rows, or \
                     let them repeat (`order: sequential`, `when_exhausted: recycle`)",
                    set.name,
                    format::plural(set.rows, "row"),
                    workflow.name,
                    format::plural(planned, "iteration"),
                    format::count(planned - set.rows),
                ));
            }
        }
    }
    words
}
