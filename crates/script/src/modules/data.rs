//! `k6/data`: SharedArray. All virtual users share one copy of the data, each element as JSON; an
//! access makes a frozen copy of that element alone.

use std::rc::Rc;
use std::sync::Arc;

use rquickjs::function::Constructor;
use rquickjs::function::Opt;
use rquickjs::{Coerced, Ctx, Exception, Function, Object, Result, Value};

use crate::host::{Host, Phase};
use crate::loader;

pub const NAMES: &[&str] = &["SharedArray", "default"];

pub const GLUE: (&str, &str) = ("volley:data", include_str!("data.js"));

/// The elements, each as JSON.
pub struct SharedData {
    elements: Vec<Box<str>>,
}

pub fn exports<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let held = host.clone();
    let make = move |ctx: Ctx<'js>, name: Opt<Value<'js>>, make: Opt<Value<'js>>| {
        let data = find_or_make(&ctx, &held, name.0, make.0)?;
        let length = data.elements.len() as f64;
        let element = move |ctx: Ctx<'js>, index: usize| match data.elements.get(index) {
            Some(json) => ctx.json_parse(json.as_bytes()),
            None => Ok(Value::new_undefined(ctx)),
        };
        let element = Function::new(ctx.clone(), element)?;
        // Fetched anew, and not held: the collector does not see into this function.
        let wrap: Function<'js> = loader::glue(&ctx, &held, GLUE.0)?;
        wrap.call::<_, Object<'js>>((length, element))
    };
    let shared = Constructor::new_prototype(ctx, Object::new(ctx.clone())?, make)?;
    shared.set_name("SharedArray")?;
    let exports = Object::new(ctx.clone())?;
    exports.set("SharedArray", shared.clone())?;
    let default = Object::new(ctx.clone())?;
    default.set("SharedArray", shared)?;
    exports.set("default", default)?;
    Ok(exports)
}

fn find_or_make<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    name: Option<Value<'js>>,
    make: Option<Value<'js>>,
) -> Result<Arc<SharedData>> {
    let fail = |message: &str| Exception::throw_message(ctx, message);
    if host.phase.get() != Phase::Init {
        return Err(fail("new SharedArray must be called in the init context"));
    }
    let name = name.map(|name| name.get::<Coerced<String>>()).transpose()?;
    let name = name.map_or_else(String::new, |name| name.0);
    if name.is_empty() {
        return Err(fail("empty name provided to SharedArray's constructor"));
    }
    let Some(make) = make.and_then(Value::into_function) else {
        return Err(fail(
            "a function is expected as the second argument of SharedArray's constructor",
        ));
    };
    if let Some(known) = host.script().shared(&name) {
        return Ok(known);
    }
    let value: Value<'js> = make.call(())?;
    if value.is_promise() {
        return Err(fail(
            "SharedArray constructor does not support async functions as second argument",
        ));
    }
    let Some(array) = value.as_array() else {
        return Err(fail("only arrays can be made into SharedArray"));
    };
    let mut elements = Vec::with_capacity(array.len());
    for element in array.iter::<Value<'js>>() {
        let json = ctx.json_stringify(element?)?;
        let json = json.map(|json| json.to_string()).transpose()?;
        elements.push(json.unwrap_or_else(|| "null".to_owned()).into_boxed_str());
    }
    Ok(host.script().keep_shared(&name, SharedData { elements }))
}
