//! Keys of steps and checks.

use super::{FILE, NAME, ON_FAILURE, REDIRECTS, TEMPLATES, steps};
use crate::shape::{Key, Limit, Object, Shape};

const URL: Shape = Shape::Template;
const PATTERN: Shape = Shape::Text("a regular expression");
const JSON_PATH: Shape = Shape::Text("a JSONPath");
const CONDITION: Shape = Shape::Template;

pub static STEP: Object = Object {
    name: "step",
    doc: "A request, or one of `think`, `set`, `record`, `group`, `repeat`, `choose`.",
    keys: &[
        Key::new("name", NAME, "Unique in the workflow.").default("the method and URL"),
        Key::new("needs", Shape::Many(&NAME), "Steps of the same list that must end first.")
            .default("the step above"),
        Key::new("when", CONDITION, "Skip the step unless this is true.")
            .example("\"${role} == 'admin'\""),
        Key::new("get", URL, "GET this URL.").example("/cart"),
        Key::new("post", URL, "POST to this URL."),
        Key::new("put", URL, "PUT to this URL."),
        Key::new("patch", URL, "PATCH this URL."),
        Key::new("delete", URL, "DELETE this URL."),
        Key::new("head", URL, "HEAD of this URL."),
        Key::new("options", URL, "OPTIONS of this URL."),
        Key::new("request", Shape::Object(&REQUEST), "A request with any method."),
        Key::new("query", TEMPLATES, "Query parameters.").example("{ page: 2 }"),
        Key::new("headers", TEMPLATES, "Headers of this request."),
        Key::new("json", Shape::Any, "Body as JSON.").example("{ user: \"${name}\" }"),
        Key::new("form", TEMPLATES, "Body as a form."),
        Key::new("multipart", Shape::Map(&PART_SHAPE), "Body in parts, with files."),
        Key::new("body", Shape::Template, "Body as text."),
        Key::new("file", FILE, "Body from a file, as it is."),
        Key::new(
            "render",
            Shape::Flag,
            "Fill in the references of `file`; `false`: `${...}` is meant.",
        )
        .default("false"),
        Key::new("auth", Shape::Object(&AUTH), "Authentication."),
        Key::new("timeout", Shape::Duration, "Longest time of this request."),
        Key::new("redirects", REDIRECTS, "How many redirects are followed; `false`: none."),
        Key::new("tags", TEMPLATES, "Tags on what this request measures."),
        Key::new("extract", Shape::Map(&EXTRACT_SHAPE), "Variables from the response.")
            .example("{ token: $.token }"),
        Key::new("check", Shape::Many(&Shape::Object(&CHECK)), "What the response must be.")
            .example("[ { status: 200 } ]"),
        Key::new("record", TEMPLATES, "Values for metrics of your own.")
            .example("{ basket_value: \"${total}\" }"),
        Key::new("on_failure", ON_FAILURE, "After a failed request or check."),
        Key::new("think", Shape::TimeSpan, "Wait.").example("100ms..300ms"),
        Key::new("set", TEMPLATES, "Set variables.").example("{ page: \"${random.int(1, 9)}\" }"),
        Key::new("group", NAME, "A named group of `steps`."),
        Key::new("repeat", Shape::Count, "Run `steps` so many times."),
        Key::new("until", CONDITION, "End `repeat` early when this is true."),
        Key::new("choose", Shape::List(&Shape::Object(&BRANCH)), "One branch, drawn by weight.")
            .example("[ { weight: 3, steps: [ { get: /a } ] } ]"),
        Key::new("steps", steps(), "Steps of a `group` or `repeat`."),
        Key::new("concurrent", Shape::Flag, "Steps of a group start together.").default("false"),
    ],
};

pub static REQUEST: Object = Object {
    name: "request",
    doc: "A request with any method.",
    keys: &[
        Key::new("method", Shape::Text("a method"), "The method.").required().example("PURGE"),
        Key::new("url", URL, "The URL.").required().example("/cart"),
    ],
};

pub static BRANCH: Object = Object {
    name: "branch",
    doc: "One of the branches of `choose`.",
    keys: &[
        Key::new("weight", Shape::Count, "How often, compared with the others.").default("1"),
        Key::new("steps", steps(), "What is done.").required().example("[ { get: /a } ]"),
    ],
};

static PART_SHAPE: Shape = Shape::Either(&[Shape::Template, Shape::Object(&PART)]);

pub static PART: Object = Object {
    name: "part",
    doc: "A part of a multipart body: `text` or `file`.",
    keys: &[
        Key::new("text", Shape::Template, "The part's text."),
        Key::new("file", FILE, "The part's file, as it is."),
        Key::new("content_type", Shape::Text("a content type"), "The part's content type."),
    ],
};

pub static AUTH: Object = Object {
    name: "auth",
    doc: "Authentication: `basic` or `bearer`.",
    keys: &[
        Key::new("basic", Shape::Object(&BASIC), "User and password."),
        Key::new("bearer", Shape::Template, "A token.").example("${token}"),
    ],
};

pub static BASIC: Object = Object {
    name: "basic",
    doc: "User and password.",
    keys: &[
        Key::new("user", Shape::Template, "The user.").required().example("alice"),
        Key::new("password", Shape::Template, "The password.").required().example("secret"),
    ],
};

const PICKS: [&str; 5] = ["first", "last", "random", "all", "count"];

static EXTRACT_SHAPE: Shape = Shape::Either(&[JSON_PATH, Shape::Object(&EXTRACT)]);

pub static EXTRACT: Object = Object {
    name: "extractor",
    doc: "Where a value is found: one of `json`, `regex`, `header`, `cookie`.",
    keys: &[
        Key::new("json", JSON_PATH, "JSONPath (RFC 9535) in the body.").example("$.token"),
        Key::new("regex", PATTERN, "In the body.").example("id=([0-9]+)"),
        Key::new("group", Shape::Count, "Which group of the regex.")
            .default("1, or 0 if it has none"),
        Key::new("header", Shape::Text("a header"), "A response header."),
        Key::new("cookie", Shape::Text("a cookie"), "A cookie set by the response."),
        Key::new("match", Shape::Choice(&PICKS), "Which of several matches; a list; their number.")
            .default("first"),
        Key::new("optional", Shape::Flag, "No match leaves the variable unset, and is no failure.")
            .default("false, or true if every reference has a default"),
    ],
};

pub static CHECK: Object = Object {
    name: "check",
    doc: "One of `status`, `json`, `body`, `header`, `latency`.",
    keys: &[
        Key::new("name", NAME, "What the check is called in results."),
        Key::new("status", Shape::Many(&Shape::Status), "Statuses that are good.")
            .example("[200, 2xx]"),
        Key::new("json", JSON_PATH, "JSONPath whose first match is tested.").example("$.token"),
        Key::new("body", Shape::Object(&BODY_TEST), "The body is tested.")
            .example("{ contains: items }"),
        Key::new("header", Shape::Object(&HEADER_TEST), "A header is tested."),
        Key::new("latency", Shape::Limit(Limit::Duration), "Time from the intended start.")
            .example("< 250ms"),
        EXISTS,
        EQUALS,
        CONTAINS,
        MATCHES,
        IS,
    ],
};

const EXISTS: Key = Key::new("exists", Shape::Flag, "There is such a value, or there is none.");
const EQUALS: Key = Key::new("equals", Shape::Template, "The value is this.");
const CONTAINS: Key = Key::new("contains", Shape::Template, "The value contains this.");
const MATCHES: Key = Key::new("matches", PATTERN, "The value matches this.");
const IS: Key =
    Key::new("is", Shape::Limit(Limit::Number), "The value compares so.").example("> 3");

pub static BODY_TEST: Object = Object {
    name: "body check",
    doc: "A test of the body.",
    keys: &[
        CONTAINS,
        MATCHES,
        EQUALS,
        Key::new("size", Shape::Limit(Limit::Size), "Its length.").example("< 10KB"),
    ],
};

pub static HEADER_TEST: Object = Object {
    name: "header check",
    doc: "A test of a header.",
    keys: &[
        Key::new("name", Shape::Text("a header"), "Which header.")
            .required()
            .example("content-type"),
        EXISTS,
        EQUALS,
        CONTAINS,
        MATCHES,
        IS,
    ],
};
