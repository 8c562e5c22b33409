//! An OCI registry: serves images to clusters and clients, and copies them between places.
