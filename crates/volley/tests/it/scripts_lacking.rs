//! Scripts that need a part of k6 that is not there: refused before the run, or ended at the first
//! call, and never a run that passes because nothing in it was tested.

use crate::common;
use crate::common::scripts::Scripts;

#[test]
fn a_call_that_the_text_shows_is_refused_before_anything_is_sent() {
    let scripts = Scripts::with(
        "import http from 'k6/http';\nimport { check } from 'k6';\nexport default function () {\n  \
         const res = http.get(__ENV.T);\n  check(res, { title: (r) => r.html('title').text() === 'x' });\n}\n",
    );
    let done =
        scripts.run(["test.js"]).expect(107).says("`Response.html()` of k6 is not available");
    for part in ["test.js:5:", "r.html('title')", "  help: HTML is not parsed"] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    assert_eq!((scripts.target.total(), done.out.as_str()), (0, ""));
}

#[test]
fn a_call_that_the_text_does_not_show_ends_the_run_at_once_with_107() {
    let scripts = Scripts::with(
        "import http from 'k6/http';\nexport const options = { vus: 4, duration: '10m' };\n\
         const title = (page) => page.html('title').text();\nexport default function () {\n  \
         try { title(http.get(__ENV.T)); } catch { }\n}\n\
         export function teardown() { console.log('torn down'); }\n",
    );
    let begin = std::time::Instant::now();
    let done = scripts.run(["test.js"]).expect(107);
    let said = "the script calls `Response.html()` of k6, which is not available";
    assert_eq!(done.err.matches(said).count(), 1, "said once: {}", done.err);
    assert!(done.err.contains("test.js:3:"), "with its place: {}", done.err);
    assert!(done.err.contains("torn down"), "{}", done.err);
    assert!(begin.elapsed().as_secs() < 30);
}

#[test]
fn the_same_holds_in_setup_and_in_the_init_code() {
    let scripts = Scripts::with(
        "import http from 'k6/http';\nconst link = (page) => page.clickLink();\n\
         export function setup() { link(http.get(__ENV.T)); }\nexport default function () { console.log('iterated'); }\n",
    );
    let done = scripts.run(["test.js"]).expect(107);
    let said = "the script calls `Response.clickLink()` of k6";
    assert_eq!(done.err.matches(said).count(), 1, "said once: {}", done.err);
    assert!(!done.err.contains("iterated"), "{}", done.err);
    let scripts = Scripts::with(
        "const { subtle } = crypto;\nsubtle.digest('SHA-256', new Uint8Array(1));\nexport default function () {}\n",
    );
    let done = scripts.run(["test.js"]).expect(107);
    let said = "the script calls `crypto.subtle.digest()` of k6";
    assert_eq!(done.err.matches(said).count(), 1, "said once: {}", done.err);
}

#[test]
fn a_method_of_ones_own_and_a_misspelt_one_behave_as_in_k6() {
    let scripts = Scripts::with(
        "import http from 'k6/http';\nexport const options = { iterations: 2 };\nexport default function () {\n  \
         const page = { html: () => 'mine' };\n  console.log(page.html());\n  http.get(__ENV.T).htm();\n}\n",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(common::scripts::count_lines(&done, "mine"), 2, "{}", done.err);
    assert_eq!(done.err.matches("\nTypeError").count(), 2, "{}", done.err);
}

#[test]
fn a_refused_script_without_a_terminal_is_told_in_readable_text() {
    let scripts =
        Scripts::with("import { parseHTML } from 'k6/html';\nexport default function () {}\n");
    let done = scripts.room.volley(["run", "test.js"]).expect(107);
    let lines: Vec<&str> = done.err.lines().collect();
    assert!(lines[0].contains("level=error msg=") && !lines[0].contains("\\n"), "{}", done.err);
    assert!(lines[0].contains("test.js:1:27: module"), "{}", done.err);
    assert_eq!(lines[1].trim(), "import { parseHTML } from 'k6/html';");
    assert!(lines[2].trim() == "^" && lines[3].starts_with("  help: "), "{}", done.err);
    // Who asks for JSON reads it with a program.
    let done = scripts.room.volley(["run", "test.js", "--log-format", "json"]).expect(107);
    let line: serde_json::Value = serde_json::from_str(done.err.trim()).unwrap();
    assert_eq!(line["level"], "error");
}
