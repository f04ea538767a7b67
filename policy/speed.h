/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who gets a faster CPU? thread-essence, section VII: a serial thread holds up its whole program, so
 * it gets the fastest CPU that it may use, if need be from a thread of a parallel program; and a fast
 * CPU that has nothing to do takes over what runs on a slow one.
 */
#ifndef TW_SPEED_H
#define TW_SPEED_H

#include "rotation.h"
#include "seniority.h"

/* Faster CPUs that one decision looks at, at most. */
#define TW_FASTER_SCAN 16

/* CPUs that a faster one looks at for a task of a slower one, itself included. */
#define TW_CALL_SCAN 16

/* How late a CPU looks again at a task that it kept for a slice, at most: 10 ms, two ticks and more. */
#define TW_KEPT_LATE_NS (10ULL * 1000 * 1000)

/* A CPU as a task sees it that might go there. */
struct tw_place {
	u32 capacity;
	bool idle;
	/* Of what runs there, if it is not idle. */
	enum tw_class class;
};

/* Whether it is worth a migration: an eighth more, so that a few favoured MHz are not. */
static inline bool tw_is_faster(u32 capacity, u32 than)
{
	return capacity >= than + than / 8 && capacity > than;
}

/* Whether a task of this class, on or bound for a CPU of capacity `here`, goes there instead. */
static inline bool tw_moves_up(enum tw_class class, u32 here, const struct tw_place *there)
{
	if (!tw_is_faster(there->capacity, here) || class == TW_CLASS_KERNEL)
		return false;
	return there->idle || (class == TW_CLASS_SERIAL && there->class > TW_CLASS_SERIAL);
}

/* Whether it is worth a look for a CPU that has nothing to do that a slower one kept its task so long ago,
 * where a look takes so long. */
static inline bool tw_kept_recently(u64 ago_ns, u64 look_ns, const struct tw_tunables *tun)
{
	return ago_ns < tw_slice(true, look_ns, tun) + TW_KEPT_LATE_NS;
}

/*
 * Whether a task that runs on a slower CPU takes the faster one over from another of its kind, whose program
 * has lost so much less than its own (tw_lost_more()).
 *
 * A parallel one takes it from one that has had more done. Threads that do equal parts between two barriers
 * then advance at the mean speed of their CPUs; if each stayed where it is, all would wait for those on the
 * slowest. A serial one waits for nobody, and an exchange costs caches: it takes it when it is a quarter of a
 * turn behind. Else who came first would be faster for as long as it runs ("priority for processing power
 * per application" of section VII).
 */
static inline bool tw_takes_turn(const struct tw_task *task, const struct tw_task *there, s32 lost_more,
				 const struct tw_tunables *tun)
{
	if (task->class == TW_CLASS_SERIAL)
		return there->class == TW_CLASS_SERIAL && lost_more > tw_turns(1, tun) / 4;
	return task->class > TW_CLASS_SERIAL && there->class > TW_CLASS_SERIAL && tw_yields(there, task, tun);
}

#endif /* TW_SPEED_H */
