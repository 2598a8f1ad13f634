//! Comparing a whole output with a file: `UPDATE_GOLDEN=1 cargo test -p report` writes the files
//! anew.

use std::path::PathBuf;

pub fn golden(name: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if actual == expected {
        return;
    }
    let differs = actual.lines().zip(expected.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| actual.lines().count().min(expected.lines().count()));
    panic!(
        "{name} differs from line {}:\n  got      {:?}\n  expected {:?}\nwhole output:\n{actual}",
        line + 1,
        actual.lines().nth(line),
        expected.lines().nth(line),
    );
}
