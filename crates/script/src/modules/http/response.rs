//! The response that a script holds. Its members look like those of a plain object (they can be
//! listed, spread and turned into JSON), but each is made when it is first looked at: most scripts
//! look at the status alone.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rquickjs::class::JsCell;
use rquickjs::class::{
    ClassKind, JsClass, PropertyDescriptor, PropertyName, Readable, Trace, Tracer,
};
use rquickjs::function::{Constructor, Opt, This};
use rquickjs::{
    Array, Atom, Class, Ctx, Exception, Function, IntoJs, JsLifetime, Object, Result, Value,
};

use super::exchange::{Answer, give_back};
use super::request::{ResponseType, canonical};
use super::trouble::Trouble;
use super::{cookies, head, hints, json};
use crate::host::Host;
use crate::lacking::{Lacking, RESPONSE};
use crate::modules::bytes::{buffer_from_bytes, refuse, string_from_bytes};
use crate::said::Said;

/// Members in k6's order; those from `METHODS_FROM` on are functions.
pub const MEMBERS: [&str; 20] = [
    "remote_ip",
    "remote_port",
    "url",
    "status",
    "status_text",
    "proto",
    "headers",
    "cookies",
    "body",
    "timings",
    "tls_version",
    "tls_cipher_suite",
    "ocsp",
    "error",
    "error_code",
    "request",
    "clickLink",
    "html",
    "json",
    "submitForm",
];
const METHODS_FROM: usize = 16;

/// Whether an object is what a request has given.
pub fn is_response(object: &Object<'_>) -> bool {
    Class::<ResponseObject<'_>>::from_object(object).is_some()
}

/// QuickJS's numbers for the names of the members, in one virtual user.
pub struct Names([u32; MEMBERS.len()]);

impl Names {
    pub fn new(ctx: &Ctx<'_>) -> Names {
        Names(MEMBERS.map(|name| {
            let text = name.as_ptr().cast();
            // SAFETY: the text lives for ever. The atom is never given back, so its number stays
            // its own until the runtime ends.
            unsafe { rquickjs::qjs::JS_NewAtomLen(ctx.as_raw().as_ptr(), text, name.len() as _) }
        }))
    }

    fn find(&self, atom: &Atom<'_>) -> Option<usize> {
        let mut number = AtomNumber(0);
        atom.hash(&mut number);
        self.0.iter().position(|known| *known == number.0)
    }
}

/// An atom shows its number to hashers only.
struct AtomNumber(u32);

impl Hasher for AtomNumber {
    fn write(&mut self, _bytes: &[u8]) {}
    fn write_u32(&mut self, number: u32) {
        self.0 = number;
    }
    fn finish(&self) -> u64 {
        u64::from(self.0)
    }
}

/// Why there is a response: an answer, or a call that came to nothing.
enum Content {
    Answer(Box<Answer>),
    Refused(Trouble),
    /// Of a batch that was not sent, because another of its requests was wrong.
    Unsent,
}

pub struct ResponseObject<'js> {
    host: Rc<Host>,
    names: Rc<Names>,
    content: Content,
    /// Members that were made, or set by the script.
    made: RefCell<Vec<(usize, Value<'js>)>>,
}

// SAFETY: the same type with another lifetime.
unsafe impl<'js> JsLifetime<'js> for ResponseObject<'js> {
    type Changed<'to> = ResponseObject<'to>;
}

impl<'js> Trace<'js> for ResponseObject<'js> {
    fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
        for (_, value) in self.made.borrow().iter() {
            value.trace(tracer);
        }
    }
}

impl Drop for ResponseObject<'_> {
    fn drop(&mut self) {
        if let Content::Answer(answer) = &mut self.content {
            give_back(&self.host, std::mem::take(&mut answer.head), answer.body.take());
        }
    }
}

impl<'js> JsClass<'js> for ResponseObject<'js> {
    const NAME: &'static str = "Response";
    const KIND: ClassKind = ClassKind::Exotic;
    type Mutable = Readable;

    fn prototype(ctx: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        let prototype = Object::new(ctx.clone())?;
        let json = |ctx: Ctx<'js>, this: This<Class<'js, Self>>, selector: Opt<Value<'js>>| {
            this.borrow().json(&ctx, selector.0)
        };
        prototype.set("json", Function::new(ctx.clone(), json)?.with_name("json")?)?;
        for (name, _) in RESPONSE {
            let missing = move |ctx: Ctx<'js>| -> Result<()> {
                Err(Lacking::response(name).expect("from the same list").called(&ctx))
            };
            prototype.set(*name, Function::new(ctx.clone(), missing)?.with_name(name)?)?;
        }
        Ok(Some(prototype))
    }

    fn constructor(_ctx: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }

    fn exotic_get_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
        _receiver: Value<'js>,
    ) -> Result<Value<'js>> {
        let this = this.borrow();
        match this.names.find(&atom) {
            Some(member) => {
                if MEMBERS[member] == "body" && this.is_discarded() {
                    hints::no_body(ctx, &this.host);
                }
                this.member(ctx, member)
            }
            None => {
                let value: Value<'js> = prototype(ctx)?.get(atom.clone())?;
                if value.is_undefined()
                    && let Ok(Some(name)) = atom.to_value().map(|name| name.into_string())
                {
                    hints::no_member(ctx, &this.host, &name.to_string()?);
                }
                Ok(value)
            }
        }
    }

    fn exotic_set_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
        _receiver: Value<'js>,
        value: Value<'js>,
    ) -> Result<bool> {
        // QuickJS lends the value and frees it itself, but the binding takes it for a gift and
        // frees it, too. The second owner gets a share of its own. SAFETY: a value that is alive.
        unsafe { rquickjs::qjs::JS_DupValue(ctx.as_raw().as_ptr(), value.as_raw()) };
        let this = this.borrow();
        match this.names.find(&atom).filter(|member| *member < METHODS_FROM) {
            Some(member) => {
                this.keep(member, value);
                Ok(true)
            }
            None => {
                let name = atom.to_string()?;
                let message = format!("a response takes no property `{name}`; keep it beside");
                Err(Exception::throw_type(ctx, &message))
            }
        }
    }

    fn exotic_has_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
    ) -> Result<bool> {
        match this.borrow().names.find(&atom) {
            Some(_) => Ok(true),
            None => prototype(ctx)?.contains_key(atom),
        }
    }

    fn exotic_get_own_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
    ) -> Result<Option<PropertyDescriptor<'js>>> {
        let this = this.borrow();
        let Some(member) = this.names.find(&atom) else { return Ok(None) };
        let value = this.member(ctx, member)?;
        let writable = member < METHODS_FROM;
        Ok(Some(PropertyDescriptor::new_value(value, true, true, writable)))
    }

    fn exotic_get_own_property_names(
        _this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
    ) -> Result<Vec<PropertyName<'js>>> {
        let name = |name: &&str| {
            Ok(PropertyName { atom: Atom::from_str(ctx.clone(), name)?, is_enumerable: true })
        };
        MEMBERS.iter().map(name).collect()
    }
}

fn prototype<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    match Class::<ResponseObject<'js>>::prototype(ctx)? {
        Some(prototype) => Ok(prototype),
        None => Object::new(ctx.clone()),
    }
}

fn make<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, content: Content) -> Result<Value<'js>> {
    let names = host.cells.http.names.get_or_init(|| Rc::new(Names::new(ctx))).clone();
    let object = ResponseObject { host: host.clone(), names, content, made: RefCell::default() };
    Ok(Class::instance(ctx.clone(), object)?.into_value())
}

pub fn from_answer<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, answer: Answer) -> Result<Value<'js>> {
    make(ctx, host, Content::Answer(Box::new(answer)))
}

pub fn from_refusal<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, why: Trouble) -> Result<Value<'js>> {
    make(ctx, host, Content::Refused(why))
}

pub fn unsent<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Value<'js>> {
    make(ctx, host, Content::Unsent)
}

impl<'js> ResponseObject<'js> {
    fn keep(&self, member: usize, value: Value<'js>) {
        let mut made = self.made.borrow_mut();
        match made.iter_mut().find(|(known, _)| *known == member) {
            Some((_, known)) => *known = value,
            None => made.push((member, value)),
        }
    }

    fn member(&self, ctx: &Ctx<'js>, member: usize) -> Result<Value<'js>> {
        let known = self.made.borrow().iter().find(|(known, _)| *known == member).cloned();
        if let Some((_, value)) = known {
            return Ok(value);
        }
        let name = MEMBERS[member];
        if member >= METHODS_FROM {
            return prototype(ctx)?.get(name);
        }
        let value = match &self.content {
            Content::Answer(answer) => answer_member(ctx, answer, name)?,
            Content::Refused(trouble) => refused_member(ctx, Some(trouble), name)?,
            Content::Unsent => refused_member(ctx, None, name)?,
        };
        // Objects must stay the same, and texts are worth keeping; numbers are quickly made again.
        if !value.is_number() {
            self.keep(member, value.clone());
        }
        Ok(value)
    }

    /// The body was not kept, because the options say so for all requests.
    fn is_discarded(&self) -> bool {
        let Content::Answer(answer) = &self.content else { return false };
        answer.body.is_none()
            && answer.request.response_type == ResponseType::None
            && self.host.script().rules().discard_response_bodies
            && !self.host.script().said.has(Said::NoBody)
    }

    fn json(&self, ctx: &Ctx<'js>, selector: Option<Value<'js>>) -> Result<Value<'js>> {
        let body = match &self.content {
            Content::Answer(answer) => answer.body.as_deref(),
            _ => None,
        };
        let Some(body) = body else {
            let message = "the response has no body that could be read as JSON: the request failed, \
                           or its responseType is 'none' (discardResponseBodies)";
            return Err(refuse(ctx, message));
        };
        json::read(ctx, body, selector)
    }
}

fn answer_member<'js>(ctx: &Ctx<'js>, answer: &Answer, name: &str) -> Result<Value<'js>> {
    let text = |text: &str| text.into_js(ctx);
    let number = |number: f64| Ok(Value::new_number(ctx.clone(), number));
    let integer = |number: u16| Ok(Value::new_int(ctx.clone(), number.into()));
    let peer = answer.peer.as_deref();
    let address = peer.and_then(|peer| peer.address);
    match name {
        "status" => integer(answer.status),
        "body" => body(ctx, answer),
        "remote_ip" => text(&address.map_or_else(String::new, |address| address.ip().to_string())),
        "remote_port" => number(address.map_or(0.0, |address| address.port().into())),
        // After a challenge the name and the password are no part of it any more.
        "url" if answer.request.digest => text(&answer.address.referer()),
        "url" => text(&answer.address.text),
        "status_text" if answer.status != 0 => text(&head::status_text(&answer.head)),
        "proto" if answer.status != 0 => text(head::protocol(&answer.head)),
        "headers" => Ok(headers(ctx, &answer.head)?.into_value()),
        "cookies" => {
            let lines = head::all(&answer.head, "set-cookie");
            Ok(cookies::of_answer(ctx, lines)?.into_value())
        }
        "timings" => timings(ctx, &answer.phases),
        "tls_version" if answer.status != 0 => {
            text(peer.and_then(|peer| peer.tls_version).unwrap_or_default())
        }
        "tls_cipher_suite" if answer.status != 0 => {
            text(peer.and_then(|peer| peer.cipher.as_deref()).unwrap_or_default())
        }
        "ocsp" => {
            let secure = answer.status != 0 && peer.is_some_and(|peer| peer.tls_version.is_some());
            ocsp(ctx, if secure { "unknown" } else { "" })
        }
        "error" => text(answer.trouble.as_ref().map_or("", |trouble| &trouble.text)),
        "error_code" => integer(answer.k6_code()),
        "request" => request(ctx, answer),
        _ => text(""),
    }
}

/// The members of a response to what was never asked.
fn refused_member<'js>(
    ctx: &Ctx<'js>,
    trouble: Option<&Trouble>,
    name: &str,
) -> Result<Value<'js>> {
    match name {
        "status" | "remote_port" => Ok(Value::new_int(ctx.clone(), 0)),
        "error_code" => Ok(Value::new_int(ctx.clone(), trouble.map_or(0, |t| t.code).into())),
        "error" => trouble.map_or("", |trouble| &trouble.text).into_js(ctx),
        "headers" | "cookies" => Ok(Object::new(ctx.clone())?.into_value()),
        "timings" => timings(ctx, &client::Phases::default()),
        "ocsp" => ocsp(ctx, ""),
        "body" | "request" => Ok(Value::new_null(ctx.clone())),
        _ => "".into_js(ctx),
    }
}

fn body<'js>(ctx: &Ctx<'js>, answer: &Answer) -> Result<Value<'js>> {
    match &answer.body {
        None => Ok(Value::new_null(ctx.clone())),
        Some(bytes) if answer.request.response_type == ResponseType::Binary => {
            buffer_from_bytes(ctx, bytes.clone())
        }
        Some(bytes) => Ok(string_from_bytes(ctx, bytes)?.into_value()),
    }
}

/// Values of the same name are joined.
fn headers<'js>(ctx: &Ctx<'js>, head: &[u8]) -> Result<Object<'js>> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in head::lines(head) {
        let name = canonical(&String::from_utf8_lossy(name));
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, joined)) => {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(value);
            }
            None => all.push((name, value.to_vec())),
        }
    }
    let object = Object::new(ctx.clone())?;
    for (name, value) in all {
        object.set(name, string_from_bytes(ctx, &value)?)?;
    }
    Ok(object)
}

fn timings<'js>(ctx: &Ctx<'js>, phases: &client::Phases) -> Result<Value<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, ns) in [
        ("duration", phases.duration()),
        ("blocked", phases.blocked),
        ("looking_up", 0),
        ("connecting", phases.connecting),
        ("tls_handshaking", phases.tls_handshaking),
        ("sending", phases.sending),
        ("waiting", phases.waiting),
        ("receiving", phases.receiving),
    ] {
        object.set(name, ns as f64 / 1e6)?;
    }
    Ok(object.into_value())
}

/// Certificates are not asked about their revocation.
fn ocsp<'js>(ctx: &Ctx<'js>, status: &str) -> Result<Value<'js>> {
    let object = Object::new(ctx.clone())?;
    for name in ["produced_at", "this_update", "next_update", "revoked_at"] {
        object.set(name, 0)?;
    }
    object.set("revocation_reason", "")?;
    object.set("status", status)?;
    Ok(object.into_value())
}

fn request<'js>(ctx: &Ctx<'js>, answer: &Answer) -> Result<Value<'js>> {
    let asked = &answer.request;
    let object = Object::new(ctx.clone())?;
    object.set("method", &*asked.method)?;
    object.set("url", &*asked.address.text)?;
    let headers = Object::new(ctx.clone())?;
    let list = |value: &str| -> Result<Array<'js>> {
        let list = Array::new(ctx.clone())?;
        list.set(0, value)?;
        Ok(list)
    };
    if asked.header("User-Agent").is_none()
        && let Some(host) = ctx.userdata::<crate::host::HostRef>()
    {
        headers.set("User-Agent", list(&host.0.script().rules().user_agent)?)?;
    }
    for (name, value) in asked.headers.iter().filter(|(name, _)| name != "Cookie") {
        headers.set(name.as_str(), list(value)?)?;
    }
    let cookie = answer.cookie.as_deref();
    if let Some(cookie) = cookie.or_else(|| asked.header("Cookie")) {
        headers.set("Cookie", list(cookie)?)?;
    }
    object.set("headers", headers)?;
    object.set("body", string_from_bytes(ctx, asked.body.as_deref().unwrap_or_default())?)?;
    object.set("cookies", cookies::of_request(ctx, cookie.unwrap_or_default())?)?;
    Ok(object.into_value())
}
