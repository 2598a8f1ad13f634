//! `response.json()` and `response.json(path)`.

use rquickjs::{Array, Coerced, Ctx, FromJs, IntoJs, Object, Result, Value};
use serde_json::Value as Json;

use super::select::select;
use crate::modules::bytes::refuse;

pub fn read<'js>(ctx: &Ctx<'js>, body: &[u8], selector: Option<Value<'js>>) -> Result<Value<'js>> {
    let Some(selector) = selector else { return whole(ctx, body) };
    let path = Coerced::<String>::from_js(ctx, selector)?.0;
    let Ok(json) = serde_json::from_slice::<Json>(body) else {
        return Ok(Value::new_undefined(ctx.clone()));
    };
    match select(&json, &path) {
        Some(found) => to_js(ctx, &found),
        None => {
            super::hints::no_match(ctx, &path);
            Ok(Value::new_undefined(ctx.clone()))
        }
    }
}

fn whole<'js>(ctx: &Ctx<'js>, body: &[u8]) -> Result<Value<'js>> {
    if let Ok(value) = ctx.json_parse(body) {
        return Ok(value);
    }
    // Our parser says better what is wrong; and the one of JavaScript may have left an exception.
    let _ = ctx.catch();
    let message = match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            format!("cannot parse json due to an error at line {line}, character {column}: {why}")
        }
        Ok(_) => "cannot parse json: it is nested too deeply".to_owned(),
    };
    Err(refuse(ctx, &message))
}

fn to_js<'js>(ctx: &Ctx<'js>, json: &Json) -> Result<Value<'js>> {
    match json {
        Json::Null => Ok(Value::new_null(ctx.clone())),
        Json::Bool(flag) => Ok(Value::new_bool(ctx.clone(), *flag)),
        Json::Number(number) => {
            Ok(Value::new_number(ctx.clone(), number.as_f64().unwrap_or(f64::NAN)))
        }
        Json::String(text) => text.as_str().into_js(ctx),
        Json::Array(members) => {
            let array = Array::new(ctx.clone())?;
            for (index, member) in members.iter().enumerate() {
                array.set(index, to_js(ctx, member)?)?;
            }
            Ok(array.into_value())
        }
        Json::Object(fields) => {
            let object = Object::new(ctx.clone())?;
            for (name, value) in fields {
                object.set(name.as_str(), to_js(ctx, value)?)?;
            }
            Ok(object.into_value())
        }
    }
}
