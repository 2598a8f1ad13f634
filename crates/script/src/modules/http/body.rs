//! Request bodies: text, bytes, forms, and forms with files.

use rquickjs::{Coerced, Ctx, Object, Result, Value};

use super::request::{Refusal, is_given};
use super::trouble::Trouble;
use crate::modules::bytes::{kind, with_bytes};

pub struct Body {
    pub bytes: Vec<u8>,
    /// `Content-Type`, if the form of the body decides it.
    pub kind: Option<String>,
}

pub fn from_js<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> std::result::Result<Body, Refusal> {
    let plain = |bytes| Body { bytes, kind: None };
    if value.is_string() || is_bytes(value) {
        return Ok(plain(with_bytes(ctx, value, "", <[u8]>::to_vec)?));
    }
    let fields = value.as_object().filter(|object| {
        !object.is_array()
            && !object.is_function()
            && object
                .get::<_, Value<'js>>("BYTES_PER_ELEMENT")
                .is_ok_and(|size| size.is_undefined())
    });
    let Some(fields) = fields else {
        let text = format!(
            "unknown request body type {}; pass a string, an ArrayBuffer, a Uint8Array or an object",
            kind(value)
        );
        return Err(Refusal::Bad(Trouble::refused(0, text)));
    };
    let mut all = Vec::new();
    for entry in fields.props::<String, Value<'js>>() {
        all.push(entry?);
    }
    let file = |(_, value): &(String, Value<'js>)| value.as_object().is_some_and(is_file);
    match all.iter().any(file) {
        true => Ok(multipart(ctx, &all)?),
        false => Ok(form(ctx, all)?),
    }
}

fn is_bytes(value: &Value<'_>) -> bool {
    let Some(object) = value.as_object() else { return false };
    object.is_array_buffer() || crate::modules::bytes::view_of_bytes(object).is_some()
}

/// What `http.file` makes.
fn is_file(object: &Object<'_>) -> bool {
    ["data", "filename", "content_type"]
        .iter()
        .all(|key| object.contains_key(*key).unwrap_or(false))
}

/// `http.file(data, filename, contentType)`.
pub fn file<'js>(
    ctx: &Ctx<'js>,
    data: Value<'js>,
    name: Option<Value<'js>>,
    content_type: Option<Value<'js>>,
) -> Result<Object<'js>> {
    if !data.is_string() && !is_bytes(&data) {
        let message = format!(
            "http.file: data of type {} cannot be sent; pass a string, an ArrayBuffer or a \
             Uint8Array, such as open(path, 'b')",
            kind(&data)
        );
        return Err(crate::modules::bytes::refuse(ctx, &message));
    }
    let text = |value: Option<Value<'js>>| -> Result<Option<String>> {
        let value = value.filter(is_given);
        Ok(value.map(|value| value.get::<Coerced<String>>()).transpose()?.map(|text| text.0))
    };
    let name = text(name)?.unwrap_or_else(|| {
        std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos()).to_string()
    });
    super::hints::file_is_path(ctx, &data, &name);
    let content_type = text(content_type)?;
    let content_type = content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let file = Object::new(ctx.clone())?;
    file.set("data", data)?;
    file.set("filename", name)?;
    file.set("content_type", content_type)?;
    Ok(file)
}

/// `a=1&b=x+y`, by name; a list gives its name once for each member.
fn form<'js>(ctx: &Ctx<'js>, mut fields: Vec<(String, Value<'js>)>) -> Result<Body> {
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    let mut encoder = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &fields {
        match value.as_array() {
            Some(list) => {
                for member in list.iter::<Value<'js>>() {
                    encoder.append_pair(name, &shown(&member?)?);
                }
            }
            None => {
                let sent = shown(value)?;
                if value.is_object() && sent.starts_with("map[") {
                    super::hints::nested_form(ctx, name, &sent);
                }
                encoder.append_pair(name, &sent);
            }
        }
    }
    let bytes = encoder.finish().replace('*', "%2A").replace("%7E", "~").into_bytes();
    Ok(Body { bytes, kind: Some("application/x-www-form-urlencoded".to_owned()) })
}

/// A value as Go prints it, which is what k6 puts into forms.
fn shown<'js>(value: &Value<'js>) -> Result<String> {
    if !is_given(value) {
        return Ok("<nil>".to_owned());
    }
    if let Some(list) = value.as_array() {
        let members = list.iter::<Value<'js>>().map(|member| shown(&member?));
        return Ok(format!("[{}]", members.collect::<Result<Vec<_>>>()?.join(" ")));
    }
    if let Some(object) = value.as_object().filter(|_| !value.is_function()) {
        let mut pairs = Vec::new();
        for entry in object.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            pairs.push(format!("{key}:{}", shown(&value)?));
        }
        pairs.sort();
        return Ok(format!("map[{}]", pairs.join(" ")));
    }
    Ok(value.get::<Coerced<String>>()?.0)
}

fn multipart<'js>(ctx: &Ctx<'js>, fields: &[(String, Value<'js>)]) -> Result<Body> {
    let boundary: String =
        (0..60).filter_map(|_| char::from_digit(fastrand::u32(0..16), 16)).collect();
    let quoted = |text: &str| {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        escaped.replace('\r', "%0D").replace('\n', "%0A")
    };
    let mut bytes = Vec::new();
    for (name, value) in fields {
        let mut head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(name));
        match value.as_object().filter(|object| is_file(object)) {
            Some(file) => {
                let filename: Coerced<String> = file.get("filename")?;
                let content_type: Coerced<String> = file.get("content_type")?;
                let data: Value<'js> = file.get("data")?;
                head.push_str(&format!(
                    "; filename=\"{}\"\r\nContent-Type: {}\r\n\r\n",
                    quoted(&filename.0),
                    content_type.0.replace(['\r', '\n'], " ")
                ));
                bytes.extend_from_slice(head.as_bytes());
                with_bytes(ctx, &data, "http.file: ", |data| bytes.extend_from_slice(data))?;
            }
            None => {
                head.push_str("\r\n\r\n");
                bytes.extend_from_slice(head.as_bytes());
                bytes.extend_from_slice(shown(value)?.as_bytes());
            }
        }
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Body { bytes, kind: Some(format!("multipart/form-data; boundary={boundary}")) })
}
