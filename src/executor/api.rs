//! One call to the API server: bounded in time, retried while the server is only unwell.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use kube::core::Status;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::executor::fault::{self, Fault};

/// How a call to the API server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server answered that it will not.
    #[error("the API server refused to {what}: {}", fault::refusal(status))]
    Refused {
        /// What was asked, as a verb phrase.
        what: &'static str,
        /// The server's answer.
        status: Box<Status>,
    },
    /// No usable answer came in time.
    #[error("the API server could not {what}: {cause}")]
    Unavailable {
        /// What was asked, as a verb phrase.
        what: &'static str,
        /// The last answer or fault.
        cause: Fault,
    },
}

impl ApiError {
    /// From one attempt.
    pub(crate) fn of(what: &'static str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if !is_passing(status.code) => Self::Refused { what, status },
            other => Self::Unavailable { what, cause: Fault::of(&other) },
        }
    }

    /// The HTTP status of a refusal.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::Unavailable { .. } => None,
        }
    }
}

/// How long one attempt may take before the next.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Repeats `attempt` until it succeeds, is refused, or `within` is over. What is repeated must be harmless
/// when an earlier attempt took effect unseen.
///
/// # Errors
/// [`ApiError`] with the last attempt's answer.
pub(crate) async fn call<T, F>(
    what: &'static str,
    within: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(100);
    loop {
        let error = match timeout_at(deadline.min(Instant::now() + ATTEMPT), attempt()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => ApiError::of(what, error),
            Err(_) => ApiError::Unavailable { what, cause: Fault::no_answer() },
        };
        let next = Instant::now() + pause;
        if matches!(error, ApiError::Refused { .. }) || next >= deadline {
            return Err(error);
        }
        sleep_until(next).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// Deletes a Job and its pod, unless it is another Job of that name. Whether it was there.
///
/// # Errors
/// [`ApiError`] when the deletion was refused or not answered.
pub(crate) async fn delete_job(
    jobs: &Api<Job>,
    name: &str,
    uid: &str,
    within: Duration,
) -> Result<bool, ApiError> {
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        // Without a policy the API server would leave the Job's pods behind.
        ..DeleteParams::background()
    };
    match call("delete the Job", within, || jobs.delete(name, &params)).await {
        Ok(_) => Ok(true),
        // Gone, or another Job of that name: either way the Job that is meant is no more.
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Too many requests, and every fault of the server's own.
fn is_passing(code: u16) -> bool {
    code == 429 || code >= 500
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use kube::core::Status;

    use super::{ApiError, call};

    fn failure(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "reason").with_code(code).boxed())
    }

    #[tokio::test]
    async fn only_what_may_pass_is_repeated() {
        for (code, repeated) in
            [(403, false), (404, false), (409, false), (422, false), (429, true), (500, true), (503, true)]
        {
            let made = Cell::new(0);
            let result: Result<(), ApiError> = call("test", Duration::from_millis(250), || {
                made.set(made.get() + 1);
                async move { Err(failure(code)) }
            })
            .await;
            assert_eq!(made.get() > 1, repeated, "{code}");
            assert_eq!(result.unwrap_err().code(), (!repeated).then_some(code));
        }
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up() {
        let result: Result<(), ApiError> =
            call("test", Duration::from_millis(50), std::future::pending).await;
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "the API server could not test: no answer in time");
    }
}
