//! `k6`: check, group, sleep, fail, randomSeed.

use base::clock;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rquickjs::function::{Opt, This};
use rquickjs::{Coerced, Ctx, Exception, Function, Object, Result, Value};
use stats::series::{SampleTags, Tags, builtin};

use crate::host::{Host, Phase, Scope};
use crate::runtime::interrupt;
use crate::said::Said;
use crate::tags::{SampleScope, SystemTags};

pub const NAMES: &[&str] = &["check", "fail", "group", "randomSeed", "sleep", "default"];

/// Between the names of groups; no name may hold it.
pub const SEPARATOR: &str = "::";

pub fn exports<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    let held = host.clone();
    let check =
        move |ctx: Ctx<'js>, value: Value<'js>, sets: Opt<Value<'js>>, tags: Opt<Value<'js>>| {
            check(&ctx, &held, &value, sets.0, tags.0)
        };
    exports.set("check", Function::new(ctx.clone(), check)?.with_name("check")?)?;
    let held = host.clone();
    let group = move |ctx: Ctx<'js>, name: Coerced<String>, inner: Opt<Value<'js>>| {
        group(&ctx, &held, &name.0, inner.0)
    };
    exports.set("group", Function::new(ctx.clone(), group)?.with_name("group")?)?;
    let held = host.clone();
    let sleep = move |ctx: Ctx<'js>, seconds: Coerced<f64>| sleep(&ctx, &held, seconds.0);
    exports.set("sleep", Function::new(ctx.clone(), sleep)?.with_name("sleep")?)?;
    let fail = |ctx: Ctx<'js>, message: Opt<Coerced<String>>| -> Result<()> {
        let message = message.0.map_or_else(String::new, |message| message.0);
        Err(Exception::throw_message(&ctx, &message))
    };
    exports.set("fail", Function::new(ctx.clone(), fail)?.with_name("fail")?)?;
    let seed = |ctx: Ctx<'js>, seed: Coerced<f64>| random_seed(&ctx, seed.0);
    exports.set("randomSeed", Function::new(ctx.clone(), seed)?.with_name("randomSeed")?)?;
    let default = Object::new(ctx.clone())?;
    for name in NAMES.iter().filter(|name| **name != "default") {
        default.set(*name, exports.get::<_, Value<'js>>(*name)?)?;
    }
    exports.set("default", default)?;
    Ok(exports)
}

/// Tags of a check: its name over the call's own over those of the moment.
struct CheckScope<'a> {
    inner: Scope<'a>,
    name: Option<&'a str>,
    host: &'a Host,
    own: &'a [(Arc<str>, Arc<str>)],
}

impl Tags for CheckScope<'_> {
    fn tag(&self, key: &str) -> Option<&str> {
        match key {
            "check" if self.name.is_some() => self.name,
            _ => self.inner.tag(key),
        }
    }
}

impl SampleScope for CheckScope<'_> {
    fn sample_tags(&self) -> SampleTags {
        let mut own = self.own.to_vec();
        own.extend(self.name.map(|name| ("check".into(), name.into())));
        self.host.sample_tags(&own)
    }
}

fn check<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    value: &Value<'js>,
    sets: Option<Value<'js>>,
    tags: Option<Value<'js>>,
) -> Result<bool> {
    if host.phase.get() == Phase::Init {
        let message = "check() cannot be used in the init context";
        return Err(Exception::throw_message(ctx, message));
    }
    let Some(sets) = sets.filter(|sets| !sets.is_undefined() && !sets.is_null()) else {
        return Err(Exception::throw_message(ctx, "no checks provided to `check`"));
    };
    let own = match tags {
        Some(tags) => super::tags_of(ctx, &tags)?,
        None => Vec::new(),
    };
    if value.is_promise() {
        let text =
            "check() was given a promise, which has no status and no body; `await` is missing";
        host.warn_once(ctx, Said::Promise, text);
    }
    let Some(sets) = sets.as_object().filter(|sets| !sets.is_function()) else {
        let text = "check() was given no checks, so it checks nothing; its second argument is an object: \
                    check(response, { 'status is 200': (r) => r.status === 200 })";
        host.warn_once(ctx, Said::NoChecks, text);
        return Ok(true);
    };
    let mut all = true;
    for entry in sets.props::<String, Value<'js>>() {
        let (name, predicate) = entry?;
        no_separator(ctx, &name)?;
        let mut thrown = None;
        let holds = match predicate.as_function() {
            Some(function) => match function.call::<_, Value<'js>>((value.clone(),)) {
                Ok(value) if value.is_promise() => {
                    let message = "check() does not take async functions; use the `check` of the \
                                   jslib k6-utils, which does";
                    return Err(Exception::throw_message(ctx, message));
                }
                Ok(value) => truthy(&value),
                Err(error) => {
                    thrown = Some(error);
                    false
                }
            },
            None => truthy(&predicate),
        };
        if host.fiber.is_cancelled() {
            return Err(thrown.unwrap_or_else(|| interrupt(ctx, "interrupted")));
        }
        let tagged = host.system_tags().has(SystemTags::CHECK);
        let scope = CheckScope {
            inner: host.scope_with(&own),
            name: tagged.then_some(&name),
            host,
            own: &own,
        };
        clock::now();
        host.recorder().check(&host.group.borrow(), &name, holds, &scope);
        if let Some(error) = thrown {
            return Err(error);
        }
        all &= holds;
    }
    Ok(all)
}

/// JavaScript's own idea of what is true.
pub fn truthy(value: &Value<'_>) -> bool {
    if let Some(flag) = value.as_bool() {
        return flag;
    }
    value.get::<Coerced<bool>>().is_ok_and(|flag| flag.0)
}

fn is_async(function: &Function<'_>) -> bool {
    let constructor = function.get::<_, Object<'_>>("constructor");
    let name = constructor.and_then(|constructor| constructor.get::<_, String>("name"));
    name.is_ok_and(|name| name == "AsyncFunction")
}

fn no_separator(ctx: &Ctx<'_>, name: &str) -> Result<()> {
    if name.contains(SEPARATOR) {
        let message = "group and check names may not contain '::'";
        return Err(Exception::throw_message(ctx, message));
    }
    Ok(())
}

fn group<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    name: &str,
    inner: Option<Value<'js>>,
) -> Result<Value<'js>> {
    if host.phase.get() == Phase::Init {
        let message = "group() cannot be used in the init context";
        return Err(Exception::throw_message(ctx, message));
    }
    let Some(inner) = inner.and_then(Value::into_function) else {
        let message = "group() requires a callback as a second argument";
        return Err(Exception::throw_message(ctx, message));
    };
    if is_async(&inner) {
        let message = "group() does not take async functions: what they wait for would be counted \
                       outside of the group; leave `async` out and request with http.get(), or give the requests of \
                       the function a tag: { tags: { part: 'search' } }";
        return Err(Exception::throw_message(ctx, message));
    }
    no_separator(ctx, name)?;
    let outer = host.group.borrow().clone();
    let path = format!("{outer}{SEPARATOR}{name}");
    enter(host, &path);
    let begun = clock::now();
    host.recorder().group(&path, &host.scope());
    let result = inner.call::<_, Value<'js>>((This(Value::new_undefined(ctx.clone())),));
    let duration_ms = clock::now().nanos_since(begun) as f64 / 1e6;
    if !host.fiber.is_cancelled() {
        host.recorder().record(builtin::GROUP_DURATION, duration_ms, &host.scope());
    }
    enter(host, &outer);
    result
}

/// Makes a path the current group.
pub fn enter(host: &Host, path: &str) {
    path.clone_into(&mut host.group.borrow_mut());
    if host.system_tags().has(SystemTags::GROUP) {
        host.tags.borrow_mut().set("group", path);
    }
}

/// Shorter ones are nobody's mistake of a unit.
const LONG_SLEEP_S: f64 = 60.0;

fn sleep(ctx: &Ctx<'_>, host: &Host, seconds: f64) -> Result<()> {
    if seconds.is_nan() {
        let text =
            "sleep() was given what is no number, and does not sleep; it takes seconds: sleep(1.5)";
        host.warn_once(ctx, Said::NoNumber, text);
    }
    if seconds.is_nan() || seconds <= 0.0 {
        return Ok(());
    }
    if seconds > LONG_SLEEP_S
        && let Some(left) = host.setup.environment.time_left()
        && seconds > left.as_secs_f64()
    {
        let text = format!(
            "a sleep of {seconds} s is longer than the rest of the test ({:.0} s), so that its iteration cannot end; \
             sleep() takes seconds",
            left.as_secs_f64()
        );
        host.warn_once(ctx, Said::LongSleep, &text);
    }
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let slept = host.wait(tokio::time::sleep(wait));
    clock::now();
    slept.map_err(|_| interrupt(ctx, "interrupted"))
}

/// Makes `Math.random` repeatable from here on, in this virtual user.
fn random_seed(ctx: &Ctx<'_>, seed: f64) -> Result<()> {
    let generator = std::cell::RefCell::new(fastrand::Rng::with_seed(seed.to_bits()));
    let random = Function::new(ctx.clone(), move || generator.borrow_mut().f64())?;
    ctx.globals().get::<_, Object<'_>>("Math")?.set("random", random.with_name("random")?)
}
