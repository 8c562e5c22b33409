//! Controller runtime: a keyed work queue, mirrors of an API that show own writes, leader election, and minimal writes.

pub mod backoff;
pub mod clock;
pub mod commit;
pub mod controller;
pub mod events;
pub mod fence;
pub mod leader;
pub mod mirror;
pub mod mirrors;
pub mod queue;

pub use clock::{Clock, SystemClock, VirtualClock, until};
pub use commit::{Committed, commit_object, commit_status};
pub use controller::{Controller, Outcome, ReconcileError, Source};
pub use events::{Recorder, Regarding};
pub use fence::{Fence, TermFence};
pub use leader::{LeaderElection, LeaderElector, Term};
pub use mirror::{
    Change, ChangeBatch, Follower, Index, Kept, Mirror, MirrorLimits, MirrorSpec, ObjectKey, RecordedChange,
    Subscription, TooOld,
};
pub use mirrors::Mirrors;
pub use queue::{Priority, WorkQueue};
