//! Loads that are a number of iterations, and how that divides over shards.

use plan::Executor;
use serde::{Deserialize, Serialize};

use super::share;

/// A load that ends with its last iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub users: u32,
    pub iterations: u64,
    /// Each user has so many of its own; otherwise they share them.
    pub each: bool,
}

impl Counted {
    /// None: the load is not a number of iterations.
    #[must_use]
    pub fn of(executor: &Executor) -> Option<Self> {
        match executor {
            Executor::SharedIterations { vus, iterations, .. } => {
                Some(Self { users: *vus, iterations: *iterations, each: false })
            }
            Executor::PerVuIterations { vus, iterations, .. } => {
                Some(Self { users: *vus, iterations: *iterations, each: true })
            }
            _ => None,
        }
    }

    /// The users of one shard.
    #[must_use]
    pub fn users_of(&self, shard: usize, shards: usize) -> u64 {
        share(u64::from(self.users), shard, shards)
    }

    /// The iterations of one shard. One without a user could not do any.
    #[must_use]
    pub fn iterations_of(&self, shard: usize, shards: usize) -> u64 {
        let users = self.users_of(shard, shards);
        if self.each {
            return users.saturating_mul(self.iterations);
        }
        let with_users = shards.min(self.users as usize).max(1);
        if shard < with_users { share(self.iterations, shard, with_users) } else { 0 }
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        if self.each {
            u64::from(self.users).saturating_mul(self.iterations)
        } else {
            self.iterations
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_shards_iterations_add_up(
            users in 1u32..50, iterations in 0u64..1_000, each: bool, shards in 1usize..20,
        ) {
            let load = Counted { users, iterations, each };
            let sum: u64 = (0..shards).map(|shard| load.iterations_of(shard, shards)).sum();
            prop_assert_eq!(sum, load.total());
        }
    }
}
