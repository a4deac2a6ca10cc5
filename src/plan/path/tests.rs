//! Paths and modes, accepted and refused.
