//! Between works and one member: dispatch, reflection, heartbeat and capacity, the same in push and pull.
