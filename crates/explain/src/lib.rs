//! Answers `why` and `plan`: gathers what is known of an object and prints the reasons of each decision.
