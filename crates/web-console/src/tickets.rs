//! One-time tickets: a program with credentials gets one and passes it to a browser as a link that signs in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object::request::User;
use parking_lot::Mutex;
use pki::token::Secret;

/// Time in which a ticket must be used.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// Unused tickets of one user; the oldest is dropped when there is one more.
const PER_USER_MAX: usize = 20;

struct Ticket {
    user: Arc<User>,
    token: Option<Secret>,
    issued: Instant,
}

#[derive(Default)]
pub struct Tickets {
    by_secret: Mutex<HashMap<String, Ticket>>,
}

impl Tickets {
    /// Remembers a ticket for the user; `token` is the credential it was requested with.
    pub fn issue(&self, secret: &Secret, user: Arc<User>, token: Option<Secret>, now: Instant) {
        let mut by_secret = self.by_secret.lock();
        by_secret.retain(|_, ticket| now.duration_since(ticket.issued) < LIFETIME);
        let own = by_secret.iter().filter(|(_, ticket)| ticket.user.name == user.name);
        if own.clone().count() >= PER_USER_MAX
            && let Some(oldest) = own.min_by_key(|(_, ticket)| ticket.issued).map(|(secret, _)| secret.clone())
        {
            by_secret.remove(&oldest);
        }
        by_secret.insert(secret.expose().to_owned(), Ticket { user, token, issued: now });
    }

    /// Takes the ticket: a second attempt with the same one fails.
    pub fn redeem(&self, secret: &str, now: Instant) -> Option<(Arc<User>, Option<Secret>)> {
        let ticket = self.by_secret.lock().remove(secret)?;
        (now.duration_since(ticket.issued) < LIFETIME).then_some((ticket.user, ticket.token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_valid_once_and_for_a_short_time() {
        let (tickets, start) = (Tickets::default(), Instant::now());
        let user = Arc::new(User::new("ann", &[]));
        tickets.issue(&Secret::new("one"), user.clone(), None, start);
        tickets.issue(&Secret::new("two"), user.clone(), None, start);
        assert_eq!(tickets.redeem("one", start).map(|(user, _)| user.name.clone()).as_deref(), Some("ann"));
        assert!(tickets.redeem("one", start).is_none(), "used already");
        assert!(tickets.redeem("two", start + LIFETIME).is_none(), "too late");
        assert!(tickets.redeem("", start).is_none());
        for number in 0..50 {
            tickets.issue(&Secret::new(format!("t{number}")), user.clone(), None, start);
        }
        assert_eq!(tickets.by_secret.lock().len(), PER_USER_MAX);
    }
}
