//! `k6/timers` and its global functions: setTimeout, setInterval and their clearing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::function::{Opt, Rest};
use rquickjs::{Coerced, Ctx, Exception, Function, Object, Persistent, Result, Value};

use crate::host::{Completion, Host};

pub const NAMES: &[&str] =
    &["clearInterval", "clearTimeout", "setInterval", "setTimeout", "default"];

/// Timers that are set, by number.
#[derive(Default)]
pub struct Timers {
    last: Cell<u32>,
    set: RefCell<BTreeSet<u32>>,
}

impl Timers {
    fn is_set(&self, id: u32) -> bool {
        self.set.borrow().contains(&id)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Once,
    Repeated,
}

pub fn exports<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    for (name, kind) in [("setTimeout", Kind::Once), ("setInterval", Kind::Repeated)] {
        let host = host.clone();
        let set = move |ctx: Ctx<'js>,
                        callback: Opt<Value<'js>>,
                        delay: Opt<Coerced<f64>>,
                        args: Rest<Value<'js>>| {
            let Some(callback) = callback.0.and_then(Value::into_function) else {
                let message = format!("{name}'s callback isn't a callable function");
                return Err(Exception::throw_type(&ctx, &message));
            };
            let delay = delay.0.map_or(0.0, |delay| delay.0).max(0.0);
            Ok(start(&ctx, &host, kind, callback, delay, args.0))
        };
        exports.set(name, Function::new(ctx.clone(), set)?.with_name(name)?)?;
    }
    for name in ["clearTimeout", "clearInterval"] {
        let host = host.clone();
        let clear = move |id: Opt<Coerced<f64>>| {
            if let Some(id) = id.0 {
                host.cells.timers.set.borrow_mut().remove(&(id.0 as u32));
            }
        };
        exports.set(name, Function::new(ctx.clone(), clear)?.with_name(name)?)?;
    }
    let default = Object::new(ctx.clone())?;
    for name in NAMES.iter().filter(|name| **name != "default") {
        default.set(*name, exports.get::<_, Value<'js>>(*name)?)?;
    }
    exports.set("default", default)?;
    Ok(exports)
}

type Kept = (Persistent<Function<'static>>, Vec<Persistent<Value<'static>>>);

fn start<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    kind: Kind,
    callback: Function<'js>,
    delay_ms: f64,
    args: Vec<Value<'js>>,
) -> u32 {
    let timers = &host.cells.timers;
    let id = timers.last.get() + 1;
    timers.last.set(id);
    timers.set.borrow_mut().insert(id);
    let args = args.into_iter().map(|value| Persistent::save(ctx, value)).collect();
    // A repeated timer of zero length would never let the iteration end.
    let least = if kind == Kind::Repeated { 1.0 } else { 0.0 };
    let delay = Duration::try_from_secs_f64(delay_ms.max(least) / 1e3).unwrap_or(Duration::MAX);
    wait(host.clone(), id, kind, delay, (Persistent::save(ctx, callback), args));
    id
}

fn wait(host: Rc<Host>, id: u32, kind: Kind, delay: Duration, kept: Kept) {
    let owner = host.clone();
    owner.later(async move {
        tokio::time::sleep(delay).await;
        if !host.cells.timers.is_set(id) {
            return None;
        }
        let completion: Completion = Box::new(move |ctx| {
            if !host.cells.timers.is_set(id) {
                return Ok(());
            }
            let function = kept.0.clone().restore(ctx)?;
            let args = kept.1.iter().map(|value| value.clone().restore(ctx));
            let args = Rest(args.collect::<Result<Vec<_>>>()?);
            match kind {
                Kind::Once => {
                    host.cells.timers.set.borrow_mut().remove(&id);
                }
                Kind::Repeated => wait(host, id, kind, delay, kept),
            }
            function.call::<_, ()>((args,))
        });
        Some(completion)
    });
}
