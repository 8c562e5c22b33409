//! Tests of the client against registries that misbehave.
