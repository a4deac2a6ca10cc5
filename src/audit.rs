//! The append-only record of every call: the decision before its first effect, the outcome before its reply.
