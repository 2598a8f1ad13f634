//! Data rows that cannot last: known before the first request.

use plan::{DataOrder, Plan, WhenExhausted};
use report::format;

/// A sentence for each workflow that will find no row left.
pub fn short_of_rows(plan: &Plan) -> Vec<String> {
    let mut words = Vec::new();
    let ends = |set: &&plan::DataSet| {
        set.when_exhausted == WhenExhausted::Stop
            && matches!(set.order, DataOrder::Sequential | DataOrder::UniquePerIteration)
    };
    words.extend(plan.data.iter().flat_map(|set| short_of_own_rows(plan, set)));
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

/// A row of its own for each virtual user, and fewer rows than users.
fn short_of_own_rows(plan: &Plan, set: &plan::DataSet) -> Vec<String> {
    if set.order != DataOrder::UniquePerVu || set.when_exhausted != WhenExhausted::Stop {
        return Vec::new();
    }
    let mut words = Vec::new();
    for workflow in set.used_by.iter().filter_map(|number| plan.workflows.get(*number)) {
        let Some(users) = users_of(&workflow.load.executor).filter(|users| *users > set.rows)
        else {
            continue;
        };
        words.push(format!(
            "the data set `{}` has {}, one for each virtual user (`order: unique-per-vu`), and `{}` has {}: {} of \
             them will do nothing; add rows, use fewer users, or let them share (`when_exhausted: recycle`)",
            set.name,
            format::plural(set.rows, "row"),
            workflow.name,
            format::plural(users, "user"),
            format::count(users - set.rows),
        ));
    }
    words
}

/// As many virtual users as there are at once, if the plan says it.
fn users_of(executor: &plan::Executor) -> Option<u64> {
    use plan::Executor;
    match executor {
        Executor::ConstantVus { vus, .. } | Executor::PerVuIterations { vus, .. } => {
            Some(u64::from(*vus))
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            Some(u64::from(*vus).min(*iterations))
        }
        Executor::RampingVus { start, stages, .. } => {
            stages.iter().map(|stage| stage.to).chain([*start]).max().map(u64::from)
        }
        Executor::ConstantArrivalRate { vus, .. } | Executor::RampingArrivalRate { vus, .. } => {
            vus.map(u64::from)
        }
    }
}
