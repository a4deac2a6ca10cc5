//! One evaluation, fenced: on a thread of its own, with a deadline, and with every way to fail told apart.

use std::error::Error;
use std::iter::successors;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, Value};

use crate::policy::compile::one_line;
use crate::refusal::Reason;

/// Why there is no value. Each is a denial, made here and not in Rego.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) enum Failure {
    /// The rule has no value for this input.
    Undefined,
    /// The engine reported an error.
    Error(String),
    /// The time was up.
    Timeout,
    /// The value is not a decision.
    Shape(String),
    /// The engine panicked.
    Panic,
}

/// What an evaluation left behind.
pub(in crate::policy) struct Evaluated {
    /// The rule's value.
    pub(in crate::policy) value: Result<Value, Failure>,
    /// What the rules printed. Empty when the time was up.
    pub(in crate::policy) prints: Vec<String>,
}

/// Evaluates, and remembers the evaluations that did not end in time.
///
/// A built-in cannot be interrupted, so such a thread runs on. While too many of them do, new evaluations are
/// refused: a caller who finds a slow input must not be able to fill the machine with them.
#[derive(Debug, Default)]
pub(in crate::policy) struct Evaluator {
    late: Mutex<Vec<Weak<()>>>,
}

const MAX_LATE: usize = 8;

/// How many units of work the engine does between two looks at the clock.
const CHECK_INTERVAL: NonZeroU32 = NonZeroU32::MIN.saturating_add(15);

/// The stack of a thread that loads a bundle or evaluates with it. Only what is touched takes memory. What
/// `check` lets through needs a small part of it, in a build without optimisations too. A larger one would not
/// be kept for the next thread by the C library (its cache is 40 MiB), which costs 20 microseconds a decision.
pub(in crate::policy) const STACK_BYTES: usize = 32 * 1024 * 1024;

/// How deep a value may be nested that leaves the evaluation's thread. The stacks elsewhere are small.
const MAX_NESTING: usize = 64;

impl Evaluator {
    /// The value of `rule` for `input`. Takes a clone of the prepared engine.
    pub(in crate::policy) fn run(
        &self,
        engine: Engine,
        input: Value,
        rule: &str,
        limit: Duration,
    ) -> Evaluated {
        if self.late() >= MAX_LATE {
            return Evaluated::without_value(Failure::Timeout);
        }
        let token = Arc::new(());
        let watch = Arc::downgrade(&token);
        let rule = rule.to_owned();
        let (sender, receiver) = sync_channel(1);
        let work = move || {
            let _token = token;
            let evaluated = catch_unwind(AssertUnwindSafe(|| evaluate(engine, input, rule, limit)))
                .unwrap_or_else(|_| Evaluated::without_value(Failure::Panic));
            // The receiver is gone when the time was up.
            let _ = sender.send(evaluated);
        };
        let spawned = thread::Builder::new().name("policy".to_owned()).stack_size(STACK_BYTES).spawn(work);
        if let Err(error) = spawned {
            return Evaluated::without_value(Failure::Error(format!("cannot start a thread: {error}")));
        }
        match receiver.recv_timeout(limit) {
            Ok(evaluated) => evaluated,
            Err(RecvTimeoutError::Timeout) => {
                self.remember(watch);
                Evaluated::without_value(Failure::Timeout)
            }
            Err(RecvTimeoutError::Disconnected) => Evaluated::without_value(Failure::Panic),
        }
    }

    /// How many evaluations run on past their time.
    pub(in crate::policy) fn late(&self) -> usize {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|token| token.strong_count() > 0);
        late.len()
    }

    fn remember(&self, token: Weak<()>) {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).push(token);
    }
}

impl Evaluated {
    fn without_value(failure: Failure) -> Self {
        Self { value: Err(failure), prints: Vec::new() }
    }
}

impl Failure {
    /// The entry of `deny` that stands for this failure.
    pub(in crate::policy) fn reason(&self) -> Reason {
        let (code, message) = match self {
            Self::Undefined => ("policy.undefined", "the policy came to no decision".to_owned()),
            Self::Error(error) => ("policy.error", format!("the policy failed: {error}")),
            Self::Timeout => ("policy.timeout", "the policy took too long to decide".to_owned()),
            Self::Shape(detail) => ("policy.shape", format!("the policy's decision is malformed: {detail}")),
            Self::Panic => ("policy.panic", "the policy engine crashed".to_owned()),
        };
        Reason::new(code, message, "", "an operator must look at the policy")
    }
}

fn evaluate(mut engine: Engine, input: Value, rule: String, limit: Duration) -> Evaluated {
    engine.set_execution_timer_config(ExecutionTimerConfig { limit, check_interval: CHECK_INTERVAL });
    engine.set_input(input);
    let value = match engine.eval_rule(rule) {
        Ok(Value::Undefined) => Err(Failure::Undefined),
        Ok(value) if is_deep(&value) => {
            Err(Failure::Shape(format!("the value is nested deeper than {MAX_NESTING} levels")))
        }
        Ok(value) => Ok(value),
        Err(error) => Err(failure(error.as_ref())),
    };
    let prints = engine.take_prints().unwrap_or_default();
    Evaluated { value, prints }
}

fn is_deep(value: &Value) -> bool {
    let mut pending = vec![(value, 0_usize)];
    while let Some((value, depth)) = pending.pop() {
        if depth > MAX_NESTING {
            return true;
        }
        let inside = depth.saturating_add(1);
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, inside))),
            Value::Set(items) => pending.extend(items.iter().map(|item| (item, inside))),
            Value::Object(fields) => {
                pending.extend(fields.iter().flat_map(|(key, value)| [(key, inside), (value, inside)]));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Undefined => {}
        }
    }
    false
}

fn failure(error: &(dyn Error + 'static)) -> Failure {
    let timed_out = successors(Some(error), |cause| {
        let cause: &(dyn Error + 'static) = *cause;
        cause.source()
    })
    .filter_map(|cause| cause.downcast_ref::<LimitError>())
    .any(|limit| matches!(limit, LimitError::TimeLimitExceeded { .. }));
    if timed_out { Failure::Timeout } else { Failure::Error(one_line(&error.to_string())) }
}
