//! How far a job has come.

/// A step of a job, told to the caller while it waits. Each is reported at most once, in this order; a step
/// that was too short to be seen is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The call waits for a place among the jobs that may exist at once.
    Queued,
    /// The Job exists.
    Created,
    /// A node was found.
    Scheduled,
    /// The node pulls images and makes the containers.
    Pulling,
    /// The input files are being placed.
    Injecting,
    /// The command runs.
    Running,
    /// The command ended; its output and files are being read.
    Collecting,
    /// The Job is deleted.
    Done,
}

impl Progress {
    /// A short word for a progress line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Created => "created",
            Self::Scheduled => "scheduled",
            Self::Pulling => "pulling",
            Self::Injecting => "injecting",
            Self::Running => "running",
            Self::Collecting => "collecting",
            Self::Done => "done",
        }
    }
}

/// Tells each step once, in order.
pub(crate) struct Steps<'a> {
    tell: &'a (dyn Fn(Progress) + Send + Sync),
    reached: Option<Progress>,
}

impl<'a> Steps<'a> {
    /// Nothing reached yet.
    pub(crate) fn new(tell: &'a (dyn Fn(Progress) + Send + Sync)) -> Self {
        Self { tell, reached: None }
    }

    /// Takes note of a step; one that lies behind is not told again.
    pub(crate) fn reach(&mut self, step: Progress) {
        if self.reached < Some(step) {
            self.reached = Some(step);
            (self.tell)(step);
        }
    }

    /// The furthest step so far.
    pub(crate) fn reached(&self) -> Option<Progress> {
        self.reached
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{Progress, Steps};

    #[test]
    fn no_step_is_told_twice_or_backwards() {
        let told = Mutex::new(Vec::new());
        let tell = |step| told.lock().unwrap().push(step);
        let mut steps = Steps::new(&tell);
        for step in
            [Progress::Created, Progress::Pulling, Progress::Scheduled, Progress::Pulling, Progress::Running]
        {
            steps.reach(step);
        }
        assert_eq!(*told.lock().unwrap(), [Progress::Created, Progress::Pulling, Progress::Running]);
    }
}
