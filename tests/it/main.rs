//! Tests of the whole program and of what needs its binary, in one test binary.

mod embedded;
mod sandbox;
