//! Files that do not contain what the plan takes them for: bodies with references, data without a
//! header.

use std::collections::BTreeSet;

use super::handover::setters;
use super::{Checker, NAMES_MAX};
use crate::model::DataSet;
use crate::template::{Source, Template, is_source};
use crate::tree::{Place, shorten};
use base::names::did_you_mean;

impl<'p> Checker<'p> {
    /// Every variable that is set somewhere.
    pub fn set_anywhere(&self) -> &BTreeSet<&'p str> {
        self.anywhere.get_or_init(|| self.find_set_anywhere())
    }

    fn find_set_anywhere(&self) -> BTreeSet<&'p str> {
        let plan = self.plan;
        let mut known: BTreeSet<&str> = plan.vars.iter().map(|(name, _)| name.as_str()).collect();
        for workflow in &plan.workflows {
            known.extend(setters(plan, workflow).into_iter().map(|(name, _)| name));
        }
        known
    }

    /// `${token}` in a file that is sent as it is.
    pub fn body_files(&mut self) {
        let known = self.set_anywhere().clone();
        let notes = self.notes;
        for (place, references) in &notes.body_files {
            let Some(name) = references.iter().find(|inner| refers(inner, &known)) else {
                continue;
            };
            let message = format!(
                "the file contains `${{{}}}`, and files are sent as they are",
                shorten(name)
            );
            let help = "add `render: true` to fill in its references (of a part: write it as `text`), or \
                        write it here as `json` or `body`; `render: false` says that it is meant";
            self.report(*place, message, Some(help.into()));
        }
    }

    /// A column that a data set does not have.
    pub fn unknown_column(&mut self, place: Place, data: &DataSet, column: &str) {
        let set = &data.name;
        let columns = data.columns.iter().map(String::as_str);
        let used = self.columns_used(set);
        let message = format!("the data set `{set}` has no column `{}`", shorten(column));
        let is_known = |name: &&str| data.columns.iter().any(|known| known == name);
        let help = match did_you_mean(column, columns.clone()) {
            Some(help) => help,
            // What the first line says may be a password then.
            None if !used.iter().any(is_known) => format!(
                "the first line of `{}` is read as the names of the columns, and has none that the plan \
                 uses; if it is a row, put a line `{}` above it",
                data.file.file_name().unwrap_or_default().to_string_lossy(),
                used.join(","),
            ),
            None => {
                let names: Vec<&str> = columns.take(NAMES_MAX).collect();
                format!("there are {}", names.join(", "))
            }
        };
        self.report(place, message, Some(help));
    }

    /// The columns of a data set that the plan uses, in the order of the plan.
    fn columns_used(&self, set: &str) -> Vec<&'p str> {
        let notes = self.notes;
        let loose = notes.loose.iter().map(|(_, reference)| reference);
        let mut used: Vec<&str> = Vec::new();
        for reference in loose.chain(notes.steps.values().flatten()) {
            if let Source::Data { set: other, column } = &reference.source
                && other == set
                && !used.contains(&column.as_str())
            {
                used.push(column);
            }
        }
        used
    }
}

/// Whether `${inner}` would be a reference in the plan itself.
fn refers(inner: &str, known: &BTreeSet<&str>) -> bool {
    let name = inner.split([':', '|']).next().unwrap_or_default().trim();
    known.contains(name)
        || is_source(name)
        || matches!(name, "uuid" | "timestamp")
            && Template::parse(&format!("${{{inner}}}"), crate::template::Escape::None).is_ok()
}
