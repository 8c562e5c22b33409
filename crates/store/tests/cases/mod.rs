//! The contract of a store, one function per rule.

mod reads;
mod watches;
mod writes;

use std::pin::Pin;
use std::sync::Arc;

use store::{Event, Store, WatchStream};

pub type Case = (&'static str, fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()> + Send>>);

macro_rules! cases {
    ($($module:ident: $($name:ident)*;)*) => {
        pub const CASES: &[Case] = &[$($((stringify!($name), |store| Box::pin($module::$name(store)))),*),*];
    };
}

cases! {
    writes:
        a_key_lives_from_create_to_delete
        create_refuses_what_exists_and_shows_it
        update_refuses_a_stale_revision_and_shows_the_newer_one
        delete_is_guarded_and_returns_what_it_removed
        every_write_takes_a_later_revision
        values_of_any_bytes_and_keys_of_any_letters_come_back
        of_many_creators_one_wins
        guarded_updates_lose_nothing
        a_revoked_lease_deletes_its_keys
        an_expired_lease_deletes_its_keys_unless_kept_alive
        an_unknown_lease_is_refused
        a_closed_store_says_so;
    reads:
        ranges_are_ordered_and_bounded
        pages_show_one_revision_while_others_write
        old_revisions_stay_readable_until_compacted
        revisions_that_cannot_be_read_are_refused
        counts_follow_writes
        health_and_size_are_reported;
    watches:
        a_watch_shows_each_change_with_what_was_before
        a_watch_from_the_past_catches_up
        a_watch_from_the_future_waits
        a_watch_from_before_compaction_is_refused
        a_watch_sees_only_its_prefix
        concurrent_writes_are_seen_once_and_in_order
        large_events_arrive_whole
        progress_is_reported_on_an_idle_prefix
        a_reader_in_the_middle_of_a_batch_is_not_caught_up;
}

/// Reads until there are `count` events, checking the order of revisions.
pub async fn watch_events(watch: &mut WatchStream, count: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.len() < count {
        let batch = watch.next().await.expect("the watch continues").expect("the watch works");
        events.extend(batch.events);
        let last = events.last().map_or(0, |event| event.kv.mod_revision);
        assert!(batch.revision >= last, "a batch claims less than it holds");
    }
    assert!(events.is_sorted_by_key(|event| event.kv.mod_revision));
    assert_eq!(events.len(), count);
    events
}
