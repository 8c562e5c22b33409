//! Execution history of the rules of a CronFederatedHPA: next run and recent results.

use api::autoscaling::{CronHpaStatus, CronRule, ExecutionHistory, FailedExecution, SuccessfulExecution};
use jiff::Timestamp;
use object::time::format_seconds;

/// Executions kept of each kind where the rule does not say.
const KEPT: usize = 3;

/// One execution of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    pub due: Timestamp,
    pub done: Timestamp,
    pub result: Result<(), String>,
}

/// A rule as it stands.
#[derive(Clone, Debug)]
pub struct RuleState<'a> {
    pub rule: &'a CronRule,
    pub next: Option<Timestamp>,
    /// Executions that are not yet in the status, the eldest first.
    pub news: &'a [Execution],
}

/// The status with the news, the newest first, without rules that are gone.
pub fn merge(before: &CronHpaStatus, rules: &[RuleState<'_>]) -> CronHpaStatus {
    let known = before.execution_histories.iter().filter_map(|history| {
        let state = rules.iter().find(|state| state.rule.name == history.rule_name)?;
        Some(advance(history.clone(), state))
    });
    let is_known = |name: &str| before.execution_histories.iter().any(|history| history.rule_name == name);
    let new = rules.iter().filter(|state| !is_known(&state.rule.name)).map(|state| {
        advance(ExecutionHistory { rule_name: state.rule.name.clone(), ..ExecutionHistory::default() }, state)
    });
    CronHpaStatus { execution_histories: known.chain(new).collect() }
}

fn advance(mut history: ExecutionHistory, state: &RuleState<'_>) -> ExecutionHistory {
    let RuleState { rule, next, news } = state;
    for execution in *news {
        let (schedule_time, execution_time) = (format_seconds(execution.due), format_seconds(execution.done));
        match &execution.result {
            Ok(()) => {
                let entry = SuccessfulExecution {
                    schedule_time,
                    execution_time,
                    applied_replicas: rule.target_replicas,
                    applied_max_replicas: rule.target_max_replicas,
                    applied_min_replicas: rule.target_min_replicas,
                };
                history.successful_executions.insert(0, entry);
            }
            Err(message) => {
                let entry = FailedExecution { schedule_time, execution_time, message: message.clone() };
                history.failed_executions.insert(0, entry);
            }
        }
    }
    let kept = |limit: Option<i32>| limit.map_or(KEPT, |limit| usize::try_from(limit).unwrap_or(0));
    history.successful_executions.truncate(kept(rule.successful_history_limit));
    history.failed_executions.truncate(kept(rule.failed_history_limit));
    history.next_execution_time = next.map(format_seconds);
    history
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn execution(second: i64, result: Result<(), &str>) -> Execution {
        Execution { due: at(second), done: at(second + 1), result: result.map_err(str::to_owned) }
    }

    #[test]
    fn the_newest_executions_are_kept_and_those_of_removed_rules_are_dropped() {
        let rule = |name: &str| CronRule { name: name.to_owned(), target_replicas: Some(2), ..CronRule::default() };
        let (a, b) = (rule("a"), CronRule { failed_history_limit: Some(0), ..rule("b") });
        let news: Vec<Execution> = (0..5).map(|minute| execution(60 * minute, Ok(()))).collect();
        let state = |rule, next, news| RuleState { rule, next, news };
        let first = merge(&CronHpaStatus::default(), &[state(&a, Some(at(300)), &news)]);
        let history = &first.execution_histories[0];
        assert_eq!(history.next_execution_time.as_deref(), Some("1970-01-01T00:05:00Z"));
        let times: Vec<&str> = history.successful_executions.iter().map(|done| done.schedule_time.as_str()).collect();
        assert_eq!(times, ["1970-01-01T00:04:00Z", "1970-01-01T00:03:00Z", "1970-01-01T00:02:00Z"]);
        assert_eq!(history.successful_executions[0].applied_replicas, Some(2));

        let failed = [execution(0, Err("no such thing"))];
        let second = merge(&first, &[state(&a, None, &failed), state(&b, Some(at(60)), &failed)]);
        assert_eq!(second.execution_histories[0].failed_executions[0].message, "no such thing");
        assert_eq!(second.execution_histories[0].successful_executions.len(), 3);
        assert_eq!(second.execution_histories[0].next_execution_time, None);
        assert!(second.execution_histories[1].failed_executions.is_empty(), "none is to be kept");

        let third = merge(&second, &[state(&b, Some(at(60)), &[])]);
        assert_eq!(third.execution_histories.len(), 1);
        assert_eq!(third.execution_histories[0].rule_name, "b");
    }
}
