//! Looks after members as objects: lifecycle, health, rights, quotas, namespaces, remedies.
