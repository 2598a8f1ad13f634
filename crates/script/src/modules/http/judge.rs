//! Which statuses count as success: `expectedStatuses`, `setResponseCallback`.

use std::rc::Rc;

use rquickjs::class::{JsClass, Readable, Trace, Tracer};
use rquickjs::function::{Constructor, Rest};
use rquickjs::{Class, Ctx, Exception, JsLifetime, Result, Value};

use crate::modules::bytes::refuse;

/// Decides `http_req_failed` and the tag `expected_response`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Judge {
    /// 200 to 399.
    #[default]
    Usual,
    /// Nobody asks: there is neither metric nor tag.
    Nobody,
    Ranges(Rc<[(i64, i64)]>),
}

impl Judge {
    pub fn expects(&self, status: u16) -> Option<bool> {
        let status = i64::from(status);
        match self {
            Judge::Usual => Some((200..400).contains(&status)),
            Judge::Nobody => None,
            Judge::Ranges(ranges) => {
                Some(ranges.iter().any(|(from, to)| (*from..=*to).contains(&status)))
            }
        }
    }

    /// A callback that a script gave; `None`: it is none.
    pub fn from_js(value: &Value<'_>) -> Option<Judge> {
        if value.is_null() || value.is_undefined() {
            return Some(Judge::Nobody);
        }
        let class = Class::<Expected>::from_object(value.as_object()?)?;
        let ranges = class.borrow().0.clone();
        Some(Judge::Ranges(ranges))
    }
}

/// What `expectedStatuses()` returns.
pub struct Expected(Rc<[(i64, i64)]>);

// SAFETY: holds no JavaScript values.
unsafe impl<'js> JsLifetime<'js> for Expected {
    type Changed<'to> = Expected;
}

impl<'js> Trace<'js> for Expected {
    fn trace<'a>(&self, _tracer: Tracer<'a, 'js>) {}
}

impl<'js> JsClass<'js> for Expected {
    const NAME: &'static str = "ExpectedStatuses";
    type Mutable = Readable;

    fn constructor(_ctx: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }
}

pub fn expected_statuses<'js>(
    ctx: Ctx<'js>,
    args: Rest<Value<'js>>,
) -> Result<Class<'js, Expected>> {
    if args.0.is_empty() {
        return Err(refuse(&ctx, "expectedStatuses needs at least one status or range"));
    }
    let mut ranges = Vec::new();
    for (index, arg) in args.0.iter().enumerate() {
        if arg.is_null() || arg.is_undefined() {
            let message = "expectedStatuses: undefined or null is no status";
            return Err(Exception::throw_type(&ctx, message));
        }
        let range = match (arg.as_int(), arg.as_object()) {
            (Some(status), _) => Some((i64::from(status), i64::from(status))),
            (None, Some(object)) => {
                let bound = |key: &str| object.get::<_, Option<i32>>(key).ok().flatten();
                bound("min").zip(bound("max")).map(|(min, max)| (min.into(), max.into()))
            }
            (None, None) => None,
        };
        let Some(range) = range else {
            let help = match arg.is_array() {
                true => "; a list is written without its brackets: expectedStatuses(200, 404)",
                false => "",
            };
            let message = format!(
                "argument number {} to expectedStatuses was neither an integer nor an object like \
                 {{min:100, max:329}}{help}",
                index + 1
            );
            return Err(refuse(&ctx, &message));
        };
        ranges.push(range);
    }
    Class::instance(ctx, Expected(ranges.into()))
}
