//! From a position in the code that runs to the position in the file that the user wrote.
//!
//! Two things move code: the printer that writes TypeScript out as JavaScript, and the wrapper
//! around a CommonJS file, which stands before the first line and so moves only its columns.

/// One known pair of positions; all of them count from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub line: u32,
    pub column: u32,
    pub original_line: u32,
    pub original_column: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineMap {
    /// Columns that stand before the user's code on the first line.
    first_line_shift: u32,
    /// In order of `line`, `column`. Empty: the code was not rewritten.
    pairs: Vec<Pair>,
}

impl LineMap {
    pub fn new(first_line_shift: u32, mut pairs: Vec<Pair>) -> LineMap {
        pairs.sort_unstable();
        LineMap { first_line_shift, pairs }
    }

    /// Positions count from one, here and in the answer.
    pub fn original(&self, line: u32, column: u32) -> (u32, u32) {
        let column = match line {
            1 => column.saturating_sub(self.first_line_shift).max(1),
            _ => column,
        };
        if self.pairs.is_empty() || line == 0 {
            return (line, column);
        }
        let (wanted_line, wanted_column) = (line - 1, column.saturating_sub(1));
        let after = self
            .pairs
            .partition_point(|pair| (pair.line, pair.column) <= (wanted_line, wanted_column));
        // The pair before is right unless it is on an earlier line and this line has its own.
        let before = after.checked_sub(1).map(|at| self.pairs[at]);
        let pair = match before {
            Some(pair) if pair.line == wanted_line => pair,
            _ => match self.pairs.get(after) {
                Some(pair) if pair.line == wanted_line => *pair,
                _ => before.unwrap_or(self.pairs[0]),
            },
        };
        (pair.original_line + 1, pair.original_column + 1)
    }
}

/// Where a line and a column begin that are counted from one, the column in characters.
pub fn byte_offset(text: &str, line: u32, column: u32) -> Option<usize> {
    let mut begin = 0;
    for _ in 1..line {
        begin += text[begin..].find('\n')? + 1;
    }
    let line = text[begin..].split('\n').next()?;
    let skipped = line.chars().take(column.saturating_sub(1) as usize);
    Some(begin + skipped.map(char::len_utf8).sum::<usize>())
}

/// Characters before a column in bytes that counts from one.
pub fn characters_before(line: &str, column: u32) -> u32 {
    let bytes = column.saturating_sub(1) as usize;
    let inside = line.char_indices().take_while(|(at, _)| *at < bytes).count();
    // A column past the end of the line stays as far past it.
    (inside + bytes.saturating_sub(line.len())) as u32
}

/// The same in units of UTF-16.
pub fn utf16_before(line: &str, column: u32) -> u32 {
    let bytes = column.saturating_sub(1) as usize;
    let inside = line.char_indices().take_while(|(at, _)| *at < bytes);
    let units: usize = inside.map(|(_, c)| c.len_utf16()).sum();
    (units + bytes.saturating_sub(line.len())) as u32
}

/// How many characters so many units of UTF-16 are.
pub fn characters_of_utf16(line: &str, units: u32) -> u32 {
    let mut left = units as usize;
    let inside = line.chars().take_while(|c| {
        let goes_on = left > 0;
        left = left.saturating_sub(c.len_utf16());
        goes_on
    });
    let count = inside.count();
    (count + left) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(line: u32, column: u32, original_line: u32, original_column: u32) -> Pair {
        Pair { line, column, original_line, original_column }
    }

    #[test]
    fn the_nearest_pair_on_the_same_line_answers() {
        let map = LineMap::new(0, vec![pair(2, 4, 20, 8), pair(0, 0, 5, 0), pair(2, 9, 21, 3)]);
        for (asked, answer) in [
            ((1, 1), (6, 1)),
            ((1, 50), (6, 1)),
            ((2, 1), (6, 1)),  // nothing on this line: what was before it
            ((3, 1), (21, 9)), // before the first of its line
            ((3, 7), (21, 9)),
            ((3, 10), (22, 4)),
            ((9, 1), (22, 4)),
        ] {
            assert_eq!(map.original(asked.0, asked.1), answer, "{asked:?}");
        }
    }

    #[test]
    fn a_wrapper_moves_the_first_line_only() {
        let map = LineMap::new(10, Vec::new());
        assert_eq!(map.original(1, 15), (1, 5));
        assert_eq!(map.original(1, 3), (1, 1));
        assert_eq!(map.original(2, 15), (2, 15));
    }
}
