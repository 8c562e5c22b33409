//! Webster's (Sainte-Laguë) apportionment of seats to parties by votes; every division of replicas uses it.

use api::apportion::give_out;
pub use api::apportion::{Party, TieBreak};

/// Distributes `seats` more seats; `on_single_seat` is called with the index of each party that gets a seat singly. Parties are
/// returned in the order of names. Without votes nothing is distributed.
pub fn share_out(seats: i32, mut parties: Vec<Party>, tie: TieBreak, on_single_seat: impl FnMut(usize)) -> Vec<Party> {
    let total: i128 = parties.iter().map(|party| i128::from(party.votes)).sum();
    if total <= 0 || seats <= 0 {
        parties.sort_by_key(|party| party.index);
        return parties;
    }
    let mut left = seats;
    if parties.iter().all(|party| party.seats == 0) {
        left -= head_start(seats, total, &mut parties);
    }
    give_out(left, parties, tie, on_single_seat)
}

/// Gives every party its guaranteed seats, so that a million replicas cost no more than ten.
///
/// With `n` seats, `m` parties and `t` votes in total, a party with `v` votes ends with at least `v*(n - m/2)/t -
/// 1/2` seats; two less than that allows for rounding.
fn head_start(seats: i32, total: i128, parties: &mut [Party]) -> i32 {
    let sure = i128::from(seats) - parties.len().div_ceil(2) as i128;
    let mut given = 0;
    for party in parties {
        let least = i128::from(party.votes) * sure / total - 2;
        party.seats = i32::try_from(least.clamp(0, i128::from(seats))).unwrap_or(0);
        given += party.seats;
    }
    given
}

#[cfg(test)]
mod tests {
    use api::apportion::Claim;
    use proptest::prelude::*;

    use super::*;

    const EVEN: &str = "4858ca61-3ff8-4095-8267-f3d059d8074c";
    const ODD: &str = "d43fdeeb-d750-4e2b-bee3-64eb94534f4c";

    fn parties(votes: &[i64], seats: &[i32]) -> Vec<Party> {
        let seat = |index: usize| seats.get(index).copied().unwrap_or(0);
        votes.iter().enumerate().map(|(index, votes)| Party { index, votes: *votes, seats: seat(index) }).collect()
    }

    fn seats(parties: &[Party]) -> Vec<i32> {
        parties.iter().map(|party| party.seats).collect()
    }

    #[track_caller]
    fn check(replicas: i32, votes: &[i64], had: &[i32], uid: &str, expected: &[i32]) {
        let shared = share_out(replicas, parties(votes, had), TieBreak::of_uid(uid), |_| {});
        assert_eq!(seats(&shared), expected, "{replicas} among {votes:?} that had {had:?}");
    }

    /// The cases of karmada v1.18.2, pkg/util/helper/{binding,webstermethod}_test.go.
    #[test]
    fn replicas_are_shared_as_karmada_shares_them() {
        check(5, &[1, 1], &[], EVEN, &[3, 2]);
        check(5, &[1, 1], &[], ODD, &[2, 3]);
        check(5, &[1, 1], &[], "", &[3, 2]);
        check(3, &[1, 1], &[], "", &[2, 1]);
        check(5, &[1, 1, 1], &[], "", &[2, 2, 1]);
        check(9, &[1, 3], &[], "", &[2, 7]);
        check(9, &[1, 2], &[], "", &[3, 6]);
        check(12, &[3, 2, 1], &[], "", &[6, 4, 2]);
        check(13, &[3, 2, 1], &[], "", &[7, 4, 2]);
        check(14, &[3, 2, 1], &[], "", &[7, 5, 2]);
        check(2, &[2, 1], &[], "", &[1, 1]);
        check(5, &[170, 110, 60], &[], "", &[2, 2, 1]);
        check(6, &[170, 110, 60], &[], "", &[3, 2, 1]);
        check(7, &[2, 1, 1, 1], &[], "", &[3, 2, 1, 1]);
        check(8, &[2, 1, 1, 1], &[], "", &[3, 2, 2, 1]);
        check(9, &[2, 1, 1, 1], &[], "", &[3, 2, 2, 2]);
        check(6, &[1, 1, 1, 1], &[], "", &[2, 2, 1, 1]);
        check(6, &[2, 1, 1, 1], &[], "", &[3, 1, 1, 1]);
        check(12, &[20, 12, 6], &[], "", &[6, 4, 2]);
        check(3, &[1, 2, 3], &[1, 2, 3], "", &[2, 3, 4]);
        check(2, &[1, 2, 3], &[1, 2, 3], "", &[1, 3, 4]);
        // New before Old: the one without seats catches up.
        check(2, &[1, 1], &[0, 1], "", &[2, 1]);
        check(0, &[1, 1], &[], "", &[0, 0]);
        check(5, &[0, 0], &[], "", &[0, 0]);
    }

    #[test]
    fn a_huge_number_of_replicas_is_no_work() {
        let mut on_single_seat = 0;
        let shared = share_out(i32::MAX, parties(&[3, 2, 1], &[]), TieBreak::NameAscending, |_| on_single_seat += 1);
        assert_eq!(seats(&shared).iter().map(|seats| i64::from(*seats)).sum::<i64>(), i64::from(i32::MAX));
        assert!(on_single_seat < 20, "{on_single_seat} seats were given singly");
    }

    fn one_by_one(replicas: i32, votes: &[i64], tie: TieBreak) -> Vec<i32> {
        let mut held = parties(votes, &[]);
        for _ in 0..replicas {
            let best =
                (0..held.len()).max_by(|a, b| Claim { party: held[*a], tie }.cmp(&Claim { party: held[*b], tie }));
            held[best.expect("there are parties")].seats += 1;
        }
        seats(&held)
    }

    proptest! {
        #[test]
        fn the_head_start_does_not_change_results(
            replicas in 1..400i32,
            votes in proptest::collection::vec(0..60i64, 1..12),
            descending: bool,
        ) {
            prop_assume!(votes.iter().sum::<i64>() > 0);
            let tie = if descending { TieBreak::NameDescending } else { TieBreak::NameAscending };
            let shared = seats(&share_out(replicas, parties(&votes, &[]), tie, |_| {}));
            prop_assert_eq!(shared.iter().sum::<i32>(), replicas);
            prop_assert_eq!(shared, one_by_one(replicas, &votes, tie));
        }

        #[test]
        fn more_votes_never_get_fewer_seats(
            replicas in 0..300i32,
            votes in proptest::collection::vec(1..1000i64, 2..10),
        ) {
            let shared = seats(&share_out(replicas, parties(&votes, &[]), TieBreak::NameAscending, |_| {}));
            for (a, more) in votes.iter().enumerate() {
                for (b, less) in votes.iter().enumerate() {
                    prop_assert!(more <= less || shared[a] >= shared[b], "{votes:?} {shared:?}");
                }
            }
        }
    }
}
