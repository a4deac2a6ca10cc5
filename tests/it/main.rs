//! Tests of the whole program and of what needs its binary, in one test binary.

mod embedded;
// `cfg(test)` tells clippy that helpers between the tests are tests too.
#[cfg(test)]
#[cfg(target_os = "linux")]
mod sandbox;
