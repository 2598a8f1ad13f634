//! What a script finds without importing it.

use std::rc::Rc;

use rquickjs::function::Opt;
use rquickjs::object::{Accessor, Property};
use rquickjs::{Coerced, Ctx, Exception, Function, Module, Object, Result, Value};

use super::bytes::buffer_from_bytes;
use super::{console, crypto, text, timers};
use crate::host::{Host, Phase};

pub fn install<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<()> {
    let globals = ctx.globals();
    globals.set("console", console::object(ctx, host)?)?;
    globals.set("global", globals.clone())?;
    globals.set("__VU", host.setup.id_in_test as f64)?;
    let held = host.clone();
    lazily(ctx, &globals, "__ENV", move |ctx| environment(ctx, &held))?;
    let held = host.clone();
    let open = move |ctx: Ctx<'js>, path: Opt<Value<'js>>, mode: Opt<Value<'js>>| {
        open_file(&ctx, &held, path.0, mode.0)
    };
    globals.set("open", Function::new(ctx.clone(), open)?.with_name("open")?)?;
    let timers = timers::exports(ctx, host)?;
    for name in timers::NAMES.iter().filter(|name| **name != "default") {
        globals.set(*name, timers.get::<_, Value<'js>>(*name)?)?;
    }
    for name in ["TextEncoder", "TextDecoder"] {
        lazily(ctx, &globals, name, move |ctx| {
            text::install(ctx)?;
            ctx.globals().get(name)
        })?;
    }
    lazily(ctx, &globals, "crypto", |ctx| {
        crypto::install_global(ctx)?;
        ctx.globals().get("crypto")
    })?;
    install_require(ctx, host)?;
    install_commonjs(ctx, host)
}

/// A global that is made when it is first used: most virtual users never look.
fn lazily<'js>(
    ctx: &Ctx<'js>,
    globals: &Object<'js>,
    name: &'static str,
    make: impl Fn(&Ctx<'js>) -> Result<Value<'js>> + 'js,
) -> Result<()> {
    let get = move |ctx: Ctx<'js>| {
        let value = make(&ctx)?;
        let property = Property::from(value.clone()).writable().configurable().enumerable();
        ctx.globals().prop(name, property)?;
        Ok::<_, rquickjs::Error>(value)
    };
    let set = move |ctx: Ctx<'js>, value: Value<'js>| {
        ctx.globals().prop(name, Property::from(value).writable().configurable().enumerable())
    };
    let _ = ctx;
    globals.prop(name, Accessor::new(get, set).configurable().enumerable())
}

fn environment<'js>(ctx: &Ctx<'js>, host: &Host) -> Result<Value<'js>> {
    let object = Object::new(ctx.clone())?;
    for (key, value) in &host.script().env {
        object.set(key.as_str(), value.as_str())?;
    }
    if host.phase.get() != Phase::Init {
        set_scenario_environment(&object, host)?;
    }
    Ok(object.into_value())
}

/// A scenario's own environment holds from its first iteration on.
pub fn set_scenario_environment(object: &Object<'_>, host: &Host) -> Result<()> {
    for (key, value) in &host.setup.scenario.env {
        object.set(key.as_str(), value.as_str())?;
    }
    Ok(())
}

/// Called once, before the first iteration.
pub fn begin_iterations(ctx: &Ctx<'_>, host: &Host) -> Result<()> {
    if !host.setup.scenario.env.is_empty() {
        let env: Object<'_> = ctx.globals().get("__ENV")?;
        set_scenario_environment(&env, host)?;
    }
    Ok(())
}

/// The module whose code is running.
pub fn calling_module(ctx: &Ctx<'_>, host: &Host) -> String {
    let name = (0..8).filter_map(|level| ctx.script_or_module_name(level));
    let names = name.filter_map(|atom| atom.to_string().ok());
    let mut files = names.filter(|name| name.contains("://"));
    files.next().unwrap_or_else(|| host.script().sources.entry().to_owned())
}

fn open_file<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    path: Option<Value<'js>>,
    mode: Option<Value<'js>>,
) -> Result<Value<'js>> {
    if host.phase.get() != Phase::Init {
        let message = "the \"open\" function is only available in the init stage (i.e. the global \
                       scope): call it outside of the functions that are exported";
        return Err(Exception::throw_message(ctx, message));
    }
    let text = |value: Option<Value<'js>>| {
        value.and_then(|value| value.get::<Coerced<String>>().ok()).map(|text| text.0)
    };
    let path = text(path.filter(|path| !path.is_undefined())).unwrap_or_default();
    if path.is_empty() {
        return Err(Exception::throw_message(ctx, "open() can't be used with an empty filename"));
    }
    let from = calling_module(ctx, host);
    let bytes = host.script().sources.file(&from, &path);
    let bytes = bytes.map_err(|error| Exception::throw_message(ctx, &error.to_string()))?;
    match text(mode).as_deref() {
        Some("b") => buffer_from_bytes(ctx, bytes.to_vec()),
        _ => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(rquickjs::String::from_str(ctx.clone(), &text)?.into_value())
        }
    }
}

/// What CommonJS files and `require` call; made when one of them does.
fn install_commonjs<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<()> {
    for name in ["__volley_commonjs", "__volley_require", "__volley_deliver"] {
        let held = host.clone();
        let get = move |ctx: Ctx<'js>| {
            define_commonjs(&ctx, &held)?;
            ctx.globals().get::<_, Value<'js>>(name)
        };
        ctx.globals().prop(name, Accessor::from(get).configurable())?;
    }
    Ok(())
}

/// `typeof require` is a function in k6, whatever the kind of the file.
fn install_require<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<()> {
    let held = host.clone();
    let require = move |ctx: Ctx<'js>, name: Value<'js>| {
        let from = calling_module(&ctx, &held);
        let require: Function<'js> = ctx.globals().get("__volley_require")?;
        require.call::<_, Value<'js>>((from, name))
    };
    ctx.globals().set("require", Function::new(ctx.clone(), require)?.with_name("require")?)
}

fn define_commonjs<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<()> {
    let held = host.clone();
    let resolve = move |ctx: Ctx<'js>, from: String, name: String, running: Vec<String>| {
        if held.phase.get() != Phase::Init {
            let message = "require() can only be used in the init stage";
            return Err(Exception::throw_message(&ctx, message));
        }
        let resolved = held.script().sources.resolve_require(&from, &name, &running);
        resolved.map_err(|error| Exception::throw_reference(&ctx, &error.to_string()))
    };
    let count = std::cell::Cell::new(0);
    let evaluate = move |ctx: Ctx<'js>, name: String| {
        count.set(count.get() + 1);
        let code = crate::source::require_module(&name);
        let name = format!("volley:require:{}", count.get());
        // No job may run here: what is being evaluated now would be evaluated again.
        let (_, promise) = Module::declare(ctx.clone(), name, code)?.eval()?;
        let pending = || Exception::throw_message(&ctx, "require() of a module that awaits");
        promise.result::<()>().unwrap_or_else(|| Err(pending()))
    };
    let resolve = Function::new(ctx.clone(), resolve)?;
    let evaluate = Function::new(ctx.clone(), evaluate)?;
    let define: Function<'js> = ctx.eval(crate::source::COMMONJS_RUNTIME)?;
    define.call((resolve, evaluate))
}
