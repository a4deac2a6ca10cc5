//! The clone's script against a real git, without a network: what it masks, and what it refuses.
