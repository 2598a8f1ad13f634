//! How many look, bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// At once.
pub(crate) const VIEWERS_MAX: usize = 50;

#[derive(Debug, Clone, Default)]
pub(crate) struct Viewers(Arc<AtomicUsize>);

/// One who looks; gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Viewer(Arc<AtomicUsize>);

impl Viewers {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// `None`: there are too many.
    pub fn enter(&self) -> Option<Viewer> {
        let more = |count: usize| (count < VIEWERS_MAX).then_some(count + 1);
        let entered = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.ok().map(|_| Viewer(self.0.clone()))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_fifty_and_a_place_that_was_left_is_free() {
        let viewers = Viewers::default();
        let mut inside: Vec<_> = (0..VIEWERS_MAX).map(|_| viewers.enter().unwrap()).collect();
        assert!(viewers.enter().is_none());
        assert_eq!(inside.len(), VIEWERS_MAX);
        inside.pop();
        assert!(viewers.enter().is_some());
        assert_eq!(viewers.count(), VIEWERS_MAX - 1);
    }
}
