/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who runs beside whom, where all CPUs are busy? multicore-scheduling, "group scheduling": tasks that need
 * much memory beside tasks that need none contend least for the last-level cache that they share. Its hint at
 * what a task needs is the history of its hardware counters or, where there are none, its resident set.
 * Caches are evened out by the sum of what their tasks need (Distributed Intensity: Zhuravlev, Blagodurov and
 * Fedorova, ASPLOS 2010, section 4); two tasks of different caches change places as long as that brings the
 * sums closer.
 */
#ifndef TW_PAIRING_H
#define TW_PAIRING_H

#include "types.h"

/* The most that a task can need: one miss for each 16 instructions, or a resident set as large as the cache.
 */
#define TW_NEED_ONE (1u << 16)

/* Fewer instructions tell nothing: a task's first ones miss because its cache is cold. */
#define TW_COUNTS_LEAST 1000000

/* A new count weighs so much of the average, a quarter. */
#define TW_NEED_SHIFT 2

/* An exchange has to even out this part of what both caches' tasks need, an eighth, or is not worth two cold
 * caches. */
#define TW_PAIRING_PART 8

/* What a counter read, and for how long it was to count and did (struct bpf_perf_event_value). */
struct tw_reading {
	u64 counter;
	u64 enabled_ns;
	u64 running_ns;
};

/*
 * Whether a counter counted all the time between two readings. Where there are more events than counters the
 * kernel has them take turns, and what is scaled up from a part tells of another task; a counter that was
 * opened anew begins at 0, and so does one that was never read.
 */
static inline bool tw_is_whole(const struct tw_reading *last, const struct tw_reading *now)
{
	return last->enabled_ns && now->enabled_ns >= last->enabled_ns && now->counter >= last->counter &&
	       now->enabled_ns - last->enabled_ns == now->running_ns - last->running_ns;
}

/* What counters said since they were last looked at. */
struct tw_counts {
	u64 instructions;
	/* Of the last-level cache. */
	u64 misses;
};

/* What a task needs of a last-level cache. */
struct tw_need {
	/* What was counted since it told enough. */
	struct tw_counts since;
	/* Up to TW_NEED_ONE. */
	u32 need;
	bool known;
};

/* Misses an instruction, a moving average. Counts that are lost or make no sense leave it as it is. */
static inline void tw_note_counts(struct tw_need *need, const struct tw_counts *counts)
{
	u64 now;

	if (counts->misses > counts->instructions)
		return;
	need->since.instructions += counts->instructions;
	need->since.misses += counts->misses;
	if (need->since.instructions < TW_COUNTS_LEAST)
		return;
	now = tw_least(need->since.misses * 16 * TW_NEED_ONE / need->since.instructions, TW_NEED_ONE);
	need->need = need->known ? need->need - (need->need >> TW_NEED_SHIFT) + (u32)(now >> TW_NEED_SHIFT) :
				   (u32)now;
	need->known = true;
	need->since.instructions = need->since.misses = 0;
}

/* Without counters: the part of the cache that the program's resident set takes, shared by its ready threads.
 */
static inline u32 tw_need_of_resident(u64 resident_bytes, u64 cache_bytes, u32 nr_ready)
{
	u64 part;

	if (!cache_bytes)
		return 0;
	part = tw_least(resident_bytes, cache_bytes) / (nr_ready ? nr_ready : 1);
	/* In pages, because a cache may be large. */
	return (u32)((part >> 12) * TW_NEED_ONE / ((cache_bytes >> 12) ? cache_bytes >> 12 : 1));
}

/* Two tasks that run behind different caches, and what all tasks behind these need, both included. */
struct tw_pair {
	u32 own_need;
	u32 other_need;
	u64 own_sum;
	u64 other_sum;
};

/*
 * By how much an exchange of the two brings the sums closer; 0 if it is not worth it. After one that is, no
 * exchange of the same two is: the difference only shrinks, so tasks do not go to and fro.
 */
static inline u64 tw_pairing_gain(const struct tw_pair *pair)
{
	u64 apart, moved, then, gain;

	if (pair->own_sum <= pair->other_sum || pair->own_need <= pair->other_need)
		return 0;
	apart = pair->own_sum - pair->other_sum;
	moved = 2 * (u64)(pair->own_need - pair->other_need);
	then = moved > apart ? moved - apart : apart - moved;
	if (then >= apart)
		return 0;
	gain = apart - then;
	return gain > (pair->own_sum + pair->other_sum) / TW_PAIRING_PART ? gain : 0;
}

#endif /* TW_PAIRING_H */
