//! All integration tests of `volley`, in one program: each further program is linked with
//! everything again.

mod agents;
mod agents_netns;
mod certs;
mod common;
mod credentials;
mod documents;
mod environment;
mod exit_codes;
mod first_hour;
mod first_minutes;
mod first_mistakes;
mod flags;
mod fleet;
mod ledger;
mod live_page;
mod outputs;
mod plan_words;
mod reports;
mod restart;
mod scripts;
mod scripts_bad;
mod scripts_lacking;
mod scripts_life;
mod scripts_mistakes;
mod scripts_options;
mod scripts_results;
mod steering;
mod submit;
mod terminal;
mod tidy;
