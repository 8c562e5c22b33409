//! Where a pod fits: filters and scores of nodes, as a pure function that returns its reasons.
