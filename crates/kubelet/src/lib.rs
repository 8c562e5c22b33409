//! A node with real containers: pods run through the container runtime interface.
