//! The inside of a virtual user: makes the JavaScript runtime, loads the script, runs what is asked
//! for, and drives the event loop. Everything here runs on the script's own stack.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::function::Args;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Module, Object, Promise, Result, Runtime, Value};

use crate::fiber::SCRIPT_STACK_BYTES;
use crate::heap::Heap;
use crate::host::{Host, HostRef, Phase};
use crate::loader::Linker;
use crate::modules::globals;
use crate::thrown::{Thrown, ThrownKind};
use crate::vu::{Argument, Call, Command, Description, Files, Outcome, Returned};

/// Garbage in cycles is looked for when a script has allocated this much more. Most garbage is not
/// in cycles and is freed at once.
const GC_AFTER_BYTES: usize = 1 << 20;

/// Brings a result out and the next command in; `None` in: there is no result yet.
type Next<'a> = &'a dyn Fn(Option<Outcome>) -> Option<Command>;

/// Serves commands until there are no more.
pub fn serve(host: &Rc<Host>, next: Next<'_>) {
    if next(None).is_none() {
        return;
    }
    let Ok(runtime) = Runtime::new_with_alloc(Heap::new(host.script().budget.clone())) else {
        return;
    };
    runtime.set_max_stack_size(SCRIPT_STACK_BYTES);
    runtime.set_gc_threshold(GC_AFTER_BYTES);
    let fiber = host.fiber.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || fiber.breathe())));
    runtime.set_loader(Linker(host.clone()), Linker(host.clone()));
    let rejections = Rejections::default();
    rejections.watch(&runtime);
    let Ok(context) = Context::full(&runtime) else { return };
    context.with(|ctx| {
        let namespace = match init(&ctx, host) {
            Ok(namespace) => namespace,
            Err(error) => {
                let thrown = Thrown::caught(&ctx, host, &error);
                let _ = next(Some(Outcome::Threw(thrown)));
                host.forget();
                return;
            }
        };
        // Compiling and linking went deep; iterations rarely do.
        host.fiber.trim_stack();
        let mut script =
            Script { ctx: &ctx, host, namespace, rejections: &rejections, known: None };
        let mut command = next(Some(Outcome::Ready));
        while let Some(wanted) = command {
            let outcome = match wanted {
                Command::Init => Outcome::Ready,
                Command::Describe => script.describe(),
                Command::Call(call) => script.call(&call),
            };
            host.forget();
            rejections.clear();
            command = next(Some(outcome));
        }
        rejections.clear();
        host.forget();
    });
}

/// Runs the init code; gives the entry module's exports.
fn init<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let _ = ctx.store_userdata(HostRef(host.clone()));
    globals::install(ctx, host)?;
    let promise = Module::import(ctx, host.script().sources.entry())?;
    settle(ctx, host, &promise)?;
    promise.finish::<Object<'js>>()
}

/// Runs promise jobs, and waits for timers and asynchronous calls, until a promise is settled or
/// nothing can settle it any more.
fn settle<'js>(ctx: &Ctx<'js>, host: &Host, promise: &Promise<'js>) -> Result<()> {
    while promise.state() == PromiseState::Pending {
        if !turn(ctx, host)? {
            return Ok(());
        }
    }
    Ok(())
}

/// One turn of the event loop. False: there is nothing left to do.
fn turn(ctx: &Ctx<'_>, host: &Host) -> Result<bool> {
    while ctx.execute_pending_job() {
        if host.fiber.is_cancelled() || host.aborted.borrow().is_some() {
            return Err(interrupt(ctx, "interrupted"));
        }
    }
    match host.next_completion() {
        Ok(Some(completion)) => completion(ctx).map(|()| true),
        Ok(None) => Ok(false),
        Err(_) => Err(interrupt(ctx, "interrupted")),
    }
}

/// An exception that no `catch` of the script can hold up.
pub fn interrupt(ctx: &Ctx<'_>, message: &str) -> Error {
    let error = rquickjs::Exception::throw_internal(ctx, message);
    let value = ctx.catch();
    let raw = value.as_raw();
    // SAFETY: marks an error object of this very context.
    unsafe { rquickjs::qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), raw) };
    let _ = ctx.throw(value);
    error
}

struct Script<'a, 'js> {
    ctx: &'a Ctx<'js>,
    host: &'a Rc<Host>,
    namespace: Object<'js>,
    rejections: &'a Rejections,
    /// The function that was called last, with its argument: nearly always the next one as well.
    known: Option<(Rc<str>, Function<'js>, Value<'js>)>,
}

impl<'js> Script<'_, 'js> {
    /// Options are data. JSON would leave a function out, and `exec: browse` would run `default`.
    fn refuse_functions(&self, options: &Value<'js>) -> Result<()> {
        // `export function options()` has a word of its own.
        if options.is_function() {
            return Ok(());
        }
        let Some(path) = not_json(options, 0)? else { return Ok(()) };
        let help = match path.rsplit('.').next() {
            Some("exec") => "; write its name, as a text: exec: 'browse'",
            _ => "",
        };
        let message = format!("options.{path} is a function, and options hold data only{help}");
        Err(rquickjs::Exception::throw_type(self.ctx, &message))
    }

    fn describe(&self) -> Outcome {
        let describe = || -> Result<Description> {
            let options: Value<'js> = self.export("options")?;
            let (undefined_options, nan_options) = absent_in(&options);
            self.refuse_functions(&options)?;
            let options = match options.is_undefined() {
                true => None,
                false => {
                    self.ctx.json_stringify(options)?.map(|json| json.to_string()).transpose()?
                }
            };
            let (mut functions, mut values) = (Vec::new(), Vec::new());
            for key in self.namespace.keys::<String>() {
                let key = key?;
                match self.namespace.get::<_, Value<'js>>(key.as_str())?.is_function() {
                    true => functions.push(key),
                    false => values.push(key),
                }
            }
            // A CommonJS file has its exports one level down.
            if let Some(inner) = self.inner_exports() {
                for key in inner.keys::<String>() {
                    let key = key?;
                    if !functions.contains(&key)
                        && inner.get::<_, Value<'js>>(key.as_str())?.is_function()
                    {
                        functions.push(key);
                    }
                }
            }
            Ok(Description { options, functions, values, undefined_options, nan_options })
        };
        match describe() {
            Ok(description) => Outcome::Described(description),
            Err(error) => Outcome::Threw(Thrown::caught(self.ctx, self.host, &error)),
        }
    }

    /// `module.exports` of a CommonJS entry file.
    fn inner_exports(&self) -> Option<Object<'js>> {
        let whole: Value<'js> = self.namespace.get(crate::source::WHOLE_EXPORTS).ok()?;
        whole.into_object()
    }

    fn export(&self, name: &str) -> Result<Value<'js>> {
        let value: Value<'js> = self.namespace.get(name)?;
        let is_wanted = match name {
            "default" => value.is_function(),
            _ => !value.is_undefined(),
        };
        match self.inner_exports() {
            Some(inner) if !is_wanted => inner.get(name),
            _ => Ok(value),
        }
    }

    fn call(&mut self, call: &Call) -> Outcome {
        self.host.phase.set(call.phase);
        let called = self.begin(call).and_then(|()| self.try_call(call));
        match called {
            Ok(value) => Outcome::Returned(value),
            Err(error) => {
                let thrown = Thrown::caught(self.ctx, self.host, &error);
                while self.ctx.execute_pending_job() {
                    if thrown.kind != ThrownKind::Exception {
                        break;
                    }
                }
                // Endless recursion goes to the very end of the stack.
                self.host.fiber.trim_stack();
                Outcome::Threw(thrown)
            }
        }
    }

    fn begin(&self, call: &Call) -> Result<()> {
        if call.phase != Phase::Iteration {
            return Ok(());
        }
        let iteration = self.host.iteration.get();
        if iteration == 0 {
            globals::begin_iterations(self.ctx, self.host)?;
        }
        self.ctx.globals().set("__ITER", iteration as f64)
    }

    fn try_call(&mut self, call: &Call) -> Result<Option<Returned>> {
        let (function, argument) = self.prepare(call)?;
        let mut args = Args::new(self.ctx.clone(), 1);
        args.push_arg(argument)?;
        let value: Value<'js> = function.call_arg(args)?;
        let promise = value.as_promise().cloned();
        // The iteration lasts until nothing is left to do, as in k6.
        while turn(self.ctx, self.host)? {}
        let value = match promise {
            Some(promise) => match promise.state() {
                // Nothing is left that could settle it.
                PromiseState::Pending => Value::new_undefined(self.ctx.clone()),
                _ => promise.finish::<Value<'js>>()?,
            },
            None => value,
        };
        if let Some(reason) = self.rejections.first(self.ctx) {
            return Err(self.ctx.throw(reason));
        }
        match call.phase {
            Phase::Setup => {
                if value.is_undefined() {
                    return Ok(None);
                }
                let json = self.ctx.json_stringify(value.clone())?.map(|json| json.to_string());
                if let Some(place) = not_json(&value, 0)? {
                    let is_response = value.as_object().is_some_and(crate::modules::is_response);
                    let message = match is_response {
                        true => "setup() returned a response; return what is needed of it: \
                                 { token: r.json('token') }"
                            .to_owned(),
                        false => format!(
                            "setup() returned what JSON cannot hold: a function at `{place}`; return \
                             plain data"
                        ),
                    };
                    return Err(rquickjs::Exception::throw_type(self.ctx, &message));
                }
                Ok(json.transpose()?.map(Returned::Json))
            }
            Phase::Summary => Ok(files(&value)?.map(Returned::Files)),
            _ => Ok(None),
        }
    }

    fn prepare(&mut self, call: &Call) -> Result<(Function<'js>, Value<'js>)> {
        if let Some((name, function, argument)) = &self.known
            && *name == call.function
        {
            return Ok((function.clone(), argument.clone()));
        }
        let function = self.export(&call.function)?.into_function().ok_or_else(|| {
            let message = format!("function `{}` is not exported by the script", call.function);
            rquickjs::Exception::throw_reference(self.ctx, &message)
        })?;
        let argument = match &call.argument {
            Argument::SetupData(Some(json)) | Argument::Json(json) => {
                self.ctx.json_parse(json.as_bytes())?
            }
            Argument::SetupData(None) => Value::new_undefined(self.ctx.clone()),
        };
        self.known = Some((call.function.clone(), function.clone(), argument.clone()));
        Ok((function, argument))
    }
}

/// Keys of an object, and of the objects in it, whose value is `undefined`; JSON has none of them.
fn absent_in(options: &Value<'_>) -> (Vec<String>, Vec<String>) {
    type Found = (Vec<String>, Vec<String>);
    fn walk(value: &Value<'_>, path: &str, depth: usize, found: &mut Found) {
        let Some(object) = value.as_object().filter(|_| depth < 6 && !value.is_function()) else {
            return;
        };
        for (key, value) in object.props::<String, Value<'_>>().flatten() {
            let path = if path.is_empty() { key } else { format!("{path}.{key}") };
            match value.is_undefined() {
                true => found.0.push(path),
                false if value.as_float().is_some_and(f64::is_nan) => found.1.push(path),
                false => walk(&value, &path, depth + 1, found),
            }
        }
    }
    let mut found = (Vec::new(), Vec::new());
    walk(options, "", 0, &mut found);
    found.0.truncate(10);
    found.1.truncate(10);
    found
}

/// Where a value holds a function, as a path; looked for as deep as anybody nests data.
fn not_json(value: &Value<'_>, depth: usize) -> Result<Option<String>> {
    if value.is_function() {
        return Ok(Some(String::new()));
    }
    let Some(object) = value.as_object().filter(|_| depth < 32) else { return Ok(None) };
    for entry in object.props::<String, Value<'_>>() {
        let (key, inner) = entry?;
        if let Some(rest) = not_json(&inner, depth + 1)? {
            let dot = if rest.is_empty() { "" } else { "." };
            return Ok(Some(format!("{key}{dot}{rest}")));
        }
    }
    Ok(None)
}

/// What `handleSummary` returned: names of files with text or bytes. `None`: nothing to write.
fn files(value: &Value<'_>) -> Result<Option<Files>> {
    let Some(object) = value.as_object() else {
        if value.is_undefined() || value.is_null() {
            return Ok(None);
        }
        let message = "handleSummary() has to return an object of file names and texts, such as \
                       { 'summary.json': JSON.stringify(data) }; the default summary is shown";
        return Err(rquickjs::Exception::throw_type(value.ctx(), message));
    };
    let mut files = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (name, content) = entry?;
        let bytes = match crate::modules::bytes_of(&content) {
            Some(bytes) => bytes,
            None if content.is_string() => crate::thrown::describe(&content).into_bytes(),
            None => {
                let message = format!(
                    "handleSummary: the value of `{name}` is neither a string nor an ArrayBuffer; \
                     nothing was written (write '{name}': JSON.stringify(data))"
                );
                return Err(rquickjs::Exception::throw_type(value.ctx(), &message));
            }
        };
        files.push((name, bytes));
    }
    Ok(Some(files))
}

/// Promises that were rejected while nobody was listening.
#[derive(Default, Clone)]
struct Rejections(Rc<RefCell<Vec<Rejection>>>);

/// A promise, by its address, and why it was rejected.
type Rejection = (usize, rquickjs::Persistent<Value<'static>>);

impl Rejections {
    fn watch(&self, runtime: &Runtime) {
        let known = self.0.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                // The promise's address tells it apart for as long as it lives.
                // SAFETY: only compared, never followed.
                let id = unsafe { rquickjs::qjs::JS_VALUE_GET_PTR(promise.as_raw()) } as usize;
                let mut known = known.borrow_mut();
                if is_handled {
                    known.retain(|(other, _)| *other != id);
                } else {
                    known.push((id, rquickjs::Persistent::save(&ctx, reason)));
                }
            },
        )));
    }

    fn first<'js>(&self, ctx: &Ctx<'js>) -> Option<Value<'js>> {
        let known = self.0.borrow();
        known.first().and_then(|(_, reason)| reason.clone().restore(ctx).ok())
    }

    fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}
