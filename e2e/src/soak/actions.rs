//! Carries out user actions at their times: late ones are skipped, those that the final state needs are not, and all
//! of them together have a deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::run_log::{SharedRunLog, with};
use super::schedule::{Action, ScheduledStep, UserAction};
use crate::history::writes::Violation;

/// An action that could only start this long after its time is skipped.
const LATE_MAX: Duration = Duration::from_secs(5);
/// All actions have ended this long after the end of the schedule: the last ones are never skipped, and each of them
/// may have to wait until programs have restarted.
pub const OVERTIME: Duration = Duration::from_secs(600);

pub trait Actor: Send {
    fn act(&mut self, action: &UserAction) -> impl Future<Output = Result<(), String>> + Send;

    /// Returns why the current action had to be retried.
    fn obstacle(&self) -> &str;
}

pub async fn run(
    mut actor: impl Actor,
    steps: &[ScheduledStep],
    start: Instant,
    length: Duration,
    run_log: &SharedRunLog,
) {
    let deadline = start + length + OVERTIME;
    for (at, action, is_needed) in planned(steps) {
        let at = start + at;
        sleep_until(at).await;
        if !is_needed && at.elapsed() > LATE_MAX {
            with(run_log, |run_log| run_log.skipped += 1);
            continue;
        }
        with(run_log, |run_log| run_log.action = Some((format!("{action:?}"), std::time::Instant::now())));
        let done = timeout_at(deadline, actor.act(action)).await;
        let obstacle = actor.obstacle();
        let is_in_time = done.is_ok();
        with(run_log, |run_log| {
            match done {
                Ok(Ok(())) => {}
                Ok(Err(why)) => run_log.notes.push(format!("{action:?} failed: {why}")),
                Err(_) => {
                    let what = format!("out of time: {}; last obstacle: {obstacle}", run_log.describe());
                    run_log.violations.push(Violation { rule: "actions end", what });
                }
            }
            run_log.actions += 1;
            run_log.action = None;
        });
        if !is_in_time {
            return;
        }
    }
}

/// Returns all user actions with their times, and whether they are needed at any time: the last action that makes a
/// member available again, without which the run cannot converge.
fn planned(steps: &[ScheduledStep]) -> Vec<(Duration, &UserAction, bool)> {
    let actions = steps.iter().enumerate().filter_map(|(index, step)| match &step.action {
        Action::User(action) => Some((index, Duration::from_millis(step.at_ms), action)),
        Action::Fault { .. } => None,
    });
    let mut last: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for (index, _, action) in actions.clone() {
        if let Some(reverted) = reverts(action) {
            last.insert(reverted, index);
        }
    }
    let is_needed = |index, action| reverts(action).is_some_and(|reverted| last.get(&reverted) == Some(&index));
    actions.map(|(index, at, action)| (at, action, is_needed(index, action))).collect()
}

/// Returns what an action reverts, and in which member.
fn reverts(action: &UserAction) -> Option<(&'static str, u64)> {
    match action {
        UserAction::Uncordon { cluster } => Some(("cordon", *cluster)),
        UserAction::Untaint { cluster } => Some(("taint", *cluster)),
        UserAction::Join { cluster } => Some(("unjoin", *cluster)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Needs the same time for every action, and records when each began.
    struct SlowActor {
        takes: Duration,
        start: Instant,
        began: Arc<Mutex<Vec<(u64, UserAction)>>>,
    }

    impl Actor for SlowActor {
        async fn act(&mut self, action: &UserAction) -> Result<(), String> {
            self.began.lock().expect("not poisoned").push((self.start.elapsed().as_secs(), action.clone()));
            tokio::time::sleep(self.takes).await;
            Ok(())
        }

        fn obstacle(&self) -> &str {
            "503 starting"
        }
    }

    async fn check(takes: u64, steps: &[(u64, UserAction)], expected: &[(u64, UserAction)]) -> SharedRunLog {
        let start = Instant::now();
        let began = Arc::default();
        let actor = SlowActor { takes: Duration::from_secs(takes), start, began: Arc::clone(&began) };
        let step =
            |(at, action): &(u64, UserAction)| ScheduledStep { at_ms: at * 1000, action: Action::User(action.clone()) };
        let steps: Vec<ScheduledStep> = steps.iter().map(step).collect();
        let run_log = SharedRunLog::default();
        run(actor, &steps, start, Duration::from_secs(60), &run_log).await;
        assert_eq!(*began.lock().expect("not poisoned"), expected);
        run_log
    }

    #[tokio::test(start_paused = true)]
    async fn late_actions_are_skipped_unless_the_final_state_needs_them() {
        use UserAction::{Cordon, Delete, Join, Uncordon, Unjoin, Untaint};
        let steps = [
            (1, Delete { template: 1 }),
            // The first action ends at 11, when these are more than five seconds late.
            (2, Join { cluster: 1 }),
            (4, Delete { template: 2 }),
            (5, Uncordon { cluster: 0 }),
            (22, Cordon { cluster: 0 }),
            (30, Unjoin { cluster: 1 }),
            (30, Uncordon { cluster: 1 }),
            (31, Uncordon { cluster: 0 }),
            (31, Untaint { cluster: 0 }),
            (31, Join { cluster: 1 }),
        ];
        let expected = [
            (1, Delete { template: 1 }),
            (22, Cordon { cluster: 0 }),
            (32, Unjoin { cluster: 1 }),
            (42, Uncordon { cluster: 1 }),
            (52, Uncordon { cluster: 0 }),
            (62, Untaint { cluster: 0 }),
            (72, Join { cluster: 1 }),
        ];
        let run_log = check(10, &steps, &expected).await;
        with(&run_log, |run_log| {
            assert_eq!((run_log.actions, run_log.skipped), (7, 3));
            assert!(run_log.violations.is_empty(), "{:?}", run_log.violations);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn actions_that_do_not_end_are_reported_at_the_deadline() {
        let steps = [(1, UserAction::Delete { template: 1 }), (2, UserAction::Untaint { cluster: 2 })];
        let run_log = check(10_000, &steps, &steps[..1]).await;
        with(&run_log, |run_log| {
            let [violation] = &run_log.violations[..] else { panic!("{:?}", run_log.violations) };
            assert_eq!(violation.rule, "actions end");
            assert!(violation.what.contains("Delete { template: 1 }"), "{violation}");
            assert!(violation.what.ends_with("last obstacle: 503 starting"), "{violation}");
        });
    }
}
