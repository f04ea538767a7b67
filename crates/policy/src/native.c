/* SPDX-License-Identifier: GPL-2.0-only */
/* The policy's functions as symbols that Rust links to, and what Rust takes for granted of its types. */
#include "../../../policy/types.h"

/*
 * The functions are `static inline` in their headers, for BPF's sake. Without the `static`, and with
 * -fgnu89-inline (build.rs), each is a symbol as well. types.h comes before, with the system's headers.
 */
#define static
#include "../../../policy/alternation.h"
#include "../../../policy/boost.h"
#include "../../../policy/cgroup.h"
#include "../../../policy/clock.h"
#include "../../../policy/crowd.h"
#include "../../../policy/exchange.h"
#include "../../../policy/home.h"
#include "../../../policy/look.h"
#include "../../../policy/members.h"
#include "../../../policy/order.h"
#include "../../../policy/pairing.h"
#include "../../../policy/phase.h"
#include "../../../policy/preempt.h"
#include "../../../policy/rotation.h"
#include "../../../policy/seniority.h"
#include "../../../policy/smt.h"
#include "../../../policy/speed.h"
#include "../../../policy/spread.h"
#include "../../../policy/task.h"
#include "../../../policy/turn.h"
#include "../../../policy/vtime.h"
#include "../../../policy/weight.h"
#undef static

_Static_assert(sizeof(struct tw_work) == 56 && sizeof(struct tw_alternation_look) == 72 &&
		       sizeof(struct tw_alternation) == 176,
	       "crates/policy/src/alternation.rs has the same layout");
_Static_assert(TW_ALTERNATION_PROGRAMS == 4, "crates/policy/src/alternation.rs has the same");
_Static_assert(TW_BOOST_WHOLE == 65536 && TW_CROWD_PERIOD_NS == 16000000,
	       "crates/policy/src/boost.rs has the same");
_Static_assert(sizeof(struct tw_cgroup) == 48, "crates/policy/src/cgroup.rs has the same layout");
_Static_assert(sizeof(struct tw_charged) == 24 && sizeof(struct tw_crowd) == 48,
	       "crates/policy/src/crowd.rs has the same layout");
_Static_assert(sizeof(struct tw_rest) == 16, "crates/policy/src/exchange.rs has the same layout");
_Static_assert(sizeof(struct tw_llc) == 8 && sizeof(struct tw_stay) == 8,
	       "crates/policy/src/home.rs has the same layout");
_Static_assert(TW_LEAVES_CACHE_NS == 500000 && TW_SPILL_NONE == 63, "crates/policy/src/home.rs has the same");
_Static_assert(sizeof(struct tw_timer) == 24 && sizeof(struct tw_look) == 48,
	       "crates/policy/src/look.rs has the same layout");
_Static_assert(TW_LOOK_MOST_NS == 8000000 && TW_LOOK_QUIET_NS == 24000000,
	       "crates/policy/src/look.rs has the same");
_Static_assert(TW_ROTATION_QUEUES == 4 && TW_ROTATION_CPUS == 16 && TW_ROTATION_MARKS == 16,
	       "crates/policy/src/look.rs has the same");
_Static_assert(TW_KICK == 1 && TW_KICK_AND_SEND == 2, "crates/policy/src/look.rs has the same");
_Static_assert(sizeof(struct tw_members) == 96 && sizeof(struct tw_witness) == 24,
	       "crates/policy/src/members.rs has the same layout");
_Static_assert(sizeof(struct tw_keys) == 12, "crates/policy/src/order.rs has the same layout");
_Static_assert(TW_ROTATION_SORTED == 16, "crates/policy/src/order.rs has the same");
_Static_assert(sizeof(struct tw_counts) == 16 && sizeof(struct tw_need) == 24 &&
		       sizeof(struct tw_pair) == 24 && sizeof(struct tw_reading) == 24,
	       "crates/policy/src/pairing.rs has the same layout");
_Static_assert(TW_NEED_ONE == 65536, "crates/policy/src/pairing.rs has the same");
_Static_assert(sizeof(struct tw_group) == 16, "crates/policy/src/phase.rs has the same layout");
_Static_assert(sizeof(struct tw_beside) == 3 && sizeof(enum tw_due) == 4,
	       "crates/policy/src/preempt.rs has the same layout");
_Static_assert(TW_DUE_EARLIER == 1 && TW_DUE_SAME == 2 && TW_DUE_LATER == 3,
	       "crates/policy/src/preempt.rs has the same");
_Static_assert(sizeof(struct tw_seat) == 5, "crates/policy/src/smt.rs has the same layout");
_Static_assert(TW_IDLE_SCAN == 64, "crates/policy/src/smt.rs has the same");
_Static_assert(TW_SEAT_BEST == 0 && TW_SEAT_SHARED == 3 && TW_SEAT_BESIDE_SERIAL == 6,
	       "crates/policy/src/smt.rs has the same");
_Static_assert(sizeof(struct tw_place) == 16 && sizeof(struct tw_choice) == 24,
	       "crates/policy/src/speed.rs has the same layout");
_Static_assert(TW_SEARCH_PLACE == 1 && TW_SEARCH_SPOT == 2 && TW_SEARCH_SEAT == 3,
	       "crates/policy/src/speed.rs has the same");
_Static_assert(TW_PLACE_SCAN == 64 && TW_CALL_SCAN == 16, "crates/policy/src/speed.rs has the same");
_Static_assert(sizeof(struct tw_spot) == 16 && sizeof(enum tw_mode) == 4,
	       "crates/policy/src/spread.rs has the same layout");
_Static_assert(sizeof(struct tw_task) == 32 && sizeof(struct tw_tunables) == 72 && sizeof(enum tw_class) == 4,
	       "crates/policy/src/task.rs has the same layout");
_Static_assert(TW_CAPACITY_ONE == 1024, "crates/policy/src/task.rs has the same");
_Static_assert(sizeof(struct tw_ages) == 16, "crates/policy/src/turn.rs has the same layout");
_Static_assert(sizeof(struct tw_run) == 48, "crates/policy/src/vtime.rs has the same layout");
_Static_assert((TW_WEIGHT_ONE << 16) == 6553600, "crates/policy/src/weight.rs has the same");
