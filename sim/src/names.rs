//! Enums whose variants have names: classes of faults, and marks.

/// `named! { /// What it is. Class { Loss = "net: loss", } }`
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            pub const NAMES: &[&str] = &[$($text,)*];
            #[allow(dead_code, reason = "marks are reached one by one")]
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
