//! Memory of request bodies and unsent responses, in total and per user.

use std::sync::Arc;

use object::Status;
use object::request::User;
use parking_lot::Mutex;

use super::slots::{Counts, is_exempt};
use super::{Limits, too_many_requests};

/// Bytes that are counted until dropped.
pub struct Reservation {
    /// `None` for users without limits.
    counted: Option<(Arc<Mutex<Counts>>, Arc<User>)>,
    bytes: usize,
}

impl Limits {
    /// Reserves memory for a request or a response of a user, or refuses with the time to wait.
    ///
    /// One piece is charged at most half of the user's share, so that a very large one does not stop the small ones.
    pub fn reserve(&self, user: &Arc<User>, bytes: usize) -> Result<Reservation, Status> {
        if is_exempt(user) {
            return Ok(Reservation { counted: None, bytes: 0 });
        }
        let mut reservation = Reservation { counted: Some((self.counts.clone(), user.clone())), bytes: 0 };
        self.grow(&mut reservation, bytes)?;
        Ok(reservation)
    }

    /// Raises a reservation to `bytes`; one that is larger already stays.
    pub fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), Status> {
        let Some((counts, user)) = &reservation.counted else { return Ok(()) };
        let bytes = bytes.min(self.config.memory_per_user_max / 2);
        let Some(more) = bytes.checked_sub(reservation.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let mut counts = counts.lock();
        let free = self.config.memory_max.saturating_sub(counts.bytes);
        let held = counts.bytes_of(&user.name);
        // Half of the free memory stays free for other users.
        if held + more > self.config.memory_per_user_max || more > free / 2 {
            return Err(too_many_requests());
        }
        counts.bytes += more;
        counts.user(&user.name).bytes += more;
        reservation.bytes = bytes;
        Ok(())
    }
}

impl Reservation {
    pub fn shrink_to(&mut self, bytes: usize) {
        let Some((counts, user)) = &self.counted else { return };
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes -= less;
            let mut counts = counts.lock();
            counts.bytes -= less;
            counts.user(&user.name).bytes -= less;
            counts.forget_if_unused(&user.name);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::LimitsConfig;
    use super::*;

    const MIB: usize = 1 << 20;

    fn limits() -> Limits {
        Limits::new(LimitsConfig { memory_max: 100 * MIB, memory_per_user_max: 20 * MIB, ..LimitsConfig::default() })
    }

    /// Reserves `each` until refused and returns how many times that worked.
    fn check(user: User, each: usize, expected: usize) {
        let limits = limits();
        let user = Arc::new(user);
        let held: Vec<_> = (0..100).map_while(|_| limits.reserve(&user, each).ok()).collect();
        assert_eq!(held.len(), expected, "{} reserves {each} bytes each time", user.name);
        drop(held);
        assert_eq!(limits.counts.lock().bytes, 0);
    }

    #[test]
    fn memory_is_limited_per_user() {
        check(User::new("a", &[]), MIB, 20);
        check(User::new("reads huge lists", &[]), 1_000 * MIB, 2);
        check(User::new("admin", &["system:masters"]), MIB, 100);
    }

    #[test]
    fn many_greedy_users_leave_memory_to_another() {
        let limits = limits();
        let mut held = Vec::new();
        for index in 0..100 {
            let user = Arc::new(User::new(&format!("greedy-{index}"), &[]));
            held.extend(std::iter::from_fn(|| limits.reserve(&user, MIB).ok()));
        }
        assert!(limits.reserve(&Arc::new(User::new("newcomer", &[])), 64 << 10).is_ok());
    }

    #[test]
    fn a_reservation_follows_its_size() {
        let limits = limits();
        let user = Arc::new(User::new("a", &[]));
        let mut reservation = limits.reserve(&user, MIB).expect("free memory");
        limits.grow(&mut reservation, 3 * MIB).expect("free memory");
        assert_eq!(limits.counts.lock().bytes, 3 * MIB);
        reservation.shrink_to(MIB);
        assert_eq!(limits.counts.lock().bytes, MIB);
        drop(reservation);
        assert_eq!(limits.counts.lock().bytes, 0);
    }
}
