//! The testbed: a control plane, members and a registry on one machine with one command.
