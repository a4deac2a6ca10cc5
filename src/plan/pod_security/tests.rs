//! A table of pods, one row a kind of published fixture.
