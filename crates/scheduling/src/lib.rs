//! Runs the scheduler over the bindings of a control plane.
