//! Integration tests, in one binary so that the crate is linked once.

mod jobs;
