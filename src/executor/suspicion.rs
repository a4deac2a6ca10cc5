//! How long a cause that may pass is borne before it counts as the job's end.

use std::time::Duration;

use tokio::time::Instant;

use crate::executor::classify::Ended;
use crate::executor::outcome::Reason;

/// A cause that keeps a pod from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) reason: Reason,
    pub(crate) patience: Patience,
    pub(crate) message: String,
}

/// Which grace a cause gets. Ordered: the shorter, the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Patience {
    /// It cannot pass.
    None,
    /// It looks final, but registries and API servers have said so in error and taken it back at once.
    Settled,
    /// It may well pass: a rate limit, a network fault, a slow node.
    Passing,
    /// A node may become free.
    Scheduling,
}

/// How long each kind of cause is borne.
#[derive(Debug, Clone, Copy)]
pub struct Graces {
    /// For a cause that looks final (`manifest unknown`, a missing Secret).
    pub settled: Duration,
    /// For one that may pass (a registry's rate limit).
    pub passing: Duration,
    /// For a pod that no node can take.
    pub scheduling: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            settled: Duration::from_secs(3),
            passing: Duration::from_secs(60),
            scheduling: Duration::from_secs(60),
        }
    }
}

impl Graces {
    fn of(&self, patience: Patience) -> Duration {
        match patience {
            Patience::None => Duration::ZERO,
            Patience::Settled => self.settled,
            Patience::Passing => self.passing,
            Patience::Scheduling => self.scheduling,
        }
    }
}

/// Remembers since when a cause has held.
///
/// A kubelet alternates between `ErrImagePull` and `ImagePullBackOff`, whose message may no longer say what was
/// wrong; so the time counts from the first sight of a reason, and the most telling message is kept.
#[derive(Debug, Default)]
pub(crate) struct Suspicion {
    held: Option<(Stuck, Instant)>,
    /// Whether the pod was seen to move on since: then time alone does not end the job.
    resting: bool,
}

impl Suspicion {
    /// Takes in a sighting. `Some` when the cause has lasted beyond its grace.
    pub(crate) fn observe(&mut self, stuck: Stuck, now: Instant, graces: &Graces) -> Option<Ended> {
        self.resting = false;
        match &mut self.held {
            Some((known, _)) if known.reason == stuck.reason => {
                if stuck.patience <= known.patience {
                    *known = stuck;
                }
            }
            _ => self.held = Some((stuck, now)),
        }
        self.overdue(now, graces)
    }

    /// The end of the job, once the cause that was seen last has outlasted its grace.
    pub(crate) fn overdue(&self, now: Instant, graces: &Graces) -> Option<Ended> {
        let (stuck, _) = self.held.as_ref()?;
        (self.due(graces)? <= now).then(|| {
            let ended = Ended::error(stuck.reason, stuck.message.clone());
            if stuck.patience >= Patience::Passing { ended.may_pass() } else { ended }
        })
    }

    /// When the grace will be over.
    pub(crate) fn due(&self, graces: &Graces) -> Option<Instant> {
        let (stuck, since) = self.held.as_ref().filter(|_| !self.resting)?;
        since.checked_add(graces.of(stuck.patience))
    }

    /// What was seen last, for a message when another deadline comes first.
    pub(crate) fn message(&self) -> Option<&str> {
        self.held.as_ref().map(|(stuck, _)| stuck.message.as_str())
    }

    /// The pod seems to be well. Should the cause come back, its time counts from its first sight.
    pub(crate) fn rest(&mut self) {
        self.resting = true;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Graces, Patience, Stuck, Suspicion};
    use crate::executor::outcome::Reason;

    fn pull(patience: Patience, message: &str) -> Stuck {
        Stuck { reason: Reason::ImagePullFailed, patience, message: message.to_owned() }
    }

    #[test]
    fn a_cause_ends_the_job_only_when_it_lasts() {
        let graces = Graces {
            settled: Duration::from_secs(3),
            passing: Duration::from_secs(60),
            scheduling: Duration::from_secs(60),
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);

        let mut passing = Suspicion::default();
        assert_eq!(passing.observe(pull(Patience::Passing, "429"), at(0), &graces), None);
        assert_eq!(passing.overdue(at(59), &graces), None);
        assert!(passing.overdue(at(60), &graces).is_some());

        // The back-off's own message says nothing; the verdict before it stands.
        let mut settled = Suspicion::default();
        assert_eq!(settled.observe(pull(Patience::Settled, "not found"), at(0), &graces), None);
        let end = settled.observe(pull(Patience::Passing, "back-off"), at(4), &graces);
        assert_eq!(end.map(|end| end.message).as_deref(), Some("not found"));

        // A passing cause that turns final is judged from the first sight.
        let mut turned = Suspicion::default();
        assert_eq!(turned.observe(pull(Patience::Passing, "429"), at(0), &graces), None);
        assert!(turned.observe(pull(Patience::Settled, "not found"), at(10), &graces).is_some());

        // A pod that seems to move on is left alone, until the cause is seen again.
        let mut resting = Suspicion::default();
        assert_eq!(resting.observe(pull(Patience::Settled, "not found"), at(0), &graces), None);
        resting.rest();
        assert_eq!((resting.due(&graces), resting.overdue(at(99), &graces)), (None, None));
        assert!(resting.observe(pull(Patience::Settled, "not found"), at(5), &graces).is_some());

        // Another reason starts its own time.
        let mut other = Suspicion::default();
        let busy = Stuck {
            reason: Reason::Unschedulable,
            patience: Patience::Scheduling,
            message: "0/3 nodes".to_owned(),
        };
        assert_eq!(other.observe(busy, at(0), &graces), None);
        assert_eq!(other.observe(pull(Patience::Settled, "not found"), at(50), &graces), None);
        assert!(other.overdue(at(53), &graces).is_some());
    }
}
