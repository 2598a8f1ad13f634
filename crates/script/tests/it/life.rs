//! A virtual user's life: init, iterations, suspension, and every way to end badly.

use std::time::{Duration, Instant};

use crate::common::{Rig, call, on_core};
use script::thrown::{Thrown, ThrownKind};

/// What one call of the default function throws.
fn thrown_by(rig: &Rig) -> Thrown {
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        call(&vu, "default").await.unwrap_err()
    })
}

#[test]
fn a_blocking_sleep_suspends_the_virtual_user_and_not_the_core() {
    let rig = Rig::new("import { sleep } from 'k6'; export default () => sleep(0.2);", &[]);
    let took = on_core(async {
        let (one, two) = (rig.vu(), rig.vu());
        one.init().await.unwrap();
        two.init().await.unwrap();
        let begun = Instant::now();
        let (a, b) = futures_util::join!(call(&one, "default"), call(&two, "default"));
        a.unwrap();
        b.unwrap();
        begun.elapsed()
    });
    assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(390), "{took:?}");
}

#[test]
fn a_script_that_computes_lets_others_have_a_turn_and_is_cut_off_with_its_line() {
    let rig = Rig::new(
        "import { sleep } from 'k6';
        export default () => sleep(0.01);
        const count = (n) => {
            for (let i = 0; i < 1000; i += 1)
                n += Math.abs(i);
            return n;
        };
        export function busy() {
            try { for (;;) count(1); } catch (e) { for (;;) {} }
        }",
        &[],
    );
    on_core(async {
        let (lazy, busy) = (rig.vu(), rig.vu());
        lazy.init().await.unwrap();
        busy.init().await.unwrap();
        let spinning = call(&busy, "busy");
        tokio::pin!(spinning);
        for _ in 0..3 {
            tokio::select! {
                biased;
                _ = &mut spinning => panic!("an endless loop ended"),
                done = call(&lazy, "default") => drop(done.unwrap()),
            }
        }
        busy.cancel();
    });
    let said = rig.said();
    assert!(said.len() == 1 && said[0].contains("count (file://"), "{said:?}");
    // Where in the function it was, is known to the last call or jump that the engine noted.
    let lines = ["script.js:3:", "script.js:4:", "script.js:5:"];
    assert!(lines.iter().any(|line| said[0].contains(line)), "{said:?}");
}

#[test]
fn an_iteration_that_waits_is_cut_off_in_silence_and_cannot_hold_on() {
    let rig = Rig::new(
        "import { sleep } from 'k6';\nexport default () => {\n\
         for (;;) { try { sleep(100) } catch (e) { console.log('caught') } finally { sleep(1) } }\n}",
        &[],
    );
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        let cut = tokio::time::timeout(Duration::from_millis(30), call(&vu, "default")).await;
        assert!(cut.is_err());
        let begun = Instant::now();
        drop(vu);
        assert!(begun.elapsed() < Duration::from_secs(1));
    });
    assert_eq!(rig.said(), Vec::<String>::new());
}

#[test]
fn an_exception_has_a_message_a_file_and_a_line() {
    let rig =
        Rig::new("export default () => {\n  const nothing = undefined;\n  nothing.x;\n};", &[]);
    let thrown = thrown_by(&rig);
    assert_eq!(thrown.kind, ThrownKind::Exception);
    assert!(thrown.message.starts_with("TypeError: "), "{}", thrown.message);
    assert!(thrown.stack[0].contains("script.js:3:"), "{:?}", thrown.stack);
}

#[test]
fn after_an_exception_the_virtual_user_goes_on() {
    let rig = Rig::new(
        "let count = 0;\nexport default () => { count += 1; if (count < 2) throw new Error('no'); };",
        &[],
    );
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        assert!(call(&vu, "default").await.is_err());
        assert!(call(&vu, "default").await.is_ok());
    });
}

#[test]
fn recursion_without_end_is_an_exception() {
    let rig = Rig::new("const f = (n) => f(n + 1) + 1;\nexport default () => f(0);", &[]);
    let thrown = thrown_by(&rig);
    assert!(thrown.message.contains("call stack"), "{}", thrown.message);
    assert!(thrown.stack[0].contains("script.js:1:"), "{:?}", thrown.stack);
}

#[test]
fn memory_without_end_is_an_exception_and_the_next_iteration_has_room_again() {
    let rig = Rig::with_memory(
        "export default () => { const all = []; for (;;) all.push(new Array(1000).fill(7)); };\n\
         export const modest = () => new Array(1000).fill(7).length;",
        &[],
        8 << 20,
    );
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        let thrown = call(&vu, "default").await.unwrap_err();
        assert!(thrown.message.contains("memory"), "{}", thrown.message);
        call(&vu, "modest").await.unwrap();
    });
}

#[test]
fn an_iteration_lasts_until_its_promises_and_timers_are_done() {
    let rig = Rig::new(
        "export default async () => {
            setTimeout(() => console.log('timer'), 20);
            const cleared = setTimeout(() => console.log('never'), 5);
            clearTimeout(cleared);
            await new Promise((done) => setTimeout(done, 10));
            console.log('awaited');
        };",
        &[],
    );
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        call(&vu, "default").await.unwrap();
    });
    assert_eq!(rig.said(), ["awaited", "timer"]);
}

#[test]
fn a_rejection_that_nobody_handles_ends_the_iteration() {
    for code in [
        "export default async () => { throw new TypeError('late'); };",
        "export default () => { Promise.reject(new TypeError('late')); };",
        "export default () => { setTimeout(() => { throw new TypeError('late'); }, 1); };",
    ] {
        assert_eq!(thrown_by(&Rig::new(code, &[])).message, "TypeError: late", "{code}");
    }
}

#[test]
fn files_environment_and_modules_are_there_in_the_init_stage() {
    let rig = Rig::new(
        "import { half } from './half.js';
         import names from './names.json';
         const { double } = require('./double.js');
         const text = open('./half.js');
         console.log(half(8), names[1], double(8), text.length > 5, __ENV.HOME_TOWN);
         export default () => open('./half.js');",
        &[
            ("half.js", "export const half = (n) => n / 2;"),
            ("double.js", "exports.double = (n) => n * 2;"),
            ("names.json", "[\"Ann\", \"Bob\"]"),
        ],
    );
    let thrown = thrown_by(&rig);
    assert!(thrown.message.contains("only available in the init stage"), "{}", thrown.message);
    assert_eq!(rig.said(), ["4 Bob 16 true Bern"]);
}

#[test]
fn a_shared_array_is_made_once_and_its_elements_are_frozen_copies() {
    let rig = Rig::new(
        "import { SharedArray } from 'k6/data';
         const all = new SharedArray('users', () => { console.log('made'); return [{ n: 1 }, { n: 2 }]; });
         export default () => {
            console.log(all.length, all[1].n, all[2], Array.isArray(all), all.map((u) => u.n).join());
            console.log(JSON.stringify(all), [...all].length, Object.keys(all).join(), 1 in all);
            try { all[0].n = 5; } catch (e) { console.log(e.name); }
            try { all[0] = 5; } catch (e) { console.log(e.name); }
         };",
        &[],
    );
    on_core(async {
        for _ in 0..2 {
            let vu = rig.vu();
            vu.init().await.unwrap();
            call(&vu, "default").await.unwrap();
        }
    });
    let said = rig.said();
    let one =
        ["2 2 undefined true 1,2", "[{\"n\":1},{\"n\":2}] 2 0,1 true", "TypeError", "TypeError"];
    assert_eq!(said[0], "made");
    assert_eq!(said[1..5], one);
    assert_eq!(said[5..], one);
}

#[test]
fn whatever_a_script_uses_its_memory_is_free_when_it_ends() {
    let modules = [
        "",
        "import { check, group } from 'k6'; const run = () => { check(1, { a: () => true }); group('g', () => 1) };",
        "import http from 'k6/http'; const run = () => { http.cookieJar(); http.expectedStatuses(200) };",
        "import { Counter, Trend } from 'k6/metrics'; const c = new Counter('cc'); const run = () => c.name;",
        "import { SharedArray } from 'k6/data'; const d = new SharedArray('d', () => [1, 2]); const run = () => d[1];",
        "import exec from 'k6/execution'; const run = () => { exec.vu.metrics.tags.a = 'b'; exec.scenario.name };",
        "import { b64encode } from 'k6/encoding'; const run = () => b64encode('a');",
        "import crypto from 'k6/crypto'; const run = () => crypto.createHash('md5').digest('hex');",
        "import { setTimeout } from 'k6/timers'; const run = () => setTimeout(() => 1, 1);",
        "import { URL } from 'https://jslib.k6.io/url/1.0.0/index.js'; const run = () => new URL('http://a/b').href;",
        "const run = () => { new TextEncoder().encode('a'); crypto.randomUUID(); __ENV.X; open };",
        "const { x } = require('./x.js'); const run = () => x;",
        "const run = () => { const a = {}; a.a = a; Promise.reject(new Error('x')).catch(() => 1); };",
        "const run = () => { throw new Error('x'); };",
    ];
    for code in modules {
        let run = if code.is_empty() { "const run = () => 1;" } else { "" };
        let code = format!("{code}{run}\nexport default () => run();");
        let rig = Rig::new(&code, &[("x.js", "exports.x = 1;")]);
        on_core(async {
            let vu = rig.vu();
            vu.init().await.unwrap();
            let _ = call(&vu, "default").await;
        });
        assert_eq!(rig.script.budget.leaked(), 0, "{code}");
    }
}
