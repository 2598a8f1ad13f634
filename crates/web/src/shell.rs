//! The page before anything is known: places for what comes.

use std::fmt::Write;

use report::live::{AFTER_STEPS, BEFORE_CHARTS};

/// `run`: which one; `None`: the list of a fleet.
pub(crate) fn page(run: Option<&str>, is_fleet: bool) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\" data-live=\"{}\" data-fleet=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Volley</title>\n\
         <link rel=\"stylesheet\" href=\"/assets/app.css\">\n</head>\n<body>\n\
         <p id=\"status\" role=\"status\"></p>\n",
        run.unwrap_or_default(),
        if is_fleet { "yes" } else { "" },
    );
    let part = |name: &&str| format!("<div data-part=\"{name}\"></div>\n");
    let mut before = BEFORE_CHARTS.iter().map(part);
    match run {
        None => html.push_str("<div id=\"fleet\"></div>\n"),
        Some(_) => {
            // The header stands before the rest of the page.
            html.extend(before.next());
            html.push_str("<div id=\"steer\"></div>\n<main>\n");
            html.extend(before);
            html.push_str(
                "<section id=\"time\"><h2>Over time</h2><div id=\"charts\">\
                 <p class=\"quiet\">Nothing is measured yet.</p></div></section>\n\
                 <section id=\"steps\"><h2>Steps</h2></section>\n",
            );
            html.extend(AFTER_STEPS.iter().map(part));
            html.push_str("</main>\n");
        }
    }
    let _ = write!(
        html,
        "<noscript><p>The live page needs JavaScript; the report of <code>--report FILE.html</code> does not.</p>\
         </noscript>\n<footer><p>Served by Volley on this machine. \
         <a href=\"/licences\">Licences</a></p></footer>\n\
         <script src=\"/assets/app.js\"></script>\n</body>\n</html>\n"
    );
    html
}
