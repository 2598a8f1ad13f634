//! What is handed out really runs: a small QuickJS loader, as the runtime has a large one, takes
//! modules from [`Sources`] and the tests look at what the scripts say.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rquickjs::function::Func;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Exception, Function, Module, Object};
use rquickjs::{Runtime, Value};

use super::*;

const BUILTINS: Builtins = Builtins {
    exports: |_| None,
    status: |name| match name {
        "k6/http" => BuiltinStatus::Here,
        other => missing_builtin(other),
    },
    names: &["k6/http"],
    library: |url| match url {
        "https://jslib.k6.io/demo/1.0.0/index.js" => {
            Some("export { deep } from './deep.js'; export const demo = 'demo';")
        }
        "https://jslib.k6.io/demo/1.0.0/deep.js" => Some("export const deep = 'deep';"),
        _ => None,
    },
    libraries: &["https://jslib.k6.io/demo/1.0.0/index.js"],
};

struct FromSources(Arc<Sources>);

impl Resolver for FromSources {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        self.0.resolve(base, name).map_err(|e| Exception::throw_message(ctx, &e.to_string()))
    }
}

impl Loader for FromSources {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js>> {
        if name == "k6/http" {
            return Module::declare(ctx.clone(), name, "export default {get: 'got'};");
        }
        let prepared = self.0.module(name);
        let prepared = prepared.map_err(|e| Exception::throw_message(ctx, &e.to_string()))?;
        Module::declare(ctx.clone(), name, prepared.code.as_str())
    }
}

/// Writes the files, runs the first of them and its default export; what it logged, or the error.
fn run(files: &[(&str, &str)]) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let sources = Sources::open(&folder.path().join(files[0].0), BUILTINS);
    run_sources(&Arc::new(sources.map_err(|error| error.to_string())?), folder.path())
}

fn run_sources(sources: &Arc<Sources>, folder: &Path) -> Result<String, String> {
    let runtime = Runtime::new().expect("a runtime");
    runtime.set_loader(FromSources(Arc::clone(sources)), FromSources(Arc::clone(sources)));
    let context = Context::full(&runtime).expect("a context");
    let log = Arc::new(Mutex::new(Vec::<String>::new()));
    let result = context.with(|ctx| {
        let sink = Arc::clone(&log);
        let say = Func::from(move |text: String| sink.lock().expect("a log").push(text));
        ctx.globals().set("say", say).expect("a global");
        evaluate(&ctx, sources).catch(&ctx).map_err(|error| place_in_user_code(sources, error))
    });
    let here = format!("{}/", folder.canonicalize().expect("a path").display());
    let clean = |text: String| text.replace(&here, "").replace("file://", "");
    match result {
        Ok(()) => Ok(clean(log.lock().expect("a log").join(" "))),
        Err(error) => Err(clean(error)),
    }
}

fn evaluate<'js>(ctx: &Ctx<'js>, sources: &Arc<Sources>) -> rquickjs::Result<()> {
    let resolver = Arc::clone(sources);
    let resolve = move |ctx: Ctx<'js>, from: String, specifier: String, running: Vec<String>| {
        let resolved = resolver.resolve_require(&from, &specifier, &running);
        resolved.map_err(|e| Exception::throw_message(&ctx, &e.to_string()))
    };
    let evaluate = |ctx: Ctx<'js>, name: String| -> rquickjs::Result<()> {
        let module = Module::declare(ctx.clone(), "volley:require", require_module(&name))?;
        let (_, promise) = module.eval()?;
        promise.result().unwrap_or(Err(rquickjs::Error::WouldBlock))
    };
    let setup: Function<'js> = ctx.eval(COMMONJS_RUNTIME)?;
    setup.call::<_, ()>((Func::from(resolve), Func::from(evaluate)))?;
    let name = sources.entry();
    let code = sources.module(name).map_err(|e| Exception::throw_message(ctx, &e.to_string()))?;
    let module = Module::declare(ctx.clone(), name, code.code.as_str())?;
    let (module, promise) = module.eval()?;
    promise.finish::<()>()?;
    let namespace: Object<'js> = module.namespace()?;
    let whole: Value<'js> = match code.kind {
        Kind::CommonJs => namespace.get(WHOLE_EXPORTS)?,
        _ => namespace.into_value(),
    };
    if let Some(function) =
        whole.as_object().and_then(|o| o.get::<_, Function<'js>>("default").ok())
    {
        let answer: Value<'js> = function.call(())?;
        if let Some(promise) = answer.into_promise() {
            promise.finish::<Value<'js>>()?;
        }
    }
    while ctx.execute_pending_job() {}
    Ok(())
}

/// The first frame of the stack in the user's own lines.
fn place_in_user_code(sources: &Sources, error: CaughtError<'_>) -> String {
    let CaughtError::Exception(exception) = error else {
        return error.to_string();
    };
    let message = exception.message().unwrap_or_default();
    let stack = exception.stack().unwrap_or_default();
    let frame = stack.lines().find_map(|line| {
        let start = line.find("file://")?;
        let mut parts = line[start..].trim_end_matches(')').rsplitn(3, ':');
        let column: u32 = parts.next()?.parse().ok()?;
        let line: u32 = parts.next()?.parse().ok()?;
        let name = parts.next()?;
        let (line, column) = sources.original(name, line, column);
        Some(format!("{name}:{line}:{column}"))
    });
    format!("{message} @ {}", frame.unwrap_or_default())
}

#[track_caller]
fn says(files: &[(&str, &str)], expected: &str) {
    assert_eq!(run(files), Ok(expected.to_owned()), "{}", files[0].1);
}

#[track_caller]
fn fails(files: &[(&str, &str)], expected: &str) {
    match run(files) {
        Ok(said) => panic!("ran and said {said:?}"),
        Err(error) => assert!(error.contains(expected), "{error}"),
    }
}

#[test]
fn es_modules_import_each_other_in_cycles_and_by_every_kind_of_name() {
    let cycle = [
        (
            "a.js",
            "import { two } from './lib/b.js'; export function one() { return 'one' }\nsay(two());",
        ),
        (
            "lib/b.js",
            "import { one } from '../a.js'; export function two() { return 'two' + one() }",
        ),
    ];
    says(&cycle, "twoone");
    says(
        &[
            (
                "a.js",
                "import http from 'k6/http'; import {demo, deep} from 'https://jslib.k6.io/demo/1.0.0/index.js';\
              import * as s from './a b#c?.js'; say(http.get + demo + deep + s.x)",
            ),
            ("a b#c?.js", "export const x = 'odd'"),
        ],
        "gotdemodeepodd",
    );
    says(
        &[("a.js", "import {x} from './a%20b.js'; say(x)"), ("a b.js", "export const x = 'blank'")],
        "blank",
    );
    says(
        &[
            ("a.js", "export default async () => say((await import('./' + 'b.js')).x)"),
            ("b.js", "export const x = 'later'"),
        ],
        "later",
    );
}

#[test]
fn json_is_a_default_export_and_a_required_value() {
    let data = ("d.json", "\u{feff}{\"n\": 5, \"__proto__\": \"own\", \"t\": \"\u{2028}'\\\"\"}");
    says(
        &[
            ("a.js", "import d from './d.json'; say(d.n + Object.keys(d).join() + d.t.length)"),
            data,
        ],
        "5n,__proto__,t3",
    );
    says(&[("a.js", "import d from './d.json' with { type: 'json' }; say('' + d.n)"), data], "5");
    says(&[("a.js", "say('' + require('./d.json').n)"), data], "5");
    fails(&[("a.js", "import d from './d.json'"), ("d.json", "{\n  \"a\": x }")], "d.json:2:");
}

#[test]
fn a_commonjs_file_can_be_imported_as_in_k6() {
    // All but the last two were run in k6 with the same outcome. There `null` is refused, and so
    // is a shebang in CommonJS.
    let file = |text: &'static str| ("c.js", text);
    let imports = "import d, { a, zzz } from './c.js'; import * as ns from './c.js';\n\
                   say(`${typeof d} ${JSON.stringify(d)} ${a} ${zzz} ${ns.b}`)";
    for (text, expected) in [
        ("exports.a = 1; exports.b = 2", "object {\"a\":1,\"b\":2} 1 undefined 2"),
        ("module.exports = { a: 1, b: 2 }", "object {\"a\":1,\"b\":2} 1 undefined 2"),
        (
            "module.exports = function () {}; module.exports.a = 7",
            "function undefined 7 undefined undefined",
        ),
        ("module.exports = { a: 1, default: 'dd' }", "string \"dd\" 1 undefined undefined"),
        (
            "Object.defineProperty(exports, '__esModule', { value: true }); exports.default = 'e'; exports.a = 3",
            "string \"e\" 3 undefined undefined",
        ),
        (
            "for (const k of ['a', 'b']) exports[k] = k",
            "object {\"a\":\"a\",\"b\":\"b\"} a undefined b",
        ),
        ("exports.a = 1; return; exports.b = 2", "object {\"a\":1} 1 undefined undefined"),
        ("module.exports = null", "object null undefined undefined undefined"),
        (
            "#!/usr/bin/env node\nexports.a = this === exports",
            "object {\"a\":true} true undefined undefined",
        ),
    ] {
        says(&[("a.js", imports), file(text)], expected);
    }
}

#[test]
fn names_of_commonjs_exports_are_seen_without_being_asked_for() {
    // Through `import * as` and keys nothing is asked for by name. k6 lists the same names, and
    // `default` only where the file assigns it.
    let keys = "import * as ns from './c.js'; say(Object.keys(ns).filter(k => k !== 'module.exports').join())";
    for (text, expected) in [
        ("const api = { a: 1 }; api.b = 2; module.exports = api", "a,b,default"),
        ("exports = module.exports = { a: 1, 'b-c': 2, ['d']: 3 }", "a,b-c,default"),
        ("module.exports = require('./d.js')", "default,x,y"),
        ("module.exports = { ...require('./d.js'), z: 1 }", "default,x,y,z"),
        (
            "var __exportStar = (m, e) => Object.assign(e, m); __exportStar(require('./d.js'), exports)",
            "default,x,y",
        ),
        ("Object.assign(module.exports, { a: 1 }, require('./d.js'))", "a,default,x,y"),
        (
            "(function (f) { f(exports) })(function (e) { 'use strict'; Object.defineProperty(exports, 'q', { value: 1 }) })",
            "default,q",
        ),
        ("Object.assign(exports, require('./e.js'))", "default,k,l"),
        ("exports.delete = 1", "default,delete"),
    ] {
        let others = ("d.js", "exports.x = 1; module.exports.y = 2; exports.default = 9;");
        let esm = ("e.js", "export const k = 1; export function l() {}");
        says(&[("a.js", keys), ("c.js", text), others, esm], expected);
    }
}

#[test]
fn require_sees_both_kinds_and_cycles_are_as_in_node() {
    says(
        &[
            (
                "a.js",
                "const c = require('./c.js'), e = require('./e.js'), h = require('k6/http');\n\
              exports.options = {}; exports.default = function () { say(c.a + e.default + e.named + h.get) }",
            ),
            ("c.js", "module.exports = { a: 'A' }"),
            ("e.js", "export default 'D'; export const named = 'N'"),
        ],
        "ADNgot",
    );
    says(
        &[
            (
                "a.js",
                "exports.early = 1; const b = require('./b.js'); exports.late = 2; say(b.got)",
            ),
            ("b.js", "const a = require('./a.js'); exports.got = JSON.stringify(a)"),
        ],
        "{\"early\":1}",
    );
}

#[test]
fn require_of_an_es_module_that_leads_back_is_refused_before_the_engine_is_harmed() {
    let back = "import { x } from './a.js'; export const y = () => x";
    let refused = "which is still being evaluated";
    fails(&[("a.js", "const b = require('./b.js'); export const x = 1"), ("b.js", back)], refused);
    fails(&[("a.js", "exports.x = 1; const b = require('./b.js')"), ("b.js", back)], refused);
    fails(
        &[
            ("a.js", "import './c.js'; export const x = 1"),
            ("c.js", "require('./d.js')"),
            ("d.js", "require('./b.js')"),
            ("b.js", back),
        ],
        refused,
    );
    // What is imported later by the same script is not in the way.
    says(
        &[
            ("a.js", "import './c.js'; import { u } from './u.js'; say(u)"),
            ("c.js", "say(require('./u.js').u)"),
            ("u.js", "import './v.js'; say('once'); export const u = 'u'"),
            ("v.js", "export {}"),
        ],
        "once u u",
    );
}

#[test]
fn no_job_runs_inside_a_require() {
    says(
        &[
            (
                "a.js",
                "Promise.resolve().then(() => say('job')); require('./e.js'); require('./c.js'); say('end'); export {}",
            ),
            ("e.js", "export const e = 1"),
            ("c.js", "exports.c = 1"),
        ],
        "end job",
    );
}

#[test]
fn one_file_is_evaluated_once_however_it_is_asked_for() {
    says(
        &[
            (
                "a.js",
                "import './c.js'; import { n } from './c.js'; const c = require('./c.js'); say('' + (c.n === n))",
            ),
            ("c.js", "say('ran'); exports.n = {}"),
        ],
        "ran true",
    );
    says(
        &[
            (
                "a.js",
                "for (const i of [1, 2]) try { require('./c.js') } catch (e) { say(e.message) }",
            ),
            ("c.js", "say('ran'); throw new Error('no')"),
        ],
        "ran no no",
    );
}

#[test]
fn require_that_fails_can_be_caught_and_names_the_line() {
    says(
        &[(
            "a.js",
            "\nlet x; try { x = require('./optional.js') } catch (e) { x = e.message } say(x.split(': ')[0])",
        )],
        "a.js:2:26",
    );
    fails(&[("a.js", "const n = './no' + 'pe.js';\n\nrequire(n)")], "\"./nope.js\" does not exist");
    fails(&[("a.js", "require('')")], "non-empty string");
}

#[test]
fn typescript_runs_without_its_types() {
    says(
        &[
            (
                "a.ts",
                "import { Options } from 'k6/options';\nimport type { X } from './nope.ts';\nimport { T, v } from './b.ts';\n\
              enum Color { Red, Green = 'g' }\nconst enum CE { A = 3 }\n\
              namespace N { export const v = 4; export namespace M { export function f(): number { return v } } }\n\
              class P { constructor(public a: number, private readonly b = 2) {} sum(): number { return this.a + this.b } declare z: string; q!: number }\n\
              abstract class Q<U> { abstract f(): U }\n\
              export const options: Options = { vus: 1 } satisfies Options;\n\
              function over(a: string): void;\nfunction over(a: any) { say(`${a}`) }\n\
              export default function (this: unknown): void { let r: X | undefined; const t: T = 1;\n\
              over([Color[0], Color.Green, CE.A, N.M.f(), new P(1).sum(), <any>5, r!, v, t, \
              Object.keys(new P(1))].join()) }",
            ),
            ("b.ts", "export type T = number; export const v: string = 'v' as const"),
        ],
        // Keys come as the TypeScript compiler orders them; k6's compiler puts `q` first.
        "Red,g,3,4,3,5,,v,1,a,b,q",
    );
    says(
        &[
            (
                "a.ts",
                "import c = require('./c.ts');\nimport d = require('./c.ts');\nexport = { default(): void { say(c.x + typeof d) } };",
            ),
            ("c.ts", "const x: string = 'cjs';\nexports.x = x;"),
        ],
        "cjsobject",
    );
}

#[test]
fn positions_are_those_of_the_users_file() {
    for (name, text, expected) in [
        (
            "a.ts",
            "interface A {\n  b: string\n}\n\nexport default function () {\n  const x: A = { b: 'x' };\n  throw new Error(x.b); }",
            "x @ /a.ts:7:19",
        ),
        (
            "b.ts",
            "type T = 1;\nconst s: string = 'éé𝄞'; throw new Error(s); export {}",
            "@ /b.ts:2:42",
        ),
        ("c.ts", "exports.x = 1 as number;\n\nenum E { A }\nthrow new Error('e')", "@ /c.ts:4:11"),
        ("a.js", "\n\n  throw new Error('e'); export {}", "@ /a.js:3:13"),
        ("b.js", "const s = 'éé𝄞'; throw new Error('e'); export {}", "@ /b.js:1:28"),
        ("c.js", "exports.x = 1; throw new Error('e')", "@ /c.js:1:26"),
        ("d.js", "exports.x = 'é';\r\n  throw new Error('e')", "@ /d.js:2:13"),
        ("e.js", "require('./f.js'); export {};\nthrow new Error('e')", "@ /e.js:2:11"),
        ("f.js", "\u{feff}#!shebang\nthrow new Error('e'); export {}", "@ /f.js:2:11"),
    ] {
        let got = run(&[(name, text), ("f.js", if name == "f.js" { text } else { "" })]);
        let got =
            got.expect_err(name).replace("@ a", "@ /a").replace("@ ", "@ /").replace("//", "/");
        assert!(got.contains(expected), "{name}: {got}, not {expected}");
    }
}

#[test]
fn a_script_that_was_sent_runs_without_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.js"), "import {x} from './b.ts'; say(x + require('./c.js'))").expect("a");
    std::fs::write(at("b.ts"), "export const x: string = 'ts'").expect("b");
    std::fs::write(at("c.js"), "module.exports = 'cjs'").expect("c");
    let here = Arc::new(Sources::open(&at("a.js"), BUILTINS).expect("sources"));
    assert_eq!(run_sources(&here, folder.path()), Ok("tscjs".to_owned()));
    here.file(here.entry(), "./b.ts").expect("a file");
    let loaded = here.loaded();
    assert_eq!(loaded.len(), 3);
    for name in ["a.js", "b.ts", "c.js"] {
        std::fs::remove_file(at(name)).expect("gone");
    }
    let there = Arc::new(Sources::from_loaded(here.entry(), loaded, BUILTINS).expect("sources"));
    assert_eq!(run_sources(&there, folder.path()), Ok("tscjs".to_owned()));
    let error = there.file(there.entry(), "./other.txt").expect_err("not sent");
    assert_eq!(error.kind, SourceErrorKind::NotFound);
}

#[test]
fn the_standard_input_imports_from_the_current_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("b.js"), "export const x = 'b'").expect("b");
    let text = "import {x} from './b.js'; say(x)";
    let sources = Sources::from_stdin(text, folder.path(), BUILTINS).expect("sources");
    assert_eq!(run_sources(&Arc::new(sources), folder.path()), Ok("b".to_owned()));
}
