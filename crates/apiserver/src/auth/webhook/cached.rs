//! Answers that are kept for a while, by a digest of the question.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::auth::certificate::sha256;

/// Beyond this many answers the cache is cleared.
const ANSWERS_MAX: usize = 10_000;

pub(super) struct Cached<T> {
    answers: Mutex<HashMap<[u8; 32], (Instant, T)>>,
}

impl<T: Clone> Cached<T> {
    pub(super) fn new() -> Self {
        Self { answers: Mutex::default() }
    }

    pub(super) fn key(question: &[u8]) -> [u8; 32] {
        sha256(question)
    }

    /// The answer, if it is still good at `now`.
    pub(super) fn get(&self, key: &[u8; 32], now: Instant) -> Option<T> {
        self.answers.lock().get(key).filter(|(until, _)| *until > now).map(|(_, answer)| answer.clone())
    }

    pub(super) fn keep(&self, key: [u8; 32], answer: T, now: Instant, time: Duration) {
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(key, (now + time, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_and_their_number_is_bounded() {
        let (cached, now) = (Cached::new(), Instant::now());
        let key = Cached::<u32>::key(b"question");
        cached.keep(key, 1, now, Duration::from_secs(10));
        assert_eq!(cached.get(&key, now + Duration::from_secs(9)), Some(1));
        assert_eq!(cached.get(&key, now + Duration::from_secs(10)), None);
        for index in 0..=ANSWERS_MAX as u32 {
            cached.keep(Cached::<u32>::key(&index.to_be_bytes()), index, now, Duration::from_secs(10));
        }
        assert!(cached.answers.lock().len() <= ANSWERS_MAX);
    }
}
