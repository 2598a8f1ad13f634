//! Prints made-up results, for looking at them: `cargo run -p report --example summary -- bad
//! color`.

mod fake;

use report::text::{Look, brief, text};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let width = words.iter().find_map(|word| word.parse().ok()).unwrap_or(100);
    let look = Look { width, color: has("color") };
    let result = if has("bad") { fake::bad() } else { fake::good() };
    if has("quick") {
        print!("{}", brief(&fake::quick(), look));
        print!("{}", brief(&fake::quick_refused(), look));
    } else if has("json") {
        println!("{}", report::Summary::new(&result).to_json());
    } else {
        print!("{}", text(&result, look));
    }
}
