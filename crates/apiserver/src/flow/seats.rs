//! Seats and queues of priority levels: requests of one flow share few queues, so that a flow with many requests delays itself
//! more than others.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::classify::{Classifier, LevelConfig};

#[derive(Default)]
pub struct Levels {
    levels: BTreeMap<String, PriorityLevel>,
    /// The configuration that the limits were computed from.
    known: Option<Arc<Classifier>>,
}

#[derive(Default)]
struct PriorityLevel {
    config: LevelConfig,
    seats: usize,
    lendable: usize,
    borrowable: usize,
    in_use: usize,
    queues: Vec<VecDeque<oneshot::Sender<Seat>>>,
    /// The queue whose turn it is.
    turn: usize,
}

/// A request in progress; the seat is free again when this is dropped.
pub struct Seat {
    levels: Arc<Mutex<Levels>>,
    level: String,
}

pub enum Queued {
    Seated(Seat),
    Waiting(Ticket),
    Refused,
}

/// A place in a queue.
pub struct Ticket(oneshot::Receiver<Seat>);

impl Ticket {
    /// `None` when the level no longer exists.
    pub async fn seated(self) -> Option<Seat> {
        self.0.await.ok()
    }
}

impl Levels {
    /// Computes the limits again when the configuration changed. Requests in progress keep their seats.
    pub fn follow(&mut self, classifier: &Arc<Classifier>, seats: usize) {
        if self.known.as_ref().is_some_and(|known| Arc::ptr_eq(known, classifier)) {
            return;
        }
        let configs: Vec<(&String, &LevelConfig)> =
            classifier.levels.iter().filter(|(_, config)| !config.is_exempt).collect();
        let shares: u64 = configs.iter().map(|(_, config)| config.shares).sum::<u64>().max(1);
        for (name, config) in &configs {
            let level = self.levels.entry((*name).clone()).or_default();
            level.seats = (seats as u64 * config.shares).div_ceil(shares) as usize;
            level.lendable = level.seats * config.lendable_percent as usize / 100;
            level.borrowable = config.borrowing_percent.map_or(seats, |percent| level.seats * percent as usize / 100);
            if level.queues.len() != config.queues {
                // Waiting requests keep their order in fewer or more queues.
                let waiting: Vec<_> = level.queues.drain(..).flatten().collect();
                level.queues = (0..config.queues).map(|_| VecDeque::new()).collect();
                for (index, sender) in waiting.into_iter().enumerate() {
                    if let Some(queue) = level.queues.get_mut(index % config.queues.max(1)) {
                        queue.push_back(sender);
                    }
                }
            }
            level.config = (*config).clone();
        }
        // A level that is gone serves those it has, and nothing new comes.
        self.levels.retain(|name, level| {
            configs.iter().any(|(known, _)| *known == name) || level.in_use > 0 || level.is_waited_for()
        });
        self.known = Some(classifier.clone());
    }

    pub fn enter(levels: &Arc<Mutex<Self>>, name: &str, flow: &str) -> Queued {
        let mut state = levels.lock();
        let can_start = state.can_start(name);
        let Some(level) = state.levels.get_mut(name) else { return Queued::Refused };
        if can_start && !level.is_waited_for() {
            level.in_use += 1;
            return Queued::Seated(Seat { levels: levels.clone(), level: name.to_owned() });
        }
        let Some(queue) = level.shortest_queue(flow) else { return Queued::Refused };
        // Requests that stopped waiting take no place.
        queue.retain(|sender| !sender.is_closed());
        let (sender, receiver) = oneshot::channel();
        queue.push_back(sender);
        drop(state);
        Self::dispatch(levels);
        Queued::Waiting(Ticket(receiver))
    }

    /// Gives free seats to waiting requests.
    fn dispatch(levels: &Arc<Mutex<Self>>) {
        loop {
            let next = {
                let mut state = levels.lock();
                let waiting: Vec<String> = state
                    .levels
                    .iter()
                    .filter(|(_, level)| level.is_waited_for())
                    .map(|(name, _)| name.clone())
                    .collect();
                let Some(name) = waiting.into_iter().find(|name| state.can_start(name)) else { return };
                let Some(level) = state.levels.get_mut(&name) else { return };
                let Some(sender) = level.next_waiting() else { continue };
                level.in_use += 1;
                (sender, Seat { levels: levels.clone(), level: name })
            };
            // A seat that is not taken any more is dropped outside of the lock, which frees it again.
            let (sender, seat) = next;
            let _ = sender.send(seat);
        }
    }

    /// Returns true when the level has a free seat, or another level lends one.
    fn can_start(&self, name: &str) -> bool {
        let Some(level) = self.levels.get(name) else { return false };
        if level.in_use < level.seats {
            return true;
        }
        let lent = |level: &PriorityLevel| level.lendable.min(level.seats.saturating_sub(level.in_use));
        let borrowed = |level: &PriorityLevel| level.in_use.saturating_sub(level.seats);
        let offered: usize = self.levels.values().map(lent).sum();
        let taken: usize = self.levels.values().map(borrowed).sum();
        borrowed(level) < level.borrowable && taken < offered
    }
}

impl PriorityLevel {
    fn is_waited_for(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// The shortest of the few queues of a flow; `None` when it is full or the level has none.
    fn shortest_queue(&mut self, flow: &str) -> Option<&mut VecDeque<oneshot::Sender<Seat>>> {
        let count = self.queues.len() as u64;
        let hand = (0..self.config.hand).map(|card| {
            let mut hasher = DefaultHasher::new();
            (flow, card).hash(&mut hasher);
            (hasher.finish() % count.max(1)) as usize
        });
        let shortest = hand.min_by_key(|index| self.queues.get(*index).map_or(usize::MAX, VecDeque::len))?;
        let limit = self.config.queue_length_max;
        self.queues.get_mut(shortest).filter(|queue| queue.len() < limit)
    }

    /// The next request, from each queue in turn.
    fn next_waiting(&mut self) -> Option<oneshot::Sender<Seat>> {
        let count = self.queues.len();
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            while let Some(sender) = self.queues[self.turn].pop_front() {
                if !sender.is_closed() {
                    return Some(sender);
                }
            }
        }
        None
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(level) = self.levels.lock().levels.get_mut(&self.level) {
            level.in_use = level.in_use.saturating_sub(1);
        }
        Levels::dispatch(&self.levels);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn levels(seats: usize, configs: &[(&str, LevelConfig)]) -> Arc<Mutex<Levels>> {
        let levels =
            configs.iter().map(|(name, config)| ((*name).to_owned(), config.clone())).collect::<HashMap<_, _>>();
        let state: Arc<Mutex<Levels>> = Arc::default();
        state.lock().follow(&Arc::new(Classifier::of_levels(levels)), seats);
        state
    }

    fn config(shares: u64, lendable_percent: u64, queues: usize, queue_length_max: usize) -> LevelConfig {
        LevelConfig { shares, lendable_percent, queues, hand: 1, queue_length_max, ..LevelConfig::default() }
    }

    /// Lets flows enter one after the other: `s` seated, `w` waiting, `r` refused.
    fn enter_all(levels: &Arc<Mutex<Levels>>, level: &str, flows: &[&str]) -> (String, Vec<Seat>, Vec<Ticket>) {
        let (mut seen, mut seats, mut tickets) = (String::new(), Vec::new(), Vec::new());
        for flow in flows {
            match Levels::enter(levels, level, flow) {
                Queued::Seated(seat) => {
                    seen.push('s');
                    seats.push(seat);
                }
                Queued::Waiting(ticket) => {
                    seen.push('w');
                    tickets.push(ticket);
                }
                Queued::Refused => seen.push('r'),
            }
        }
        (seen, seats, tickets)
    }

    #[test]
    fn a_level_uses_its_seats_then_its_queues_then_refuses() {
        let state = levels(4, &[("a", config(1, 0, 1, 1)), ("b", config(1, 0, 0, 1))]);
        let (seen, seats, tickets) = enter_all(&state, "a", &["x"; 4]);
        assert_eq!(seen, "sswr");
        let (other, _held, _) = enter_all(&state, "b", &["x"; 3]);
        assert_eq!(other, "ssr", "a level is not affected by another");
        drop(seats);
        assert_eq!(state.lock().levels["a"].in_use, 1, "the one who waited was seated");
        drop(tickets);
        assert_eq!(state.lock().levels["a"].in_use, 0, "a seat that was not taken is free again");
        assert!(matches!(Levels::enter(&state, "none", "x"), Queued::Refused));
    }

    #[test]
    fn idle_seats_are_lent() {
        let state = levels(8, &[("a", config(1, 50, 1, 9)), ("b", config(1, 0, 1, 9))]);
        let (seen, seats, _tickets) = enter_all(&state, "b", &["x"; 7]);
        assert_eq!(seen, "ssssssw", "four of its own and two of four of the other level");
        let (own, _held, _waiting) = enter_all(&state, "a", &["x"; 4]);
        assert_eq!(own, "ssss", "the owner keeps its own");
        drop(seats);
    }

    #[test]
    fn queues_take_turns() {
        let state = levels(1, &[("a", config(1, 0, 64, 50))]);
        let Queued::Seated(first) = Levels::enter(&state, "a", "loud") else { panic!("a free seat") };
        let (_, _, mut loud) = enter_all(&state, "a", &["loud"; 10]);
        let (_, _, mut quiet) = enter_all(&state, "a", &["quiet"]);
        drop(first);
        let mut served = 0;
        // Seats pass on as they are taken and dropped.
        while quiet[0].0.try_recv().is_err() {
            let taken = loud.iter_mut().find_map(|ticket| ticket.0.try_recv().ok()).expect("one is seated");
            drop(taken);
            served += 1;
        }
        assert!(served <= 2, "the quiet flow waited for {served} of the loud one");
    }

    #[test]
    fn a_changed_configuration_applies_to_those_who_wait() {
        let state = levels(1, &[("a", config(1, 0, 4, 5))]);
        let (seen, _seats, mut tickets) = enter_all(&state, "a", &["x", "y", "z"]);
        assert_eq!(seen, "sww");
        let more = HashMap::from([("a".to_owned(), config(1, 0, 2, 5))]);
        state.lock().follow(&Arc::new(Classifier::of_levels(more)), 3);
        Levels::dispatch(&state);
        assert!(tickets.iter_mut().all(|ticket| ticket.0.try_recv().is_ok()));
    }
}
