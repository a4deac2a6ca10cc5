//! Argv, environment and wall clock.
