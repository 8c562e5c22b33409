//! Tests of this folder over an API in memory, in virtual time.
