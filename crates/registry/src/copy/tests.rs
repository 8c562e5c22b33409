//! Tests of copies between places.
