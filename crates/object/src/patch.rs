//! Patches of objects.
