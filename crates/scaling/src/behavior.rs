//! Limits a proposed replica count: stabilization windows, scaling policies, bounds. The history
//! is passed in; times are durations since any fixed moment.

use std::time::Duration;

use object::Object;
use serde_json::Value;

use crate::ScalingSettings;

/// Without a behavior, a scale-up at most doubles the replicas or reaches this number.
const SCALE_UP_LEAST: i64 = 4;
/// Maximum length of a window or period; older history is dropped.
const HISTORY_MAX: Duration = Duration::from_secs(3600);

/// Recommendations and scale events of an autoscaler. Bounded by `HISTORY_MAX` and the sync period.
#[derive(Clone, Debug, Default)]
pub struct ScaleHistory {
    recommendations: Vec<(Duration, i64)>,
    /// Replicas added, replicas removed.
    ups: Vec<(Duration, i64)>,
    downs: Vec<(Duration, i64)>,
}

/// The resulting replica count and its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded {
    pub replicas: i64,
    /// Reason and message of `AbleToScale`.
    pub able: (&'static str, &'static str),
    /// True if the proposal was limited; `limited` has reason and message of `ScalingLimited`.
    pub is_limited: bool,
    pub limited: (&'static str, &'static str),
}

#[derive(Clone, Debug)]
struct ScalingRules {
    window: Duration,
    select: String,
    /// Type, value, period.
    policies: Vec<(String, i64, Duration)>,
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

impl ScaleHistory {
    /// The initial replica count counts as a recommendation, so that nothing is scaled down right after a restart.
    pub fn begin(&mut self, current: i64, now: Duration) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
    }

    pub fn scaled(&mut self, from: i64, to: i64, now: Duration) {
        match to > from {
            true => self.ups.push((now, to - from)),
            false => self.downs.push((now, from - to)),
        }
    }

    fn prune(&mut self, now: Duration) {
        for list in [&mut self.recommendations, &mut self.ups, &mut self.downs] {
            list.retain(|(at, _)| now.saturating_sub(*at) < HISTORY_MAX);
        }
    }
}

fn within(list: &[(Duration, i64)], window: Duration, now: Duration) -> impl Iterator<Item = i64> {
    list.iter().filter(move |(at, _)| now.saturating_sub(*at) < window).map(|(_, value)| *value)
}

/// Applies the autoscaler's rules to a proposal.
pub fn bound(
    autoscaler: &Object,
    history: &mut ScaleHistory,
    current: i64,
    proposed: i64,
    settings: &ScalingSettings,
    now: Duration,
) -> Bounded {
    history.prune(now);
    let least = autoscaler.i64_at(&["spec", "minReplicas"]).unwrap_or(1);
    let most = autoscaler.i64_at(&["spec", "maxReplicas"]).unwrap_or(least);
    let bounded = match autoscaler.get(&["spec", "behavior"]).filter(|behavior| behavior.is_object()) {
        None => bound_plainly(history, current, proposed, (least, most), settings, now),
        Some(behavior) => {
            let up = ScalingRules::read(&behavior["scaleUp"], ScalingRules::up());
            let down = ScalingRules::read(&behavior["scaleDown"], ScalingRules::down(settings));
            bound_by_rules(history, current, proposed, (least, most), (&up, &down), now)
        }
    };
    history.recommendations.push((now, proposed));
    bounded
}

fn bound_plainly(
    history: &ScaleHistory,
    current: i64,
    proposed: i64,
    (least, most): (i64, i64),
    settings: &ScalingSettings,
    now: Duration,
) -> Bounded {
    let recent = within(&history.recommendations, settings.downscale_stabilization, now);
    let stable = recent.fold(proposed, i64::max);
    let able = if stable != proposed { DOWN_STABILIZED } else { READY };
    let limit = (2 * current).max(SCALE_UP_LEAST);
    let (highest, reason) = if most > limit { (limit, UP_LIMIT) } else { (most, TOO_MANY) };
    let (replicas, limited) = match stable {
        _ if stable < least => (least, TOO_FEW),
        _ if stable > highest => (highest, reason),
        _ => (stable, WITHIN),
    };
    Bounded { replicas, able, is_limited: replicas != stable, limited }
}

fn bound_by_rules(
    history: &ScaleHistory,
    current: i64,
    proposed: i64,
    (least, most): (i64, i64),
    (up, down): (&ScalingRules, &ScalingRules),
    now: Duration,
) -> Bounded {
    let lowest = within(&history.recommendations, up.window, now).fold(proposed, i64::min);
    let highest = within(&history.recommendations, down.window, now).fold(proposed, i64::max);
    let stable = current.max(lowest).min(highest);
    let able = match (stable == proposed, proposed >= current) {
        (true, _) => READY,
        (false, true) => UP_STABILIZED,
        (false, false) => DOWN_STABILIZED,
    };
    let (replicas, limited) = if stable > current {
        let limit = up.highest(history, current, now).max(current);
        let (allowed, reason) = if most > limit { (limit, UP_LIMIT) } else { (most, TOO_MANY) };
        if stable > allowed { (allowed, reason) } else { (stable, WITHIN) }
    } else if stable < current {
        let limit = down.lowest(history, current, now).min(current);
        let (allowed, reason) = if least < limit { (limit, DOWN_LIMIT) } else { (least, TOO_FEW) };
        if stable < allowed { (allowed, reason) } else { (stable, WITHIN) }
    } else {
        (stable, WITHIN)
    };
    Bounded { replicas, able, is_limited: replicas != stable, limited }
}

impl ScalingRules {
    fn up() -> Self {
        let period = Duration::from_secs(15);
        let policies = vec![("Pods".to_owned(), 4, period), ("Percent".to_owned(), 100, period)];
        Self { window: Duration::ZERO, select: "Max".to_owned(), policies }
    }

    fn down(settings: &ScalingSettings) -> Self {
        let policies = vec![("Percent".to_owned(), 100, Duration::from_secs(15))];
        Self { window: settings.downscale_stabilization, select: "Max".to_owned(), policies }
    }

    fn read(value: &Value, defaults: Self) -> Self {
        let seconds = |value: &Value| value.as_u64().map(Duration::from_secs);
        let policies = value["policies"].as_array().into_iter().flatten().map(|policy| {
            let kind = policy["type"].as_str().unwrap_or_default().to_owned();
            (kind, policy["value"].as_i64().unwrap_or(0), seconds(&policy["periodSeconds"]).unwrap_or_default())
        });
        let policies: Vec<_> = policies.collect();
        Self {
            window: seconds(&value["stabilizationWindowSeconds"]).unwrap_or(defaults.window),
            select: value["selectPolicy"].as_str().map(str::to_owned).unwrap_or(defaults.select),
            policies: if policies.is_empty() { defaults.policies } else { policies },
        }
    }

    /// Returns the replicas at the start of a policy's period.
    fn at_start(history: &ScaleHistory, current: i64, period: Duration, now: Duration) -> i64 {
        let added: i64 = within(&history.ups, period, now).sum();
        let removed: i64 = within(&history.downs, period, now).sum();
        current - added + removed
    }

    fn highest(&self, history: &ScaleHistory, current: i64, now: Duration) -> i64 {
        let proposals = self.policies.iter().map(|(kind, value, period)| {
            let start = Self::at_start(history, current, *period, now);
            match kind.as_str() {
                "Pods" => start + value,
                _ => (start as f64 * (1.0 + *value as f64 / 100.0)).ceil() as i64,
            }
        });
        match self.select.as_str() {
            "Disabled" => current,
            "Min" => proposals.min().unwrap_or(current),
            _ => proposals.max().unwrap_or(current),
        }
    }

    fn lowest(&self, history: &ScaleHistory, current: i64, now: Duration) -> i64 {
        let proposals = self.policies.iter().map(|(kind, value, period)| {
            let start = Self::at_start(history, current, *period, now);
            match kind.as_str() {
                "Pods" => start - value,
                _ => (start as f64 * (1.0 - *value as f64 / 100.0)) as i64,
            }
        });
        match self.select.as_str() {
            "Disabled" => current,
            // The smallest change keeps the most replicas.
            "Min" => proposals.max().unwrap_or(current),
            _ => proposals.min().unwrap_or(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn autoscaler(behavior: Value) -> Object {
        Object::from_value(json!({"spec": {"minReplicas": 2, "maxReplicas": 20, "behavior": behavior}})).expect("a map")
    }

    /// Proposals with the seconds before each, starting from five replicas; the expected results.
    #[track_caller]
    fn check(behavior: Value, steps: &[(u64, i64)], expected: &[i64]) {
        let object = autoscaler(behavior);
        let (mut history, mut current, mut now) = (ScaleHistory::default(), 5, Duration::from_secs(1000));
        history.begin(current, now);
        let mut found = Vec::new();
        for (wait, proposed) in steps {
            now += Duration::from_secs(*wait);
            let bounded = bound(&object, &mut history, current, *proposed, &ScalingSettings::default(), now);
            if bounded.replicas != current {
                history.scaled(current, bounded.replicas, now);
            }
            current = bounded.replicas;
            found.push(current);
        }
        assert_eq!(found, expected, "{:?}", object.get(&["spec", "behavior"]));
    }

    #[test]
    fn without_a_behavior_growth_is_quick_and_shrinking_waits() {
        check(json!(null), &[(0, 30), (15, 30), (15, 30)], &[10, 20, 20]);
        check(json!(null), &[(15, 2), (15, 2), (280, 2)], &[5, 5, 2]);
        check(json!(null), &[(301, 1)], &[2]);
    }

    #[test]
    fn a_behavior_sets_the_pace() {
        let slow = json!({"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}});
        check(slow, &[(0, 9), (15, 9), (50, 9)], &[6, 6, 7]);
        let quick = json!({"scaleDown": {"stabilizationWindowSeconds": 0,
            "policies": [{"type": "Percent", "value": 20, "periodSeconds": 30}]}});
        check(quick, &[(15, 2), (15, 2), (20, 2)], &[4, 4, 3]);
        let never = json!({"scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 0}});
        check(never, &[(400, 2)], &[5]);
        let steady = json!({"scaleUp": {"stabilizationWindowSeconds": 60}});
        check(steady, &[(15, 9), (15, 9), (61, 9), (1, 9)], &[5, 5, 9, 9]);
    }
}
