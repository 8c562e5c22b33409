//! Decides where a binding runs: filter, score, spread, divide, and the reasons.
