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
	/* For how long it has waited, in units of 1.024 us that wrap (seniority.h). */
	u32 lost;
	/* When it last became parallel, which names the phase, and the current vtime then, both as
	 * tw_stamp(). */
	u32 began;
	u32 base;
};

/* Threads that become ready later than this after a parallel phase began do not start with it: 10 ms. */
#define TW_START_NS (10ULL * 1000 * 1000)

enum tw_phase {
	TW_SERIAL = 0,
	TW_PARALLEL = 1,
};

/*
 * A time in 32 bits: units of 65.536 us, so that two that lie less than 39 hours apart compare
 * rightly.
 */
static inline u32 tw_stamp(u64 now_ns)
{
	return (u32)(now_ns >> 16);
}

/* The vtime of a stamp, the multiple of 65536 that lies within a quarter of the range from `now`. */
static inline u64 tw_unstamp(u32 stamp, u64 now)
{
	return ((now >> 16) + (s64)(s32)(stamp - tw_stamp(now))) << 16;
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

/*
 * Whether the ready threads of a program with so many threads are counted: with no more than the threshold it
 * is serial whatever they do, and counting costs each wake-up.
 */
static inline bool tw_is_counted(u32 nr_threads, u32 serial_threshold)
{
	return tw_phase_of(nr_threads, serial_threshold) == TW_PARALLEL;
}

/* Whether the thread that made it so many ready threads began a parallel phase. */
static inline bool tw_phase_began(u32 nr_ready, u32 serial_threshold)
{
	return nr_ready == serial_threshold + 1;
}

/* A program whose last parallel phase began longer ago than this begins beside the senior one: 1 s. Mostly it
 * has not competed since; of one with such long phases two turns at most are forgotten thereby. */
#define TW_ABSENT_NS (1000ULL * 1000 * 1000)

/*
 * The group became parallel now, at this current vtime, while the senior program, or the last one, has lost
 * so much. Who comes from nowhere begins beside it.
 */
static inline void tw_phase_begin(struct tw_group *group, u64 now_ns, u64 vtime_now, u32 senior_lost)
{
	if (tw_stamp(now_ns) - group->began > tw_stamp(TW_ABSENT_NS))
		group->lost = senior_lost;
	group->base = tw_stamp(vtime_now);
	group->began = tw_stamp(now_ns);
}

/* How long the parallel phase has gone on, less than 65.536 us rounded off, and after 78 hours from 0 on. */
static inline u64 tw_phase_age_ns(const struct tw_group *group, u64 now_ns)
{
	u32 age = tw_stamp(now_ns) - group->began;

	/* Another CPU's clock may be behind; some phases last for days. */
	return age > 0U - tw_stamp(TW_ABSENT_NS) ? 0 : (u64)age << 16;
}

/*
 * Whether a thread starts with its program's parallel phase: it was not looked at since that began (`seen`
 * names the phase in which it was), and has been ready for ready_ns, since about the beginning. All that
 * start with it do so from one vtime, whatever they are owed or owe from phases before. As long as each had
 * what its waking left it, those behind ran until they had caught up, and the others reached the next barrier
 * late.
 */
static inline bool tw_starts_with_phase(const struct tw_group *group, u32 seen, u64 ready_ns, u64 now_ns,
					u32 serial_threshold)
{
	return tw_phase_of(group->nr_ready, serial_threshold) == TW_PARALLEL && group->began != seen &&
	       tw_phase_age_ns(group, now_ns) < ready_ns + TW_START_NS;
}

/* Whether the thread whose sleep left so many ready threads ended a parallel phase. */
static inline bool tw_phase_ended(u32 nr_ready, u32 serial_threshold)
{
	return nr_ready == serial_threshold;
}

#endif /* TW_PHASE_H */
