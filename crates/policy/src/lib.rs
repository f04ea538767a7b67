// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling decisions of `policy/` for Rust: the C headers that the BPF program includes,
//! compiled natively.
//!
//! Nothing is decided or re-implemented here. [`Group`] counts ready threads and tells the phase;
//! [`Tunables`] has the ordering. Each module declares what it needs of the header of its name, and
//! what the functions mean stands there.

pub mod alternation;
mod boost;
mod cgroup;
mod clock;
mod crowd;
mod exchange;
mod home;
mod look;
mod members;
mod options;
mod order;
mod pairing;
mod phase;
mod preempt;
mod rotation;
mod seniority;
mod smt;
mod speed;
mod spread;
mod task;
mod turn;
mod vtime;
mod weight;

pub use alternation::{AlternateBy, Alternation};
pub use boost::{BOOST_WHOLE, CROWD_PERIOD_NS, boost_left, serial_ready, serial_ready_ns};
pub use cgroup::{Cgroup, cgroup_ready_ns};
pub use clock::clock_ahead;
pub use crowd::{Charged, Crowd};
pub use exchange::{Rest, looks_for_exchange, pairs};
pub use home::{LEAVES_CACHE_NS, Llc, SPILL_NONE, Stay, founds_home, keeps_home, leaves_cache, spill};
pub use look::{
    Kick, LOOK_MOST_NS, LOOK_QUIET_NS, Look, ROTATION_CPUS, ROTATION_MARKS, ROTATION_QUEUES, Timer,
    longer_look, look_takes,
};
pub use members::{Members, Witness};
pub use options::TunableOptions;
pub use order::{Keys, ROTATION_SORTED};
pub use pairing::{Counts, Need, Pair, PairingBy, Reading};
pub use phase::{Group, is_counted, phase_began, phase_ended};
pub use preempt::{
    Beside, Due, follows_senior, makes_room, may_preempt, passed_over, runs_at_once, victim_scan,
};
pub use rotation::goes_on_until_due;
pub use seniority::{Waiting, loss_of_speed};
pub use smt::{IDLE_SCAN, Seat, looks_for_seat};
pub use speed::{
    CALL_SCAN, Choice, PLACE_SCAN, Place, Search, answers_call, fastest_first, is_faster, looks_for_better,
    worth,
};
pub use spread::{Mode, Spot};
pub use task::{CAPACITY_ONE, Class, Task, Tunables, here_ns, waits_us};
pub use turn::Ages;
pub use vtime::{Origin, Run, is_beside_others, vtime_charge, vtime_most};
pub use weight::{MEAN_WEIGHT_ONE, is_light, mean_weight, weighed_ns, weight_among};
