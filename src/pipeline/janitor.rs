//! What goes on beside the calls: old results go, orphaned jobs are deleted, and jobs in the background that a
//! dead process left are followed.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::Instant;

use crate::executor::Orphan;
use crate::pipeline::record::orphaned;
use crate::pipeline::{Gateway, with_causes};

/// The pause between two rounds.
const ROUND: Duration = Duration::from_secs(60);

/// The same while some process may turn out to be dead.
const SOON: Duration = Duration::from_secs(5);

/// How long after its start a process takes up the jobs of dead ones unasked: longer than it takes to be sure
/// that one is dead.
const INHERIT: Duration = Duration::from_secs(90);

/// How many deletions may be under way, so that a crowd of orphans does not flood the API server.
const AT_ONCE: usize = 4;

impl Gateway {
    /// Keeps house until the gateway stops. For a server; one call alone has no business with others' jobs.
    pub fn keep_house(self: &Arc<Self>) {
        let gateway = Arc::clone(self);
        let stopping = self.stopping.clone();
        self.background.spawn(stopping.run_until_cancelled_owned(async move {
            let began = Instant::now();
            loop {
                let undecided = gateway.round(began.elapsed() < INHERIT).await;
                tokio::time::sleep(if undecided { SOON } else { ROUND }).await;
            }
        }));
    }

    /// One round; whether the next should come soon.
    async fn round(self: &Arc<Self>, new: bool) -> bool {
        self.executor.sweep().await;
        // A result in memory is for those who ask this process. So a job is followed unasked only by a process that
        // has just started, most likely in the dead one's place. Where results are shared, it does not matter who.
        let adopt = new || self.executor.shares_results();
        let scan = match self.executor.jobs().scan(adopt).await {
            Ok(scan) => scan,
            Err(error) => {
                tracing::debug!(%error, "orphaned jobs cannot be looked for");
                return false;
            }
        };
        for job in scan.recovered {
            self.adopt(job).await;
        }
        futures::stream::iter(&scan.orphans).for_each_concurrent(AT_ONCE, |orphan| self.remove(orphan)).await;
        scan.undecided
    }

    async fn remove(&self, orphan: &Orphan) {
        match self.executor.jobs().remove(orphan).await {
            Ok(true) => tracing::warn!(uid = orphan.uid(), "an orphaned job was deleted"),
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(uid = orphan.uid(), %error, "an orphaned job cannot be deleted");
                return;
            }
        }
        let Some(id) = orphan.abandoned() else { return };
        let recorded = match self.audit.take_up(id).await {
            Ok(record) => record.close(&orphaned(orphan)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            tracing::error!(decision_id = %id, error = with_causes(&error), "an orphan's end could not be recorded");
        }
    }
}
