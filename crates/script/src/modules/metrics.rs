//! `k6/metrics`: Counter, Gauge, Rate and Trend.

use base::clock;
use std::rc::Rc;

use rquickjs::function::{Constructor, Opt};
use rquickjs::{Coerced, Ctx, Exception, Function, Object, Result, Value};
use stats::series::{Contains, MetricId, MetricKind, SeriesLayout};

use crate::host::{Host, Phase};
use crate::log::{Level, Line};

pub const NAMES: &[&str] = &["Counter", "Gauge", "Rate", "Trend", "default"];

pub fn exports<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    let default = Object::new(ctx.clone())?;
    let kinds = [
        ("Counter", MetricKind::Counter),
        ("Gauge", MetricKind::Gauge),
        ("Rate", MetricKind::Rate),
        ("Trend", MetricKind::Trend),
    ];
    for (name, kind) in kinds {
        let host = host.clone();
        // It must hold no JavaScript object: the collector does not see into it.
        let make = move |ctx: Ctx<'js>, name: Opt<Value<'js>>, is_time: Opt<Value<'js>>| {
            declare(&ctx, &host, kind, name.0, is_time.0)
        };
        let constructor = Constructor::new_prototype(ctx, Object::new(ctx.clone())?, make)?;
        constructor.set_name(name)?;
        exports.set(name, constructor.clone())?;
        default.set(name, constructor)?;
    }
    exports.set("default", default)?;
    Ok(exports)
}

fn declare<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    kind: MetricKind,
    name: Option<Value<'js>>,
    is_time: Option<Value<'js>>,
) -> Result<Object<'js>> {
    if host.phase.get() != Phase::Init {
        let message = "metrics must be declared in the init context";
        return Err(Exception::throw_message(ctx, message));
    }
    let name = name.map(|name| name.get::<Coerced<String>>()).transpose()?;
    let name = name.map_or_else(String::new, |name| name.0);
    let contains = match is_time.is_some_and(|value| super::core::truthy(&value)) {
        true => Contains::Time,
        false => Contains::Default,
    };
    let id = match host.script().layout() {
        None => {
            let id = host.script().with_declared(|layout| layout.metric(&name, kind, contains));
            id.map_err(|error| Exception::throw_message(ctx, &error.to_string()))?
        }
        Some(layout) => known(ctx, layout, &name, kind, contains)?,
    };
    let metric = Object::new(ctx.clone())?;
    metric.set("name", name.as_str())?;
    let held = host.clone();
    let add = move |ctx: Ctx<'js>, value: Opt<Value<'js>>, tags: Opt<Value<'js>>| {
        add(&ctx, &held, id, &name, value.0.as_ref(), tags.0.as_ref())
    };
    metric.set("add", Function::new(ctx.clone(), add)?.with_name("add")?)?;
    Ok(metric)
}

/// A metric of a run that has begun: all of them were seen when the script was first looked at.
fn known(
    ctx: &Ctx<'_>,
    layout: &SeriesLayout,
    name: &str,
    kind: MetricKind,
    contains: Contains,
) -> Result<MetricId> {
    let id = layout.find(name).filter(|id| {
        let metric = layout.get(*id);
        metric.kind == kind && metric.contains == contains
    });
    id.ok_or_else(|| {
        let message = format!(
            "metric `{name}` was not declared when the script was first read: declare the same \
             metrics in every run of the init code, whatever __VU is"
        );
        Exception::throw_message(ctx, &message)
    })
}

fn add<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    metric: MetricId,
    name: &str,
    value: Option<&Value<'js>>,
    tags: Option<&Value<'js>>,
) -> Result<bool> {
    if host.phase.get() == Phase::Init {
        let message = "metrics can not be added to in the init context";
        return Err(Exception::throw_message(ctx, message));
    }
    let number = match value {
        Some(value) => match (value.as_number(), value.as_bool()) {
            (Some(number), _) => Some(number),
            (None, Some(flag)) => Some(f64::from(u8::from(flag))),
            // An array is something, and something is true, says k6.
            (None, None) if value.is_array() => Some(1.0),
            (None, None) if value.is_null() || value.is_undefined() => None,
            (None, None) => value.get::<Coerced<f64>>().ok().map(|number| number.0),
        },
        None => None,
    };
    let Some(number) = number.filter(|number| !number.is_nan()) else {
        let shown = value.map_or_else(|| "undefined".to_owned(), crate::thrown::describe);
        let message = format!(
            "'{shown}' is an invalid value for metric '{name}', a number or a boolean value is \
             expected"
        );
        if host.script().rules().throw {
            return Err(Exception::throw_message(ctx, &message));
        }
        host.log(Line::new(Level::Warning, message));
        return Ok(false);
    };
    let own = match tags {
        Some(tags) => super::tags_of(ctx, tags)?,
        None => Vec::new(),
    };
    clock::now();
    host.recorder().record(metric, number, &host.scope_with(&own));
    Ok(true)
}
