//! Ranges of sizes and costs, with arithmetic that saturates.

/// Smallest and largest possible value of a cost or a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostRange {
    pub min: u64,
    pub max: u64,
}

impl CostRange {
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(crate) fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Multiplies by a factor and rounds up; too large becomes the largest.
pub(crate) fn scale(value: u64, factor: f64) -> u64 {
    let product = (value as f64 * factor).ceil();
    // The comparison is with 2^64, which `u64::MAX as f64` rounds to.
    if product >= u64::MAX as f64 { u64::MAX } else { product as u64 }
}
