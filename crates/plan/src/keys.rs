//! Every key of a plan, once: the check, the JSON Schema and the key reference come from here.

mod load;
mod steps;

use crate::shape::{Key, Object, Shape};

pub use load::LOAD;
pub use steps::STEP;

const NAME: Shape = Shape::Text("a name");
const FILE: Shape = Shape::Text("a file name");
const HOST: Shape = Shape::Text("an address");
static STEP_SHAPE: Shape = Shape::Object(&STEP);

/// A function, because a constant that leads back to `STEP` would be defined by itself.
const fn steps() -> Shape {
    Shape::List(&STEP_SHAPE)
}

const TEMPLATES: Shape = Shape::Map(&Shape::Template);

/// The whole file.
pub static PLAN: Object = Object {
    name: "plan",
    doc: "A load test: what virtual users do, how much of it, and what must hold.",
    keys: &[
        Key::new("$schema", Shape::Text("an address"), "The schema, for editors; not read."),
        Key::new("name", NAME, "What the test is called in results.").example("checkout"),
        Key::new("target", Shape::Template, "Base of relative URLs: http, https or `unix:PATH`.")
            .example("http://127.0.0.1:8080"),
        Key::new("defaults", Shape::Object(&DEFAULTS), "Settings for all workflows."),
        Key::new("vars", TEMPLATES, "Variables, set anew at the start of each iteration.")
            .example("{ region: eu, cart: \"${uuid}\" }"),
        Key::new("data", Shape::Map(&DATA_SHAPE), "Data sets: `${data.NAME.COLUMN}`.")
            .example("{ users: { file: users.csv } }"),
        Key::new("metrics", Shape::Map(&METRIC_SHAPE), "Metrics of your own, fed by `record`.")
            .example("{ basket_value: trend }"),
        Key::new(
            "tags",
            TEMPLATES,
            "Tags on everything that is measured; not `name`, `status` and others of each request.",
        ),
        Key::new(
            "setup",
            steps(),
            "Steps that run before all workflows: once, on a fleet at least once.",
        ),
        Key::new(
            "teardown",
            steps(),
            "Steps that run after all workflows: once, on a fleet at least once.",
        ),
        Key::new("workflows", Shape::List(&Shape::Object(&WORKFLOW)), "What virtual users do.")
            .required()
            .example("[ { name: browse, steps: [ { get: / } ] } ]"),
        Key::new("thresholds", Shape::List(&Shape::Object(&THRESHOLD)), "What must hold."),
        Key::new("timeout", Shape::Duration, "The longest time the whole test may take.")
            .example("30m"),
    ],
};

/// `users: users.csv`, or with settings.
static DATA_SHAPE: Shape = Shape::Either(&[FILE, Shape::Object(&DATA)]);

pub static DATA: Object = Object {
    name: "data set",
    doc: "Rows from a file, one per iteration or virtual user.",
    keys: &[
        Key::new("file", FILE, "CSV with a header line, or JSON lines; relative to the plan.")
            .required()
            .example("users.csv"),
        Key::new("format", Shape::Choice(&["csv", "jsonl"]), "What the file contains.")
            .default("by the file's ending"),
        Key::new("delimiter", Shape::Text("a character"), "Between the fields of CSV, or `tab`.")
            .default("`,`; tab for `.tsv`")
            .example("\";\""),
        Key::new("order", Shape::Choice(&ORDERS), "Which row an iteration gets.")
            .default("sequential"),
        Key::new(
            "when_exhausted",
            Shape::Choice(&["recycle", "stop"]),
            "After the last row; not with `order: random`.",
        )
        .default("recycle; stop for unique rows"),
    ],
};

pub const ORDERS: [&str; 4] = ["sequential", "random", "unique-per-vu", "unique-per-iteration"];

const METRIC_KINDS: Shape = Shape::Choice(&["counter", "gauge", "rate", "trend"]);
static METRIC_SHAPE: Shape = Shape::Either(&[METRIC_KINDS, Shape::Object(&METRIC)]);

pub static METRIC: Object = Object {
    name: "metric",
    doc: "A metric of your own.",
    keys: &[
        Key::new("kind", METRIC_KINDS, "What is kept of the values.").required().example("trend"),
        Key::new("time", Shape::Flag, "The values are times in milliseconds (trends).")
            .default("false"),
    ],
};

const VERSION: Shape = Shape::Choice(&["auto", "1.1", "2"]);
const REDIRECTS: Shape = Shape::CountOrOff;

/// The keys that `defaults` and a workflow's `http` have in common.
macro_rules! http_keys {
    ($($more:expr),* $(,)?) => {
        &[
            Key::new("version", VERSION, "HTTP version; `auto` asks the server (ALPN) on TLS.")
                .default("auto"),
            Key::new("timeout", Shape::Duration, "Longest time of a request, redirects included.")
                .default("60s"),
            Key::new("connect_timeout", Shape::Duration, "Longest time to connect.")
                .default("10s"),
            Key::new("redirects", REDIRECTS, "How many redirects are followed; `false`: none.")
                .default("10"),
            Key::new("keep_alive", Shape::Flag, "`false`: a new connection for each request.")
                .default("true"),
            Key::new("cookies", Shape::Choice(&["true", "false", "keep"]),
                "Cookies per iteration; `keep`: for the life of a virtual user; `false`: none.")
                .default("true"),
            Key::new("compression", Shape::Flag, "Ask for compressed answers.").default("false"),
            Key::new("tls", Shape::Object(&TLS), "How TLS connections are made."),
            Key::new("dns_refresh", Shape::Duration, "Look names up again after this time.")
                .default("once, before measuring"),
            Key::new("ip", Shape::Choice(&["any", "v4", "v6"]), "Which addresses are used.")
                .default("any"),
            Key::new("hosts", Shape::Map(&HOST), "Addresses for names, as in /etc/hosts.")
                .example("{ shop.example: 127.0.0.1:8080 }"),
            Key::new("local_addresses", Shape::Many(&HOST), "Source addresses, used in turn.")
                .example("[10.0.0.5, 10.0.0.6]"),
            Key::new(
                "proxy",
                Shape::Text("a URL"),
                "HTTP proxy; `environment`: as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say where the \
                 load runs.",
            )
            .example("http://127.0.0.1:3128"),
            Key::new("warm", Shape::Flag, "Connect before measuring begins.").default("false"),
            Key::new("connections", Shape::Count, "Connections per virtual user and host.")
                .default("6"),
            Key::new("body_limit", Shape::Size, "Longest answer that is read.").default("64MiB"),
            $($more),*
        ]
    };
}

pub static DEFAULTS: Object = Object {
    name: "defaults",
    doc: "Connection settings and headers for all workflows.",
    keys: http_keys![
        Key::new("headers", TEMPLATES, "Headers of every request.")
            .example("{ accept: application/json }"),
    ],
};

pub static HTTP: Object = Object {
    name: "http",
    doc: "Connection settings of one workflow, over those in `defaults`.",
    keys: http_keys![],
};

pub static TLS: Object = Object {
    name: "tls",
    doc: "How TLS connections are made.",
    keys: &[
        Key::new("insecure", Shape::Flag, "Accept any certificate.").default("false"),
        Key::new("ca", FILE, "Certificates to trust besides the system's (PEM)."),
        Key::new("certificate", FILE, "Client certificate (PEM); needs `key`."),
        Key::new("key", FILE, "Key of the client certificate (PEM)."),
        Key::new("server_name", HOST, "Name sent as SNI and checked, without scheme and port."),
    ],
};

const PRIORITIES: Shape = Shape::Choice(&["low", "auto", "normal", "high", "exclusive"]);

pub static WORKFLOW: Object = Object {
    name: "workflow",
    doc: "What one virtual user does in an iteration, and how many do it.",
    keys: &[
        Key::new("name", NAME, "Unique in the plan.").required().example("shop"),
        Key::new("priority", PRIORITIES, "Share of the cores.").default("auto"),
        Key::new("cores", Shape::Count, "Exactly so many cores, instead of a share by priority.")
            .default("what the load needs")
            .example("4"),
        Key::new("depends_on", Shape::Many(&NAME), "Workflows that must end first.")
            .example("[login]"),
        Key::new("load", Shape::Object(&LOAD), "How much load.").default("1 VU, 1 iteration"),
        Key::new("http", Shape::Object(&HTTP), "Connection settings of this workflow."),
        Key::new("headers", TEMPLATES, "Headers of every request of this workflow."),
        Key::new("vars", TEMPLATES, "Variables, over those of the plan."),
        Key::new("tags", TEMPLATES, "Tags on everything measured in this workflow."),
        Key::new(
            "setup",
            steps(),
            "Once, on a fleet at least once, before the load; what it extracts all users see.",
        ),
        Key::new("teardown", steps(), "Once, on a fleet at least once, after the load."),
        Key::new("vu_setup", steps(), "Once per virtual user, before its first iteration."),
        Key::new("vu_teardown", steps(), "Once per virtual user, after its last iteration."),
        Key::new("steps", steps(), "One iteration.").required().example("[ { get: /cart } ]"),
        Key::new("concurrent", Shape::Flag, "Steps without `needs` start together.")
            .default("false"),
        Key::new("on_failure", ON_FAILURE, "After a failed request or check.").default("continue"),
        Key::new("provide", Shape::Map(&PROVIDE_SHAPE), "Values for later workflows.")
            .example("{ token: [shop] }"),
        Key::new("use", Shape::Map(&USE_SHAPE), "Values from earlier workflows: `${use.KEY}`.")
            .example("{ token: [auth] }"),
    ],
};

const ON_FAILURE: Shape = Shape::Choice(&["continue", "end-iteration"]);

static PROVIDE_SHAPE: Shape = Shape::Either(&[Shape::Many(&NAME), Shape::Object(&PROVIDE)]);

pub static PROVIDE: Object = Object {
    name: "provide",
    doc: "A value handed to later workflows.",
    keys: &[
        Key::new("from", NAME, "The variable whose value is handed over.")
            .default("the variable of the same name"),
        Key::new("to", Shape::Many(&NAME), "The workflows that may use it.")
            .required()
            .example("[shop]"),
        Key::new("collect", Shape::Flag, "All shards' values as a JSON list.").default("false"),
    ],
};

static USE_SHAPE: Shape = Shape::Either(&[Shape::Many(&NAME), Shape::Object(&USE)]);

pub static USE: Object = Object {
    name: "use",
    doc: "A value taken from earlier workflows.",
    keys: &[
        Key::new("from", Shape::Many(&NAME), "The workflows that provide it.")
            .required()
            .example("[auth]"),
        Key::new("default", Shape::Template, "Used when nothing was provided."),
    ],
};

pub static THRESHOLD: Object = Object {
    name: "threshold",
    doc: "What must hold over the run, or over every sliding window of it.",
    keys: &[
        Key::new("metric", NAME, "A built-in metric, or one of `metrics`.")
            .required()
            .example("http_req_duration"),
        Key::new("step", NAME, "Only this step."),
        Key::new("workflow", NAME, "Only this workflow."),
        Key::new("stage", NAME, "Only this stage."),
        Key::new(
            "tags",
            Shape::Map(&Shape::Text("a value")),
            "Only what has these tags of the plan.",
        ),
        Key::new("hold", Shape::Text("a condition"), "The condition.")
            .required()
            .example("p(95) < 200ms"),
        Key::new("abort", Shape::Flag, "Stop the test when it is broken.").default("false"),
        Key::new("after", Shape::Duration, "`abort` not before this time.").default("0s"),
        Key::new("over", Shape::Duration, "A sliding window, instead of the whole run.")
            .example("30s"),
        Key::new("exclude", Shape::Many(&NAME), "Stages that do not count.").example("warmup"),
    ],
};
