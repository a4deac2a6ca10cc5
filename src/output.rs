//! Bounded output: how much of a stream is kept, and how a cut is made.
