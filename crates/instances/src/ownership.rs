//! Decides which replica of the manager runs an instance.
//!
//! Data in a directory is where its replica is, so that replica runs the instance, with or without the lease of the manager.
//! All other instances are run by the holder of the lease.

/// The replica on which an instance ran last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRan {
    Nowhere,
    Here,
    Elsewhere {
        /// That replica answers. Asked only where [`needs_answer`] says so.
        answers: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct OwnershipFacts {
    /// This replica holds the lease of the manager.
    pub leads: bool,
    /// The instance was ready, with its data in the directory of a replica.
    pub has_local_data: bool,
    pub last_ran: LastRan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceOwner {
    This,
    /// Another replica runs it.
    Other,
    /// Another replica will run it. What runs here serves until then.
    OtherSoon,
}

/// Returns true if the decision depends on whether the other replica answers.
pub fn needs_answer(leads: bool, has_local_data: bool, ran_elsewhere: bool) -> bool {
    leads && has_local_data && ran_elsewhere
}

pub fn owner(facts: OwnershipFacts) -> InstanceOwner {
    let OwnershipFacts { leads, has_local_data, last_ran } = facts;
    match last_ran {
        LastRan::Here if has_local_data => InstanceOwner::This,
        LastRan::Elsewhere { answers: true } if has_local_data => InstanceOwner::Other,
        _ if leads => InstanceOwner::This,
        LastRan::Elsewhere { .. } => InstanceOwner::Other,
        LastRan::Here | LastRan::Nowhere => InstanceOwner::OtherSoon,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(leads: bool, has_local_data: bool, last_ran: LastRan, expected: InstanceOwner) {
        assert_eq!(owner(OwnershipFacts { leads, has_local_data, last_ran }), expected);
    }

    #[test]
    fn every_instance_has_one_owner() {
        let (alive, dead) = (LastRan::Elsewhere { answers: true }, LastRan::Elsewhere { answers: false });
        for last_ran in [LastRan::Nowhere, LastRan::Here, alive, dead] {
            check(true, false, last_ran, InstanceOwner::This);
        }
        check(false, false, LastRan::Nowhere, InstanceOwner::OtherSoon);
        check(false, false, LastRan::Here, InstanceOwner::OtherSoon);
        check(false, false, alive, InstanceOwner::Other);
        // Data in a directory.
        check(true, true, LastRan::Here, InstanceOwner::This);
        check(false, true, LastRan::Here, InstanceOwner::This);
        check(true, true, alive, InstanceOwner::Other);
        check(true, true, dead, InstanceOwner::This);
        check(false, true, alive, InstanceOwner::Other);
        check(false, true, dead, InstanceOwner::Other);
        check(false, true, LastRan::Nowhere, InstanceOwner::OtherSoon);
        check(true, true, LastRan::Nowhere, InstanceOwner::This);
    }

    #[test]
    fn only_the_leader_asks_other_replicas() {
        assert!(needs_answer(true, true, true));
        assert!(
            !needs_answer(false, true, true) && !needs_answer(true, false, true) && !needs_answer(true, true, false)
        );
    }
}
