//! The simulation's own tests: seeds, the same seed twice, small scopes, histories, and bugs it found before.

mod callers;
mod cluster;
mod regressions;
mod scopes;
mod seeds;
