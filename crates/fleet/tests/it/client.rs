//! The client against managers that do what a script says: answer, refuse, break off, come and go.

mod fake;
mod submits;
mod watches;
