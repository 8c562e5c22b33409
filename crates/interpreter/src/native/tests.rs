//! Tables of cases for the native rules.
