//! How many kubectl may run at once, and how many reads may wait for one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Reads that wait for a place, for each place there is. More would wait longer than a caller does.
const WAITING_PER_SLOT: usize = 8;

#[derive(Debug)]
pub(super) struct Slots {
    free: Semaphore,
    waiting: AtomicUsize,
    most_waiting: usize,
    patience: Duration,
}

/// Counts a waiting read until it waits no longer, also when it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Slots {
    pub(super) fn new(count: usize, patience: Duration) -> Self {
        let count = count.max(1);
        Self {
            free: Semaphore::new(count),
            waiting: AtomicUsize::new(0),
            most_waiting: count.saturating_mul(WAITING_PER_SLOT),
            patience,
        }
    }

    /// A place, in the order of asking; `None` when too many wait, or it took too long.
    pub(super) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(slot) = self.free.try_acquire() {
            return Some(slot);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.most_waiting {
            return None;
        }
        timeout(self.patience, self.free.acquire()).await.ok()?.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::Slots;

    #[tokio::test]
    async fn waiting_is_bounded_in_number_and_time() {
        let slots = Slots::new(1, Duration::from_millis(50));
        let held = slots.take().await.unwrap();
        assert!(slots.take().await.is_none(), "it took too long");
        drop(held);
        let slots = Slots::new(1, Duration::from_secs(60));
        let held = slots.take().await.unwrap();
        assert_eq!(slots.waiting.load(Ordering::Relaxed), 0);

        let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(slots.take())).collect();
        for wait in &mut waiting {
            assert!(futures::poll!(wait).is_pending());
        }
        assert!(slots.take().await.is_none(), "too many wait");
        drop(held);
        assert!(waiting.remove(0).await.is_some());
        drop(waiting);
        assert_eq!(slots.waiting.load(Ordering::Relaxed), 0);
    }
}
