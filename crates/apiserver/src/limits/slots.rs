//! Slots for requests in flight, shared fairly among users.

use std::collections::HashMap;
use std::sync::Arc;

use object::Status;
use object::request::User;
use parking_lot::Mutex;

use super::{Limits, LimitsConfig, too_many_requests};
use crate::request::RequestInfo;

#[derive(Default)]
pub(super) struct Counts {
    reads: usize,
    writes: usize,
    reserved: usize,
    pub(super) bytes: usize,
    users: HashMap<String, PerUser>,
}

#[derive(Default)]
pub(super) struct PerUser {
    reads: usize,
    writes: usize,
    reserved: usize,
    long: usize,
    pub(super) bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotClass {
    Read,
    Write,
    Reserved,
    LongRunning,
}

/// One request in flight, counted until dropped.
pub struct Slot {
    counts: Arc<Mutex<Counts>>,
    user: Arc<User>,
    class: SlotClass,
}

impl Limits {
    /// Takes a slot, or refuses with the time to wait. Administrators and health checks need none.
    pub fn enter(&self, user: &Arc<User>, info: &RequestInfo) -> Result<Option<Slot>, Status> {
        if is_exempt(user) || is_health_check(&info.path) {
            return Ok(None);
        }
        let class = match (info.is_long_running(), info.is_read_only()) {
            (true, _) => SlotClass::LongRunning,
            (false, true) => SlotClass::Read,
            (false, false) => SlotClass::Write,
        };
        let may_use_reserved = class != SlotClass::LongRunning && self.has_reserved_slots(user);
        let mut counts = self.counts.lock();
        let class = [Some(class), may_use_reserved.then_some(SlotClass::Reserved)]
            .into_iter()
            .flatten()
            .find(|class| counts.has_free(&self.config, user, *class))
            .ok_or_else(too_many_requests)?;
        counts.take(user, class);
        Ok(Some(Slot { counts: self.counts.clone(), user: user.clone(), class }))
    }
}

impl Limits {
    /// Returns true for users whose requests may use the reserved slots.
    pub fn has_reserved_slots(&self, user: &User) -> bool {
        user.groups.iter().any(|group| self.config.reserved_groups.contains(&&**group))
    }
}

pub(super) fn is_exempt(user: &User) -> bool {
    user.groups.iter().any(|group| group == object::request::user::MASTERS_GROUP)
}

fn is_health_check(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|probe| path.strip_prefix(probe).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

impl Counts {
    fn has_free(&self, config: &LimitsConfig, user: &User, class: SlotClass) -> bool {
        let none = PerUser::default();
        let mine = self.users.get(&user.name).unwrap_or(&none);
        let (used, max, held) = match class {
            SlotClass::LongRunning => return mine.long < config.long_running_per_user_max,
            SlotClass::Read => (self.reads, config.reads_max, mine.reads),
            SlotClass::Write => (self.writes, config.writes_max, mine.writes),
            SlotClass::Reserved => (self.reserved, config.reserved_max, mine.reserved),
        };
        let free = max.saturating_sub(used);
        let held_by_user = mine.reads + mine.writes;
        let within_share = class == SlotClass::Reserved || held_by_user < config.per_user_max;
        // Half of the slots that others leave stay free for the next user.
        within_share && held < free
    }

    fn take(&mut self, user: &User, class: SlotClass) {
        self.of_class(class, |count| *count += 1);
        let mine = self.user(&user.name);
        *mine.of_class(class) += 1;
    }

    fn of_class(&mut self, class: SlotClass, change: impl FnOnce(&mut usize)) {
        match class {
            SlotClass::Read => change(&mut self.reads),
            SlotClass::Write => change(&mut self.writes),
            SlotClass::Reserved => change(&mut self.reserved),
            SlotClass::LongRunning => {}
        }
    }

    pub(super) fn user(&mut self, name: &str) -> &mut PerUser {
        if !self.users.contains_key(name) {
            self.users.insert(name.to_owned(), PerUser::default());
        }
        self.users.get_mut(name).expect("inserted above")
    }

    pub(super) fn bytes_of(&self, name: &str) -> usize {
        self.users.get(name).map_or(0, |user| user.bytes)
    }

    /// Removes a user that holds nothing any more.
    pub(super) fn forget_if_unused(&mut self, name: &str) {
        if self.users.get(name).is_some_and(PerUser::is_unused) {
            self.users.remove(name);
        }
    }
}

impl PerUser {
    fn of_class(&mut self, class: SlotClass) -> &mut usize {
        match class {
            SlotClass::Read => &mut self.reads,
            SlotClass::Write => &mut self.writes,
            SlotClass::Reserved => &mut self.reserved,
            SlotClass::LongRunning => &mut self.long,
        }
    }

    fn is_unused(&self) -> bool {
        [self.reads, self.writes, self.reserved, self.long, self.bytes] == [0; 5]
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.of_class(self.class, |count| *count -= 1);
        *counts.user(&self.user.name).of_class(self.class) -= 1;
        counts.forget_if_unused(&self.user.name);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User { name: name.into(), ..User::default() })
    }

    #[test]
    fn one_user_cannot_take_every_slot() {
        let limits = Limits::new(LimitsConfig {
            reads_max: 10,
            writes_max: 10,
            per_user_max: 2,
            long_running_per_user_max: 1,
            ..LimitsConfig::default()
        });
        let get = RequestInfo::parse(&Method::GET, "/api/v1/pods", "");
        let watch = RequestInfo::parse(&Method::GET, "/api/v1/pods", "watch=1");
        let greedy: Vec<_> = (0..2).map(|_| limits.enter(&user("a"), &get).expect("a free slot")).collect();
        let refused = limits.enter(&user("a"), &get).err().expect("no free slot");
        assert_eq!((refused.code, refused.details.expect("details").retry_after_seconds), (429, 1));
        assert!(limits.enter(&user("b"), &get).is_ok());
        let watching = limits.enter(&user("a"), &watch).expect("a watch is another class");
        assert!(limits.enter(&user("a"), &watch).is_err());
        drop((greedy, watching));
        assert!(limits.enter(&user("a"), &get).is_ok());
        assert!(limits.counts.lock().users.is_empty());
    }

    /// Lets every greedy user take all it can; then a newcomer of `groups` gets at least `expected` slots.
    fn check_newcomer(greedy: usize, groups: &[&str], expected: usize) {
        let limits = Limits::new(LimitsConfig::default());
        let create = RequestInfo::parse(&Method::POST, "/api/v1/namespaces/a/configmaps", "");
        let take_all = |user: &Arc<User>| -> Vec<Slot> {
            std::iter::from_fn(|| limits.enter(user, &create).ok().flatten()).collect()
        };
        let held: Vec<_> = (0..greedy).map(|index| take_all(&user(&format!("greedy-{index}")))).collect();
        let got = take_all(&Arc::new(User::new("newcomer", groups)));
        assert!(got.len() >= expected, "{greedy} greedy users leave {} slots to one of {groups:?}", got.len());
        drop((held, got));
        assert!(limits.counts.lock().users.is_empty());
    }

    #[test]
    fn greedy_users_leave_slots_to_others_and_to_nodes() {
        check_newcomer(0, &[], 100);
        check_newcomer(1, &[], 50);
        check_newcomer(2, &[], 25);
        check_newcomer(5, &[], 3);
        check_newcomer(1_000, &["system:nodes"], 50);
    }

    #[test]
    fn every_path_but_health_checks_takes_a_slot() {
        let limits = Limits::new(LimitsConfig::default());
        let cases = [
            ("GET", "/healthz", false),
            ("GET", "/readyz/ping", false),
            ("GET", "/readyzzz", true),
            ("GET", "/metrics", true),
            ("GET", "/openapi/v3", true),
            ("GET", "/apis", true),
            ("POST", "/flotilla/v1alpha1/plan", true),
            ("GET", "/flotilla/v1alpha1/why", true),
        ];
        for (method, path, takes_slot) in cases {
            let info = RequestInfo::parse(&method.parse().expect("a method"), path, "");
            let slot = limits.enter(&user("a"), &info).expect("a free slot");
            assert_eq!(slot.is_some(), takes_slot, "{method} {path}");
        }
    }
}
