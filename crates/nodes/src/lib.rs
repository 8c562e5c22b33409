//! Simulated nodes: pods go through their phases without containers, as rules say.
