//! The commands of the command line that talk to a running control plane.
