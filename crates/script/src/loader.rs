//! Hands modules to QuickJS: native ones from the table, files as bytecode that is compiled once
//! and shared.

use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declarations, Declared, Exports, ModuleDef, WriteOptions};
use rquickjs::{Ctx, Exception, Function, Module, Result};

use crate::host::{Host, HostRef};
use crate::modules;

pub struct Linker(pub Rc<Host>);

impl Resolver for Linker {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        let resolved = self.0.script().sources.resolve(base, name);
        resolved.map_err(|error| Exception::throw_reference(ctx, &error.to_string()))
    }
}

impl Loader for Linker {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        load(ctx, &self.0, name)
    }
}

pub fn load<'js>(ctx: &Ctx<'js>, host: &Host, name: &str) -> Result<Module<'js, Declared>> {
    if modules::find(name).is_some() {
        return Module::declare_def::<Native, _>(ctx.clone(), name);
    }
    let module = load_code(ctx, host, name)?;
    if name.contains("://") {
        let meta = module.meta()?;
        meta.set("url", name)?;
        let from = name.to_owned();
        let resolve = move |ctx: Ctx<'js>, specifier: String| {
            let host = ctx.userdata::<HostRef>().map(|host| host.0.clone());
            let resolved = host.map(|host| host.script().sources.resolve(&from, &specifier));
            match resolved {
                Some(Ok(name)) => Ok(name),
                Some(Err(error)) => Err(Exception::throw_reference(&ctx, &error.to_string())),
                None => Ok(specifier),
            }
        };
        meta.set("resolve", Function::new(ctx.clone(), resolve)?)?;
    }
    Ok(module)
}

fn load_code<'js>(ctx: &Ctx<'js>, host: &Host, name: &str) -> Result<Module<'js, Declared>> {
    let script = host.script();
    let code = match script.bytecode(name) {
        Some(code) => code,
        None => {
            let module = match modules::glue(name) {
                Some(code) => Module::declare(ctx.clone(), name, code)?,
                None => {
                    let source = script.sources.module(name);
                    let source =
                        source.map_err(|error| Exception::throw_syntax(ctx, &error.to_string()))?;
                    Module::declare(ctx.clone(), name, source.code.as_bytes())?
                }
            };
            let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
            let bytes = module.write(options)?;
            script.keep_bytecode(name, bytes);
            return Ok(module);
        }
    };
    // SAFETY: written by this very build of QuickJS; `Script` keeps it for as long as any virtual
    // user lives, which may run it in place.
    unsafe { Module::load(ctx.clone(), &code) }
}

/// Any row of the table of native modules; which one, its name says.
struct Native;

impl ModuleDef for Native {
    fn declare(declarations: &Declarations<'_>) -> Result<()> {
        let name: String = declarations.module().name()?;
        if let Some(native) = modules::find(&name) {
            for export in native.exports {
                declarations.declare(*export)?;
            }
        }
        Ok(())
    }

    fn evaluate<'js>(ctx: &Ctx<'js>, exports: &Exports<'js>) -> Result<()> {
        let name: String = exports.module().name()?;
        let host = ctx.userdata::<HostRef>().map(|host| host.0.clone());
        if let (Some(native), Some(host)) = (modules::find(&name), host) {
            let object = (native.make)(ctx, &host)?;
            for export in native.exports {
                let value: rquickjs::Value<'_> = object.get(*export)?;
                exports.export(*export, value)?;
            }
        }
        Ok(())
    }
}

/// What a piece of internal JavaScript exports by default.
pub fn glue<'js>(ctx: &Ctx<'js>, host: &Host, name: &str) -> Result<Function<'js>> {
    let (module, _) = load(ctx, host, name)?.eval()?;
    module.get("default")
}
