//! `k6/execution`: where the script is, which virtual user runs it, and how the test goes.

use std::rc::Rc;

use rquickjs::function::Opt;
use rquickjs::{Coerced, Ctx, Exception, Function, Object, Result, Value};

use crate::host::{Host, Phase};
use crate::loader;
use crate::runtime::interrupt;
use crate::thrown::ThrownKind;

pub const NAMES: &[&str] = &["instance", "scenario", "test", "vu", "default"];

pub const GLUE: (&str, &str) = ("volley:execution", include_str!("execution.js"));

pub fn exports<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let make: Function<'js> = loader::glue(ctx, host, GLUE.0)?;
    let default: Object<'js> = make.call((natives(ctx, host)?,))?;
    let exports = Object::new(ctx.clone())?;
    for name in NAMES.iter().filter(|name| **name != "default") {
        exports.set(*name, default.get::<_, Value<'js>>(*name)?)?;
    }
    exports.set("default", default)?;
    Ok(exports)
}

/// The functions that the glue is made from.
fn natives<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    let held = host.clone();
    let fact = move |ctx: Ctx<'js>, name: String| fact(&ctx, &held, &name);
    natives.set("fact", Function::new(ctx.clone(), fact)?)?;

    for (name, of) in [("tag", Which::Tags), ("datum", Which::Metadata)] {
        let held = host.clone();
        let get = move |key: String| of.set(&held).borrow().get(&key).map(str::to_owned);
        natives.set(name, Function::new(ctx.clone(), get)?)?;
    }
    for (name, of) in [("setTag", Which::Tags), ("setDatum", Which::Metadata)] {
        let held = host.clone();
        let set = move |ctx: Ctx<'js>, key: String, value: Value<'js>| {
            let text = super::tag_value(&ctx, &key, &value)?;
            of.set(&held).borrow_mut().set(&key, &text);
            Ok::<_, rquickjs::Error>(true)
        };
        natives.set(name, Function::new(ctx.clone(), set)?)?;
    }
    for (name, of) in [("removeTag", Which::Tags), ("removeDatum", Which::Metadata)] {
        let held = host.clone();
        let remove = move |key: String| of.set(&held).borrow_mut().remove(&key);
        natives.set(name, Function::new(ctx.clone(), remove)?)?;
    }
    for (name, of) in [("tagKeys", Which::Tags), ("dataKeys", Which::Metadata)] {
        let held = host.clone();
        let keys = move || -> Vec<String> {
            of.set(&held).borrow().iter().map(|(key, _)| key.to_string()).collect()
        };
        natives.set(name, Function::new(ctx.clone(), keys)?)?;
    }

    let held = host.clone();
    let abort = move |ctx: Ctx<'js>, reason: Opt<Coerced<String>>| -> Result<()> {
        let reason = reason.0.map_or_else(
            || "test aborted".to_owned(),
            |reason| format!("test aborted: {}", reason.0),
        );
        *held.aborted.borrow_mut() = Some((reason.clone(), ThrownKind::Abort));
        held.setup.environment.abort(&reason);
        Err(interrupt(&ctx, &reason))
    };
    natives.set("abort", Function::new(ctx.clone(), abort)?)?;
    let held = host.clone();
    let fail = move |reason: Opt<Coerced<String>>| {
        let reason = reason.0.map_or_else(String::new, |reason| reason.0);
        held.setup.environment.mark_failed(&reason);
    };
    natives.set("fail", Function::new(ctx.clone(), fail)?)?;
    let held = host.clone();
    let options = move |ctx: Ctx<'js>| {
        if held.phase.get() == Phase::Init {
            let message = "the options are not known in the init context";
            return Err(Exception::throw_message(&ctx, message));
        }
        ctx.json_parse(held.script().rules().options_json.as_bytes())
    };
    natives.set("options", Function::new(ctx.clone(), options)?)?;
    Ok(natives)
}

#[derive(Clone, Copy)]
enum Which {
    Tags,
    Metadata,
}

impl Which {
    fn set(self, host: &Host) -> &std::cell::RefCell<crate::tags::TagSet> {
        match self {
            Which::Tags => &host.tags,
            Which::Metadata => &host.metadata,
        }
    }
}

fn fact<'js>(ctx: &Ctx<'js>, host: &Host, name: &str) -> Result<Value<'js>> {
    let refuse = |what: &str| {
        let message = format!("getting {what} information in the init context is not supported");
        Exception::throw_message(ctx, &message)
    };
    let setup = &host.setup;
    if host.phase.get() == Phase::Init {
        let what = name.split('.').next().unwrap_or_default();
        return Err(refuse(if what == "vu" { "VU" } else { what }));
    }
    if name.starts_with("scenario.") && host.phase.get() != Phase::Iteration {
        let message = "getting scenario information outside of the VU context is not supported";
        return Err(Exception::throw_message(ctx, message));
    }
    let number = match name {
        "scenario.name" | "scenario.executor" => {
            let scenario = &setup.scenario;
            let text = if name == "scenario.name" { &scenario.name } else { &scenario.executor };
            return Ok(rquickjs::String::from_str(ctx.clone(), text)?.into_value());
        }
        "scenario.startTime" => setup.environment.scenario_started_unix_ms().floor(),
        "scenario.progress" => setup.environment.progress(),
        "scenario.iterationInTest" => host.iteration_in_test.get() as f64,
        "scenario.iterationInInstance" => host.iteration_in_instance.get() as f64,
        "vu.idInTest" => setup.id_in_test as f64,
        "vu.idInInstance" => setup.id_in_instance as f64,
        "vu.iterationInInstance" | "vu.iterationInScenario" => host.iteration.get() as f64,
        "instance.currentTestRunDuration" => setup.environment.instance().run_duration_ms,
        "instance.iterationsCompleted" => setup.environment.instance().iterations_completed as f64,
        "instance.iterationsInterrupted" => {
            setup.environment.instance().iterations_interrupted as f64
        }
        "instance.vusActive" => setup.environment.instance().vus_active as f64,
        "instance.vusInitialized" => setup.environment.instance().vus_initialized as f64,
        _ => 0.0,
    };
    Ok(Value::new_number(ctx.clone(), number))
}
