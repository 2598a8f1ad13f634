//! `volley run -`: a plan or a script on standard input. Which of them it is its text says; it is
//! read once.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use crate::failure::Failure;

/// More is no plan and no script.
const BYTES_MAX: u64 = 64 << 20;

/// Whether a file's name means standard input.
pub fn is_meant(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// All of it.
pub fn bytes() -> Result<&'static [u8], Failure> {
    static READ: OnceLock<Result<Vec<u8>, Failure>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let mut all = Vec::new();
        match std::io::stdin().take(BYTES_MAX).read_to_end(&mut all) {
            Ok(_) if all.is_empty() => Err(Failure::invalid("there is nothing on standard input")
                .help("`volley run - < plan.yaml`, or name the file: `volley run plan.yaml`")),
            Ok(_) => Ok(all),
            Err(error) => Err(Failure::failed(error).at("standard input")),
        }
    });
    read.as_deref().map_err(Failure::clone)
}

/// Whether what stands there is a script.
pub fn is_script() -> Result<bool, Failure> {
    Ok(looks_like_a_script(&String::from_utf8_lossy(bytes()?)))
}

fn looks_like_a_script(text: &str) -> bool {
    let begins = |line: &str, words: &[&str]| words.iter().any(|word| line.starts_with(word));
    let plan = ["workflows:", "\"workflows\"", "[[workflows]]", "workflows =", "- name:"];
    let script = [
        "import ",
        "export ",
        "function ",
        "async ",
        "const ",
        "let ",
        "var ",
        "//",
        "/*",
        "'use strict'",
        "module.",
        "exports.",
        "require(",
    ];
    let lines = || text.lines().map(|line| line.trim_start_matches([' ', '\t', '{', ',']));
    !lines().any(|line| begins(line, &plan)) && lines().any(|line| begins(line, &script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_whether_it_is_a_plan_or_a_script() {
        for script in [
            "import http from 'k6/http';\nexport default function () {}",
            "// a comment\nexport default () => {};",
            "const x = 1;\nmodule.exports = {};",
        ] {
            assert!(looks_like_a_script(script), "{script}");
        }
        for plan in [
            "name: a\nworkflows:\n- name: b\n",
            "{\"name\":\"a\",\n\"workflows\":[]}",
            "target = 'http://h'\n[[workflows]]\n",
            "name: a\nwurkflows: []\n",
        ] {
            assert!(!looks_like_a_script(plan), "{plan}");
        }
    }
}
