//! The classes of faults, and the marks that a campaign has to reach.

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            pub const NAMES: &[&str] = &[$($text,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// What is done to the nodes. A seed switches each class on or off.
    Class {
        /// One link is slow for a while.
        Delay = "net: delay",
        /// A link loses everything for a moment. A connection that lost a segment never recovers:
        /// it must be made again.
        Drop = "net: drop",
        /// What a link carries is kept back, and then comes all at once.
        Hold = "net: hold",
        /// Of what a link has kept back some comes early, in any order.
        Reorder = "net: reorder",
        /// One direction of a link is cut.
        OneWay = "net: one-way cut",
        /// A and B cannot reach each other; both reach all the others.
        Partial = "net: partial cut",
        /// One node is cut off.
        Isolate = "net: isolation",
        /// Two sides that cannot reach each other.
        Split = "net: split",
        /// Links are cut one by one and come back one by one, in another order.
        Swizzle = "net: swizzle",
        /// The same request comes again, by another connection or another node.
        Duplicate = "net: duplicate",
        /// The process dies; what it wrote is still there.
        Kill = "proc: kill",
        /// The power fails; what was not flushed may be lost.
        PowerLoss = "proc: power loss",
        /// All nodes lose power at once.
        AllDown = "proc: all at once",
        /// The power fails between two calls of a commit.
        Fuse = "proc: power fails mid-commit",
        /// A node stands still, and then all its timers go off at once.
        Pause = "proc: pause",
        /// A node comes back with an empty disk.
        Amnesia = "proc: amnesia",
        WriteError = "disk: write error",
        ShortWrite = "disk: short write",
        ReadError = "disk: read error",
        SyncError = "disk: flush error",
        NoSpace = "disk: no space",
        SlowSync = "disk: slow flush",
        /// Not switched on by itself: what a power loss did to writes that were not flushed.
        LostWrite = "disk: lost write",
        TornWrite = "disk: torn write",
        /// Wall clocks of hosts that differ, from the start.
        Skew = "clock: skew",
        /// A wall clock jumps by up to an hour, either way.
        Jump = "clock: jump",
    }
}

impl Class {
    pub const ALL: &[Self] = &[
        Self::Delay,
        Self::Drop,
        Self::Hold,
        Self::Reorder,
        Self::OneWay,
        Self::Partial,
        Self::Isolate,
        Self::Split,
        Self::Swizzle,
        Self::Duplicate,
        Self::Kill,
        Self::PowerLoss,
        Self::AllDown,
        Self::Fuse,
        Self::Pause,
        Self::Amnesia,
        Self::WriteError,
        Self::ShortWrite,
        Self::ReadError,
        Self::SyncError,
        Self::NoSpace,
        Self::SlowSync,
        Self::LostWrite,
        Self::TornWrite,
        Self::Skew,
        Self::Jump,
    ];
}

named! {
    /// What must have happened at least once in a campaign that claims to have tested it.
    Mark {
        LeaderChanged = "leader changed",
        SnapshotInstalled = "snapshot installed",
        LogCompacted = "log compacted",
        TornTailCut = "torn tail cut",
        UnknownSeen = "unknown seen",
        UnknownResolved = "unknown resolved",
        DuplicateAnswered = "duplicate answered",
        KeyReuseRefused = "key reuse refused",
        StaleEpochRefused = "stale epoch refused",
        ClaimRaceLost = "claim race lost",
        AttemptSuperseded = "attempt superseded",
        CancelBeatFinish = "cancel beat finish",
        FinishBeatCancel = "finish beat cancel",
        Forwarded = "proposal forwarded",
        StrongReadRefused = "strong read refused",
        AmnesiaRefused = "amnesia refused",
        Readmitted = "member readmitted",
        MembershipChanged = "membership changed",
        NodeStoppedItself = "node stopped itself",
        RecoveredAll = "recovered from all down",
        BlobOnMajority = "blob on majority",
        RowsGranted = "rows granted",
        OtherDivisionRefused = "other division refused",
    }
}
