//! The closest name to one that nobody knows, for messages that suggest what was meant.

/// Comparing costs length times length, and nobody misspells a name this long.
const BYTES_MAX: usize = 100;

/// How many letters may differ.
#[derive(Clone, Copy, Debug)]
pub enum Likeness {
    /// A third of the longer names, at least one letter.
    Third,
    /// So many letters.
    Letters(usize),
}

/// `did you mean ...?`, if one of the names is close enough.
#[must_use]
pub fn did_you_mean<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(wrong, names, Likeness::Third).map(|name| format!("did you mean `{name}`?"))
}

/// The name most like a wrong one, if any is like it at all. Case does not count.
#[must_use]
pub fn closest<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
    likeness: Likeness,
) -> Option<&'a str> {
    if wrong.len() > BYTES_MAX {
        return None;
    }
    let lower = wrong.to_lowercase();
    names
        .into_iter()
        .filter(|name| name.len() <= BYTES_MAX)
        .map(|name| (distance(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| match likeness {
            Likeness::Third => *distance <= name.chars().count().max(3) / 3,
            Likeness::Letters(most) => *distance <= most,
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The name that is most like another: in another case, with other separators, or with a letter or
/// two that differ.
#[must_use]
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let wanted = plain(name);
    let most = (wanted.len() / 4).max(1);
    let scored = known.into_iter().map(|one| (distance(&wanted, &plain(one)), one));
    scored.min().filter(|(distance, _)| *distance <= most).map(|(_, one)| one)
}

/// How many letters have to be added, removed, replaced or exchanged with their neighbour.
#[must_use]
pub fn distance(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["load", "target", "thresholds"];
        let third = |wrong| closest(wrong, names, Likeness::Third);
        assert_eq!(third("loda"), Some("load"));
        assert_eq!(third("TRESHOLDS"), Some("thresholds"));
        assert_eq!(third("colour"), None);
        assert_eq!(closest("targets", names, Likeness::Letters(0)), None);
        assert_eq!(did_you_mean("targe", names).as_deref(), Some("did you mean `target`?"));
    }

    #[test]
    fn a_name_of_any_length_is_answered_at_once() {
        let long = "x".repeat(1 << 20);
        assert_eq!(closest("load", [long.as_str()], Likeness::Third), None);
        assert_eq!(closest(&long, ["load"], Likeness::Third), None);
    }
}
