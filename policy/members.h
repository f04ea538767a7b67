/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which programs may have turns (alternation.h)? Parallel ones of which a task misses often, or without
 * counters whose resident set fills the cache; until they have had nothing to run for a while, or do not fit.
 */
#ifndef TW_MEMBERS_H
#define TW_MEMBERS_H

#include "alternation.h"
#include "task.h"

/* A program is worth a trial if a task of it misses once in 1024 instructions or more often. */
#define TW_ALTERNATION_NEED (TW_NEED_ONE / 64)

/* A program that had no ready thread for so long is gone. */
#define TW_ALTERNATION_GONE_NS (1000ULL * 1000 * 1000)

/* Those that are there. All zero: nobody. */
struct tw_members {
	/* What they are called; 0: nobody. And those of whom it is not the turn (tw_hold()), the others 0. */
	u32 ids[TW_ALTERNATION_PROGRAMS];
	u32 held[TW_ALTERNATION_PROGRAMS];
	/* When each was last seen to have a ready thread. */
	u64 ready_ns[TW_ALTERNATION_PROGRAMS];
	/* Its resident set in bytes, where members are found by that. */
	u64 resident[TW_ALTERNATION_PROGRAMS];
};

/* A task that was found running, on behalf of its program. */
struct tw_witness {
	/* The program's name. */
	u32 id;
	enum tw_class class;
	/* The program's resident set in bytes. */
	u64 resident;
	/* What the task needs of a cache, by counters (tw_note_counts()). */
	u32 need;
};

/* Where a name stands among these, or -1. */
static inline s32 tw_find_id(const u32 ids[TW_ALTERNATION_PROGRAMS], u32 id)
{
	s32 slot;

	for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++) {
		if (ids[slot] == id)
			return slot;
	}
	return -1;
}

/*
 * By resident sets: whether one is large enough to matter, an eighth of the cache, and fits into it; and
 * whether it does not fit any more. Who does not fit alone is helped by nobody's waiting, and is left out.
 */
static inline bool tw_fills_cache(u64 resident_bytes, u64 cache_bytes)
{
	return resident_bytes >= cache_bytes / 8 && resident_bytes <= cache_bytes;
}

static inline bool tw_outgrows_cache(u64 resident_bytes, u64 cache_bytes)
{
	return resident_bytes > cache_bytes + cache_bytes / 8;
}

/* Whether a program is worth a trial; by resident sets, whether it may be worth turns. */
static inline bool tw_is_worth_turns(const struct tw_witness *task, bool by_resident, u64 cache_bytes)
{
	return by_resident ? tw_fills_cache(task->resident, cache_bytes) : task->need >= TW_ALTERNATION_NEED;
}

/* A parallel program that is worth it is a member from now on, if there is room. */
static inline void tw_consider(struct tw_members *members, const struct tw_witness *task, bool by_resident,
			       u64 cache_bytes, u64 now_ns)
{
	s32 slot;

	if (!tw_is_before(TW_CLASS_SERIAL, task->class))
		return;
	slot = tw_find_id(members->ids, task->id);
	if (slot < 0 && tw_is_worth_turns(task, by_resident, cache_bytes)) {
		slot = tw_find_id(members->ids, 0);
		if (slot >= 0) {
			members->ready_ns[slot & (TW_ALTERNATION_PROGRAMS - 1)] = now_ns;
			members->ids[slot & (TW_ALTERNATION_PROGRAMS - 1)] = task->id;
		}
	}
	if (slot >= 0)
		members->resident[slot & (TW_ALTERNATION_PROGRAMS - 1)] = task->resident;
}

/* Whether a program that had a ready thread then is gone by now. */
static inline bool tw_is_gone(u64 ready_ns, u64 now_ns)
{
	/* Another CPU's clock may be behind. */
	return (s64)(now_ns - ready_ns) > (s64)TW_ALTERNATION_GONE_NS;
}

/* The member of this number, which has so many ready threads, is there at this look, or no member any more.
 */
static inline void tw_look_at_member(struct tw_members *members, u32 slot, u32 nr_ready, bool by_resident,
				     u64 cache_bytes, struct tw_alternation_look *look)
{
	if (!members->ids[slot])
		return;
	if (nr_ready) {
		look->ready |= 1u << slot;
		members->ready_ns[slot] = look->now_ns;
	}
	if (tw_is_gone(members->ready_ns[slot], look->now_ns) ||
	    (by_resident && tw_outgrows_cache(members->resident[slot], cache_bytes)))
		members->ids[slot] = 0;
	else
		look->members |= 1u << slot;
}

/* Says whose turn it is not, by number (tw_held()); whether that is somebody else than before. */
static inline bool tw_hold(struct tw_members *members, u32 held)
{
	bool changed = false;
	u32 slot;

	for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++) {
		u32 id = held >> slot & 1 ? members->ids[slot] : 0;

		changed |= members->held[slot] != id;
		members->held[slot] = id;
	}
	return changed;
}

/* A task of this program ran while counters counted this, or did not count all the time. */
static inline void tw_note_work(struct tw_work *work, const struct tw_members *members, u32 id,
				const struct tw_counts *counts, bool whole)
{
	s32 slot;

	work->nr_samples++;
	if (!whole) {
		work->nr_lost++;
		return;
	}
	work->machine += counts->instructions;
	slot = tw_find_id(members->ids, id);
	if (slot >= 0)
		work->of[slot & (TW_ALTERNATION_PROGRAMS - 1)] += counts->instructions;
}

#endif /* TW_MEMBERS_H */
