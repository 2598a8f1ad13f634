//! Words of other tools, answered with Volley's.
//!
//! Whoever comes from another tool writes its words at first. One table says what they are called
//! here; the answers to wrong keys and references come from it, and so does the page
//! `docs/coming-from.md`.

mod table;

use table::SECTIONS;

/// A part of the page: one tool, or several that are alike.
struct Section {
    title: &'static str,
    tables: &'static [Table],
}

struct Table {
    /// As it is called in a message.
    tool: &'static str,
    /// What the page says before the table.
    before: &'static str,
    /// The title of the left column.
    head: &'static str,
    rows: &'static [Row],
}

struct Row {
    theirs: &'static str,
    ours: &'static str,
    words: &'static [&'static str],
}

/// What a key is called here, if another tool has it at such a place.
pub fn key(object: &str, key: &str) -> Option<String> {
    find(&|word| {
        let (place, name) = word.split_at_checked(object.len())?;
        (place == object && same(name.strip_prefix(' ')?, key)).then_some(())
    })
}

/// How a reference is written here: `__Random(1,5)`, `$uuid`.
pub fn reference(name: &str) -> Option<String> {
    let head = name.split(['(', '.']).next().unwrap_or_default().trim();
    find(&|word| (word.strip_prefix("${ ")? == head).then_some(()))
}

fn find(fits: &dyn Fn(&str) -> Option<()>) -> Option<String> {
    let tables = SECTIONS.iter().flat_map(|section| section.tables);
    let mut rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table.tool, row)));
    let (tool, row) = rows.find(|(_, row)| row.words.iter().any(|word| fits(word).is_some()))?;
    Some(format!("{tool} has {}; here it is {}", row.theirs, row.ours))
}

/// `gracefulStop`, `graceful_stop` and `graceful-stop` are one word.
fn same(known: &str, written: &str) -> bool {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(|c| !matches!(c, '_' | '-'));
        letters.flat_map(char::to_lowercase).collect()
    };
    plain(known) == plain(written)
}

/// The page `docs/coming-from.md`.
pub fn coming_from() -> String {
    let mut page = String::from(
        "# Coming from another tool\n\nWhere to find what you know. Volley runs declarative plans, and k6 \
         scripts as they are; scripts of other tools it does not run. A plan that has another \
         tool's words\nis answered with the row of these tables that says what they are here.\n",
    );
    for section in SECTIONS {
        page.push_str(&format!("\n## {}\n", section.title));
        for table in section.tables {
            if !table.before.is_empty() {
                page.push_str(&format!("\n{}\n", table.before));
            }
            page.push_str(&format!("\n| {} | Volley |\n|---|---|\n", table.head));
            for row in table.rows {
                page.push_str(&format!("| {} | {} |\n", row.theirs, row.ours));
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_answered_by_its_own_row() {
        for row in SECTIONS.iter().flat_map(|section| section.tables).flat_map(|table| table.rows) {
            for word in row.words {
                let answer = match word.strip_prefix("${ ") {
                    Some(name) => reference(name),
                    None => {
                        let (object, name) = word.rsplit_once(' ').unwrap();
                        key(object, name)
                    }
                };
                let answer = answer.unwrap_or_else(|| panic!("{word} is not found"));
                assert!(
                    answer.contains(row.theirs) && answer.contains(row.ours),
                    "{word}: {answer}"
                );
            }
        }
    }

    #[test]
    fn no_word_of_another_tool_is_a_key_of_ours_at_the_same_place() {
        let page = crate::schema::reference();
        let tables = SECTIONS.iter().flat_map(|section| section.tables);
        let words = tables.flat_map(|table| table.rows).flat_map(|row| row.words);
        for word in words.filter(|word| !word.starts_with("${ ")) {
            let (object, name) = word.rsplit_once(' ').unwrap();
            let part = page.split(&format!("## {object}\n")).nth(1);
            let part = part.unwrap_or_else(|| panic!("there is no object `{object}`"));
            let part = part.split("\n## ").next().unwrap();
            assert!(!part.contains(&format!("| `{name}` |")), "{object} has {name}");
        }
    }
}
