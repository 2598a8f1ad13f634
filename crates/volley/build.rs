//! Which source this binary is made of, for `volley version`. A source without a repository says
//! so.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let date = git(&["show", "-s", "--format=%cs", "HEAD"]);
    let commit = commit.map(|commit| {
        let mark = if changed.is_some_and(|text| !text.is_empty()) { ", changed" } else { "" };
        format!("commit {commit} of {}{mark}", date.unwrap_or_default())
    });
    let commit = commit.unwrap_or_else(|| "not from a repository".to_owned());
    let profile = std::env::var("PROFILE").unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=BUILD_DESCRIPTION={commit}; {profile} build for {target}");
    println!("cargo::rerun-if-changed=build.rs");
    // A commit moves the branch that HEAD names, not HEAD itself.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn git(words: &[&str]) -> Option<String> {
    let done = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    done.status.success().then(|| text.trim().to_owned())
}
