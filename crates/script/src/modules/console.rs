//! `console`: what a script prints goes to the log.

use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::{Coerced, Ctx, Function, Object, Result, Value};

use crate::host::Host;
use crate::log::{Level, Line};

pub fn object<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let console = Object::new(ctx.clone())?;
    let levels = [
        ("log", Level::Info),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("warn", Level::Warning),
        ("error", Level::Error),
    ];
    for (name, level) in levels {
        let host = host.clone();
        let print = move |ctx: Ctx<'js>, values: Rest<Value<'js>>| {
            let words: Vec<String> = values.0.iter().map(|value| show(&ctx, value)).collect();
            host.log(Line::new(level, words.join(" ")).from("console"));
        };
        console.set(name, Function::new(ctx.clone(), print)?.with_name(name)?)?;
    }
    Ok(console)
}

/// Strings as they are, errors with their stack, objects as JSON.
fn show<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    if let Some(text) = value.as_string() {
        return text.to_string().unwrap_or_default();
    }
    if let Some(symbol) = value.as_symbol() {
        let text = symbol.description().and_then(|text| text.get::<Coerced<String>>());
        return text.map_or_else(|_| "Symbol()".to_owned(), |text| text.0);
    }
    if value.is_function() {
        return "null".to_owned();
    }
    if value.is_object()
        && let Ok(Some(json)) = ctx.json_stringify(value.clone())
    {
        return json.to_string().unwrap_or_default();
    }
    // Cyclic, or without a JSON form.
    let _ = ctx.catch();
    value.get::<Coerced<String>>().map_or_else(|_| value.type_name().to_string(), |text| text.0)
}
