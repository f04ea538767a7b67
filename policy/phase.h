/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which phase is a thread group in? thread-essence, section VII: the scheduler counts the ready
 * (runnable or running) threads of each thread group, in O(1) whenever a thread changes its ready
 * state; a group with more than serial_threshold of them is parallel, else serial.
 */
#ifndef TW_PHASE_H
#define TW_PHASE_H

#include "types.h"
#include "atomic.h"

/* One per thread group. All zero: nothing is ready. */
struct tw_group {
	u32 nr_ready;
	/* When the group last became parallel, as tw_stamp() has it. */
	u32 entered;
};

enum tw_phase {
	TW_SERIAL = 0,
	TW_PARALLEL = 1,
};

/*
 * A time in 32 bits: units of 65.536 us, so that two that lie less than 39 hours apart compare
 * rightly. A group that has been parallel for longer may lose its place in line, no more.
 */
static inline u32 tw_stamp(u64 now_ns)
{
	return (u32)(now_ns >> 16);
}

/* A thread became runnable. Returns how many are ready after it. */
static inline u32 tw_ready_add(struct tw_group *group)
{
	return tw_fetch_add(&group->nr_ready, 1) + 1;
}

/* A thread is no longer runnable. Returns how many are ready after it. */
static inline u32 tw_ready_sub(struct tw_group *group)
{
	return tw_fetch_add(&group->nr_ready, -1) - 1;
}

static inline enum tw_phase tw_phase_of(u32 nr_ready, u32 serial_threshold)
{
	return nr_ready > serial_threshold ? TW_PARALLEL : TW_SERIAL;
}

/* Whether the thread that made it so many ready threads began a parallel phase. */
static inline bool tw_phase_began(u32 nr_ready, u32 serial_threshold)
{
	return nr_ready == serial_threshold + 1;
}

/* Whether the thread whose sleep left so many ready threads ended a parallel phase. */
static inline bool tw_phase_ended(u32 nr_ready, u32 serial_threshold)
{
	return nr_ready == serial_threshold;
}

/*
 * Which parallel program goes first? The one that entered its phase first (section VII, seniority
 * boost). Programs that compete for the machine gain nothing from sharing it; those that go one
 * after the other are done sooner on the mean. The paper asks for as many ready threads as CPUs;
 * every parallel program takes part here, because where all fit nobody waits, and where some do not
 * the order is as good for programs of half the machine's size.
 *
 * Whether the senior program keeps its place beside another parallel one.
 */
static inline bool tw_stays_senior(const struct tw_group *senior, const struct tw_group *other,
				   u32 serial_threshold)
{
	return tw_phase_of(senior->nr_ready, serial_threshold) == TW_PARALLEL &&
	       (s32)(other->entered - senior->entered) >= 0;
}

/* Whether the senior program has had its turn and goes to the end of the line. */
static inline bool tw_turn_is_over(u32 since, u32 now, u64 turn_ns)
{
	/* Another CPU's clock may be behind. */
	return (s32)(now - since) > (s32)tw_stamp(turn_ns);
}

#endif /* TW_PHASE_H */
