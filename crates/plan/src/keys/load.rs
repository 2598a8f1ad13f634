//! Keys of `load`.

use crate::shape::{Key, Object, Shape};

pub const EXECUTORS: [&str; 6] = [
    "constant-vus",
    "ramping-vus",
    "per-vu-iterations",
    "shared-iterations",
    "constant-arrival-rate",
    "ramping-arrival-rate",
];

pub static LOAD: Object = Object {
    name: "load",
    doc: "How many virtual users or iterations, and for how long.",
    keys: &[
        Key::new("executor", Shape::Choice(&EXECUTORS), "How load is made.")
            .default("what the other keys tell")
            .example("ramping-vus"),
        Key::new(
            "vus",
            Shape::Count,
            "Virtual users; of a rate those ready at the start, and the most unless `max_vus` is.",
        )
        .example("10"),
        Key::new("start_vus", Shape::Count, "Virtual users before the first stage.").default("0"),
        Key::new("duration", Shape::Duration, "How long.").example("30s"),
        Key::new("stages", Shape::List(&Shape::Object(&STAGE)), "Ramps, one after another.")
            .example("[ { to: 50, over: 10s } ]"),
        Key::new("iterations", Shape::Count, "How many iterations, per user or shared by all.")
            .default("1"),
        Key::new("max_duration", Shape::Duration, "End even if iterations are left.")
            .default("10m"),
        Key::new("rate", Shape::Rate, "Iterations started per time.").example("200/s"),
        Key::new("start_rate", Shape::Rate, "Rate before the first stage.").default("0/s"),
        Key::new("max_vus", Shape::Count, "At most so many virtual users for a rate."),
        Key::new("start_after", Shape::Duration, "Wait before the first iteration.").default("0s"),
        Key::new("graceful_stop", Shape::Duration, "Time for running iterations at the end.")
            .default("30s"),
        Key::new("graceful_ramp_down", Shape::Duration, "The same, when a stage ramps down.")
            .default("30s"),
        Key::new("warmup", Shape::Duration, "The first part, tagged `stage: warmup`."),
        Key::new("pacing", Shape::TimeSpan, "Shortest time between a user's iteration starts.")
            .example("1s..2s"),
    ],
};

pub static STAGE: Object = Object {
    name: "stage",
    doc: "A ramp from the stage before to `to`.",
    keys: &[
        Key::new("to", Shape::Text("a number of users or a rate"), "Users, or a rate.")
            .required()
            .example("50"),
        Key::new("over", Shape::Duration, "How long the ramp takes.").required().example("10s"),
        Key::new("name", Shape::Text("a name"), "The `stage` tag.").default("stage-1, stage-2 ..."),
    ],
};
