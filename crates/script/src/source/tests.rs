//! What is refused, and with which words: tables of files and messages, without an engine.

use std::os::unix::fs::PermissionsExt;

use super::*;

const BUILTINS: Builtins = Builtins {
    exports: |_| None,
    status: |name| match name {
        "k6" | "k6/http" | "k6/metrics" => BuiltinStatus::Here,
        other => missing_builtin(other),
    },
    names: &["k6", "k6/http", "k6/metrics"],
    library: |url| (url == LIBRARY).then_some("export const x = 1;"),
    libraries: &[LIBRARY],
};
const LIBRARY: &str = "https://jslib.k6.io/k6-utils/1.4.0/index.js";

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &[u8])]) -> Folder {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, bytes).expect("a file");
        }
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, entry: &str) -> Sources {
        Sources::open(&self.path(entry), BUILTINS).expect("an entry")
    }

    /// What is said about a script, with paths relative to the folder.
    fn error(&self, entry: &str) -> String {
        let result = Sources::open(&self.path(entry), BUILTINS).and_then(|sources| {
            let name = sources.entry().to_owned();
            sources.module(&name).map(|_| ())
        });
        self.clean(&result.expect_err(entry).to_string())
    }

    fn clean(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// The message for a script of this text in a folder with a few files beside it.
fn said_of(text: &str) -> String {
    Folder::with(&[
        ("t.js", text.as_bytes()),
        ("util.js", b"export const u = 1;"),
        ("types.ts", b"export const t = 1;"),
        ("dir/index.js", b"export {};"),
        ("Helpers.js", b"export {};"),
        ("broken.js", b"export const a = 1;\nlet x = ;\n"),
    ])
    .error("t.js")
}

#[test]
fn every_import_that_fails_says_where_and_what_to_do() {
    for (text, expected) in [
        ("import './util'", vec!["t.js:1:8: ", "extensions are not guessed: write \"./util.js\""]),
        ("import './types.js'", vec!["did you mean \"./types.ts\"?"]),
        (
            "\n  import a from './utli.js'",
            vec![
                "t.js:2:17: \"./utli.js\" does not exist",
                "did you mean \"./util.js\"?",
                "\n                    ^",
            ],
        ),
        ("import './helpers.js'", vec!["did you mean \"./Helpers.js\"?"]),
        ("import './dir'", vec!["is a folder", "write \"./dir/index.js\""]),
        ("import './dir/'", vec!["write \"./dir/index.js\""]),
        ("import './no/where.js'", vec!["there is no folder"]),
        ("import 'util.js'", vec!["no module \"util.js\"", "\"./util.js\""]),
        ("import _ from 'lodash'", vec!["no module \"lodash\"", "bundle it"]),
        ("import fs from 'node:fs'", vec!["modules of Node.js"]),
        (
            "import h from 'k6/htpp'",
            vec!["t.js:1:15: there is no module \"k6/htpp\"", "did you mean \"k6/http\"?"],
        ),
        (
            "import ws from 'k6/ws'",
            vec!["t.js:1:16: module \"k6/ws\" is not available", "WebSocket"],
        ),
        ("import r from 'k6/experimental/redis'", vec!["not available", "k6/x/redis"]),
        ("import r from 'k6/experimental/timers'", vec!["remove the import"]),
        ("import k from 'k6/x/kafka'", vec!["extension"]),
        ("import { Options } from 'k6/options'", vec!["import type"]),
        (
            "import 'http://example.com/x.js'",
            vec!["t.js:1:8: ", "nothing is fetched by URL", "download it and import the file"],
        ),
        (
            "import 'https://jslib.k6.io/k6-utils/9.9.9/index.js'",
            vec!["built in: https://jslib.k6.io/k6-utils/1.4.0/index.js"],
        ),
        ("import 'file://host/x.js'", vec!["not the URL of a local file"]),
        ("import ''", vec!["cannot be empty"]),
        ("import './one.js';\nimport './two.js'", vec!["t.js:1:8: \"./one.js\""]),
        // What is wrong in an imported file is told with its own place.
        ("import './broken.js'", vec!["broken.js:2:9: syntax error: "]),
    ] {
        let said = said_of(text);
        for part in expected {
            assert!(said.contains(part), "{text}\nsays\n{said}\nwithout\n{part}");
        }
    }
}

#[test]
fn every_syntax_error_says_where() {
    for (file, text, expected) in [
        (
            "a.js",
            "export default function(){\n  let x = ;\n}",
            "a.js:2:11: syntax error: Unexpected token\n      let x = ;\n              ^",
        ),
        ("a.js", "export const a = 1; export const a = 2;", "a.js:1:34: syntax error"),
        ("a.js", "export { nothing }", "a.js:1:10: syntax error"),
        ("a.js", "let a;\nlet a;", "a.js:2:5: syntax error"),
        ("a.js", "const r = /(/; export {}", "a.js:1:"),
        ("a.js", "with ({}) {}", "a.js:1:1: syntax error"),
        ("a.js", "export {}; return 1", "a.js:1:12: syntax error: `return` outside"),
        ("a.js", "export const x: number = 1", "give the file a name that ends in .ts"),
        (
            "a.js",
            "import 'k6';\nexports.x = 1",
            "a.js:2:1: `exports` does not exist in an ES module",
        ),
        ("a.js", "await 1;\nmodule.exports = 1", "a.js:2:1: `exports` does not exist"),
        ("a.js", "function f() {", "a.js:1:15: syntax error"),
        ("a.js", "break;", "a.js:1:1: syntax error"),
        ("a.ts", "interface A {\nexport default function() {", "a.ts:2:"),
        ("a.ts", "@d class A {}\nexport {}", "a.ts:1:1: decorators are not supported"),
        ("a.js", "class A { @d m() {} }", "a.js:1:11: decorators are not supported"),
    ] {
        let said = Folder::with(&[(file, text.as_bytes())]).error(file);
        assert!(said.contains(expected), "{text}\nsays\n{said}\nnot\n{expected}");
    }
}

#[test]
fn code_of_javascript_is_handed_out_as_it_was_written() {
    for text in [
        "import 'k6';\r\n\texport default () => {}; // ü\r\n",
        "#!/usr/bin/env k6\nexport {}",
        "export default 1 /* no newline at the end */",
        "const x = await 1;",
    ] {
        let folder = Folder::with(&[("t.js", text.as_bytes())]);
        let sources = folder.open("t.js");
        let module = sources.module(sources.entry()).expect(text);
        assert_eq!((module.code.as_str(), module.kind), (text, Kind::Esm));
        assert!(module.lines.is_none());
    }
}

#[test]
fn what_is_commonjs_is_decided_by_the_tree() {
    for (text, kind) in [
        ("// import x from 'y'\nexports.a = 'export default 1'", Kind::CommonJs),
        ("console.log(1)", Kind::CommonJs),
        ("", Kind::CommonJs),
        (
            "async function f() { await 1 } const g = async () => { for await (const x of []) ; }",
            Kind::CommonJs,
        ),
        ("import('k6')", Kind::CommonJs),
        ("import.meta.url", Kind::Esm),
        ("for await (const x of []) ;", Kind::Esm),
        ("export {}", Kind::Esm),
        ("const a = require('./t.js'); export {}", Kind::Esm),
    ] {
        let folder = Folder::with(&[("t.js", text.as_bytes())]);
        let sources = folder.open("t.js");
        assert_eq!(sources.module(sources.entry()).expect(text).kind, kind, "{text}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = Folder::with(&[
        ("latin1.js", b"// one\n// caf\xe9\n"),
        ("utf16.js", b"\xff\xfee\0x\0"),
        ("secret.js", b"export {}"),
        ("takes.js", b"import './latin1.js'"),
        ("dir/x.js", b""),
    ]);
    for (file, expected) in [
        ("latin1.js", "latin1.js:2: not UTF-8: byte 0xe9 at offset 13"),
        ("takes.js", "takes.js:1:8: latin1.js:2: not UTF-8"),
        ("utf16.js", "looks like UTF-16"),
        ("nope.js", "nope.js: no such file"),
        ("latin.js", "did you mean \"latin1.js\"?"),
        ("latin1", "extensions are not guessed: write \"latin1.js\""),
        ("dir", "dir: is a folder, not a file"),
    ] {
        let said = folder.error(file);
        assert!(said.contains(expected), "{file}: {said}");
    }
    let secret = folder.path("secret.js");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).expect("a mode");
    // The superuser can read everything; then there is nothing to refuse.
    if std::fs::read(&secret).is_err() {
        assert!(folder.error("secret.js").contains("secret.js: permission denied"));
    }
}

#[test]
fn what_never_ends_or_is_too_large_or_too_deep_is_refused() {
    let endless = Sources::open(Path::new("/dev/zero"), BUILTINS).err().expect("no end");
    assert!(endless.to_string().contains("larger than 64 MiB"), "{endless}");

    let folder = Folder::with(&[]);
    let large = std::fs::File::create(folder.path("large.js")).expect("a file");
    large.set_len(files::CODE_BYTES_MAX + 1).expect("a size");
    assert!(folder.error("large.js").contains("larger than 64 MiB"));

    let nested = |depth: usize| {
        format!("export default {}1{}", "[(".repeat(depth / 2), ")]".repeat(depth / 2))
    };
    // Deep enough to end a parser on an ordinary stack, in both languages.
    let (deep, deeper) = (nested(parse::DEPTH_MAX), nested(600_000));
    let folder = Folder::with(&[
        ("deep.js", deep.as_bytes()),
        ("deep.ts", deep.as_bytes()),
        ("deeper.js", deeper.as_bytes()),
    ]);
    for file in ["deep.js", "deep.ts"] {
        let sources = folder.open(file);
        assert!(sources.module(sources.entry()).is_ok(), "{file}");
    }
    let said = folder.error("deeper.js");
    assert!(said.contains("deeper.js:1:20016: nested more than 20000 deep"), "{said}");
}

#[test]
fn a_library_of_ten_megabytes_is_prepared() {
    let mut text = String::from("export const list = [\n");
    for index in 0..200_000 {
        text.push_str(&format!("  {{ name: 'number {index}', value: {index} }},\n"));
    }
    text.push_str("];\nexports.bad = 1;\n");
    let line = text.lines().count();
    let said = Folder::with(&[("big.js", text.as_bytes())]).error("big.js");
    assert!(said.starts_with(&format!("big.js:{line}:1: ")), "{said}");
}

#[test]
fn open_finds_files_beside_the_module_and_reads_each_once() {
    let folder = Folder::with(&[
        ("t.js", b"export {}"),
        ("data.csv", b"root\xff"),
        ("lib/data.csv", b"lib"),
        ("a b.txt", b"blank"),
    ]);
    let sources = folder.open("t.js");
    let lib = name_of(&folder.path("lib/m.js")).expect("a name");
    let root = sources.entry();
    for (from, path, expected) in [
        (root, "./data.csv", b"root\xff".as_slice()),
        (root, "data.csv", b"root\xff"),
        (root, "lib/../data.csv", b"root\xff"),
        (root, "a b.txt", b"blank"),
        (lib.as_str(), "data.csv", b"lib"),
        (lib.as_str(), "../data.csv", b"root\xff"),
    ] {
        assert_eq!(&*sources.file(from, path).expect(path), expected, "{path}");
    }
    let url = name_of(&folder.path("a b.txt")).expect("a name");
    assert_eq!(&*sources.file(root, &url).expect("a URL"), b"blank");
    let absolute = folder.path("data.csv").display().to_string();
    let once = sources.file(root, "data.csv").expect("a file");
    assert!(Arc::ptr_eq(&once, &sources.file(root, &absolute).expect("a file")));

    for (path, expected) in [
        ("dat.csv", "did you mean \"data.csv\"?"),
        ("lib", "is a folder"),
        ("", "it is empty"),
        ("no/x.csv", "there is no folder"),
    ] {
        let said = sources.file(root, path).expect_err(path).to_string();
        assert!(said.contains(expected), "{path}: {said}");
    }
}

#[test]
fn an_error_is_told_again_and_a_repaired_file_is_not_needed_to_see_it() {
    let folder = Folder::with(&[("t.js", b"import './a.js'"), ("a.js", b"import './nope.js'")]);
    let sources = folder.open("t.js");
    let first = sources.module(sources.entry()).expect_err("missing");
    let second = sources.module(sources.entry()).expect_err("still missing");
    assert_eq!(first, second);
    assert!(first.to_string().contains("a.js:1:8: "), "{first}");
}

#[test]
fn all_cores_get_the_same_copy() {
    let folder = Folder::with(&[("t.ts", b"export const x: number = 1;")]);
    let sources = Arc::new(folder.open("t.ts"));
    let copies: Vec<Arc<Prepared>> = std::thread::scope(|scope| {
        let ask = || sources.module(sources.entry()).expect("a module");
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(copies.iter().all(|copy| Arc::ptr_eq(copy, &copies[0])));
}

#[test]
fn unused_imports_of_typescript_are_dropped_and_used_ones_are_checked() {
    let ok = "import { Options } from 'k6/options'; import { Nothing } from './nope.ts';\n\
              import type T from './nope.ts'; export const o: Options | Nothing | T = {};";
    let folder = Folder::with(&[
        ("t.ts", ok.as_bytes()),
        ("u.ts", b"type A = 1;\nimport { x } from './nope.ts';\nx();"),
    ]);
    let sources = folder.open("t.ts");
    sources.module(sources.entry()).expect("only types");
    assert!(folder.error("u.ts").contains("u.ts:2:19: \"./nope.ts\" does not exist"));
}
