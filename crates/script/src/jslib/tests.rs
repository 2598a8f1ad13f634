//! The libraries run in QuickJS as a script would run them.

use rquickjs::loader::{BuiltinLoader, BuiltinResolver};
use rquickjs::{CatchResultExt, Context, Module, Runtime};

use super::*;

mod papaparse;
mod summary;
mod url;

/// Stand-ins for what the libraries import. `check` notes what it is told; a test sets
/// `globalThis.exec`.
const STAND_INS: &[(&str, &str)] = &[
    (
        "k6",
        "globalThis.noted = [];
         export function check(value, tests, tags) {
           let passed = true;
           for (const [name, test] of Object.entries(tests)) {
             let held;
             try { held = !!(typeof test === 'function' ? test(value) : test); }
             catch (e) { noted.push(`${name}=threw`); throw e; }
             noted.push(`${name}=${held}${tags ? JSON.stringify(tags) : ''}`);
             passed = passed && held;
           }
           return passed;
         }",
    ),
    ("k6/execution", "export default new Proxy({}, { get: (_, name) => globalThis.exec[name] });"),
    ("k6/crypto", "export const { randomBytes } = globalThis.nativeCrypto;"),
];

const IMPORTS: &str = "
    import * as utils from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
    import * as summary from 'https://jslib.k6.io/k6-summary/0.1.0/index.js';
    import { URL, URLSearchParams } from 'https://jslib.k6.io/url/1.0.0/index.js';
    import Papa, { parse } from 'https://jslib.k6.io/papaparse/5.1.1/index.js';
";

/// Runs a script that gives its answer to `answer(text)`, with `given` as a global string.
fn run_with(script: &str, given: &str) -> String {
    let runtime = Runtime::new().expect("a runtime");
    let context = Context::full(&runtime).expect("a context");
    let addresses: Vec<_> = IMPORTS.lines().filter_map(|line| line.split('\'').nth(1)).collect();
    let mut resolver = BuiltinResolver::default();
    let mut loader = BuiltinLoader::default();
    for (name, source) in STAND_INS {
        resolver.add_module(*name);
        loader.add_module(*name, *source);
    }
    for address in addresses {
        resolver.add_module(address);
        loader.add_module(address, find(address).expect("a known address"));
    }
    runtime.set_loader(resolver, loader);
    context.with(|ctx| {
        let crypto = crate::modules::crypto::exports(&ctx).expect("exports");
        ctx.globals().set("nativeCrypto", crypto).expect("a global");
        ctx.globals().set("given", given).expect("a global");
        let source = format!(
            "{IMPORTS} globalThis.answer = (value) => {{ globalThis.answered = `${{value}}`; }};
             {script}"
        );
        let evaluated = Module::evaluate(ctx.clone(), "test", source).catch(&ctx);
        let promise = evaluated.unwrap_or_else(|error| panic!("{script}: {error}"));
        if let Err(error) = promise.finish::<()>().catch(&ctx) {
            panic!("{script}: {error}");
        }
        ctx.globals().get("answered").expect("an answer")
    })
}

fn value_of(expression: &str) -> String {
    run_with(
        &format!(
            "try {{ const v = await ({expression});
               answer(typeof v === 'string' ? v : JSON.stringify(v));
             }} catch (e) {{ answer(`${{e.name}}: ${{e.message}}`) }}"
        ),
        "",
    )
}

fn check_table(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(value_of(expression), *expected, "{expression}");
    }
}

#[test]
fn every_version_of_a_known_library_is_found() {
    let base = "https://jslib.k6.io";
    for (name, _) in LIBRARIES {
        for version in ["0.0.1", "1.4.0", "latest"] {
            assert!(find(&format!("{base}/{name}/{version}/index.js")).is_some(), "{name}");
        }
    }
    for other in [
        "https://jslib.k6.io/k6-utils/index.js",
        "https://jslib.k6.io/k6-utils/1.0.0/other.js",
        "https://jslib.k6.io/k6-utils/1.0.0/sub/index.js",
        "https://jslib.k6.io/aws/0.11.0/index.js",
        "https://example.com/k6-utils/1.0.0/index.js",
        "./k6-utils/1.0.0/index.js",
    ] {
        assert_eq!(find(other), None, "{other}");
    }
}

#[test]
fn utils_draw_at_random_within_bounds() {
    check_table(&[
        (
            "(() => { const seen = new Set();
                for (let i = 0; i < 500; i++) seen.add(utils.randomIntBetween(3, 5));
                return [...seen].sort() })()",
            "[3,4,5]",
        ),
        (
            "(() => { const seen = new Set();
                for (let i = 0; i < 200; i++) seen.add(utils.randomItem(['a', 'b']));
                return [...seen].sort() })()",
            r#"["a","b"]"#,
        ),
        ("/^[a-z]{40}$/.test(utils.randomString(40))", "true"),
        ("/^[xy]{40}$/.test(utils.randomString(40, 'xy'))", "true"),
        ("utils.randomString(0)", ""),
        ("utils.randomString(9) !== utils.randomString(9)", "true"),
        (
            "[false, true].map((secure) =>
                /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
                    .test(utils.uuidv4(secure)))",
            "[true,true]",
        ),
        ("utils.uuidv4() !== utils.uuidv4()", "true"),
    ]);
}

#[test]
fn utils_find_text_between_marks() {
    check_table(&[
        ("utils.findBetween('<b>one</b><b>two</b>', '<b>', '</b>')", "one"),
        ("utils.findBetween('<b>one</b><b>two</b>', '<b>', '</b>', true)", r#"["one","two"]"#),
        ("utils.findBetween('<b>one</b><b>two', '<b>', '</b>', true)", r#"["one"]"#),
        ("utils.findBetween('nothing', '<b>', '</b>')", ""),
        ("utils.findBetween('<b>open', '<b>', '</b>')", ""),
        ("utils.findBetween('nothing', '<b>', '</b>', true)", "[]"),
        ("utils.findBetween('|a|b|', '|', '|', true)", r#"["a"]"#),
    ]);
}

#[test]
fn utils_make_a_bell_of_stages() {
    check_table(&[
        (
            "utils.normalDistributionStages(10, 20, 5).map((s) => `${s.duration} ${s.target}`)",
            r#"["4s 1","4s 6","4s 10","4s 6","4s 1"]"#,
        ),
        ("utils.normalDistributionStages(10, 20).length", "10"),
        ("Math.max(...utils.normalDistributionStages(70, 20, 4).map((s) => s.target))", "70"),
        ("utils.normalDistributionStages(7, 20, 1)", r#"[{"duration":"20s","target":7}]"#),
        (
            "utils.normalDistributionStages(7, 10, 3).reduce((sum, s) => sum + parseFloat(s.duration), 0)",
            "10",
        ),
    ]);
}

/// A script in a scenario of three stages, asked at four moments.
#[test]
fn utils_know_the_current_stage() {
    let at = |elapsed: u32, ask: &str| {
        run_with(
            &format!(
                "globalThis.exec = {{
                   scenario: {{ name: 'ramp', executor: 'ramping-vus', startTime: Date.now() - {elapsed} }},
                   test: {{ options: {{ scenarios: {{ ramp: {{ stages: [
                     {{ duration: '1m0s', target: 5 }}, {{ duration: '1m30.5s', target: 5 }},
                     {{ duration: 60000, target: 0 }} ] }} }} }} }},
                   vu: {{ metrics: {{ tags: {{}} }} }} }};
                 {ask}; answer(JSON.stringify(exec.vu.metrics.tags) + utils.getCurrentStageIndex());"
            ),
            "",
        )
    };
    let both = "utils.tagWithCurrentStageIndex(); utils.tagWithCurrentStageProfile()";
    for (elapsed, expected) in [
        (100, r#"{"stage":"0","stage_profile":"ramp-up"}0"#),
        (65_000, r#"{"stage":"1","stage_profile":"steady"}1"#),
        (152_000, r#"{"stage":"2","stage_profile":"ramp-down"}2"#),
        (999_000, r#"{"stage":"2","stage_profile":"ramp-down"}2"#),
    ] {
        assert_eq!(at(elapsed, both), expected, "after {elapsed} ms");
    }
    let refused = run_with(
        "globalThis.exec = { scenario: { name: 'flat', executor: 'constant-vus', startTime: 0 },
           test: { options: { scenarios: { flat: {} } } } };
         try { utils.getCurrentStageIndex() } catch (e) { answer(e.message) }",
        "",
    );
    assert!(refused.contains("scenario flat has no stages"), "{refused}");
}

#[test]
fn utils_check_waits_for_promises() {
    check_table(&[
        ("[utils.check(4, { even: (v) => v % 2 === 0, said: true }), noted]", r#"[true,["even=true","said=true"]]"#),
        ("[utils.check(4, { odd: (v) => v % 2 === 1 }, { t: '1' }), noted]", r#"[false,["odd=false{\"t\":\"1\"}"]]"#),
        (
            "(async () => { const p = utils.check(4, { now: true, later: async (v) => v === 4 });
                return [p instanceof Promise, await p, noted] })()",
            r#"[true,true,["now=true","later=true"]]"#,
        ),
        (
            "(async () => [await utils.check(Promise.resolve(5), \
             { five: (v) => v === 5, no: async () => 0 }), noted])()",
            r#"[false,["five=true","no=false"]]"#,
        ),
        (
            "(() => { try { utils.check(1, { a: () => true, b: () => { throw new Error('x') }, c: true }) }
                catch (e) { return [e.message, noted] } })()",
            r#"["x",["a=true","b=threw"]]"#,
        ),
        (
            "utils.check(1, { b: async () => { throw new Error('late') } }).catch((e) => [e.message, noted])",
            r#"["late",["b=threw"]]"#,
        ),
    ]);
}
