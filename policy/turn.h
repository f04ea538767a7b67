/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does the boost of the senior program last for its turn? The turn ends when another program has lost more,
 * by half a turn (seniority.h), the boost when its tasks are ahead of the others' in vtime by so much. It is
 * longer than a turn, but a turn may begin with tasks that are ahead, because their program had the machine
 * for itself or is lighter, or a third one was there. Where the boost is used up first, CPUs rotate between
 * both programs: both lose alike, so that no turn ever ends, and threads that spin at barriers wait for those
 * of their program that have no CPU, for as long as the programs run. So the tasks of the senior one are set
 * back in vtime: which program goes first is for losses to say.
 */
#ifndef TW_TURN_H
#define TW_TURN_H

#include "order.h"
#include "seniority.h"

/* A phase that has gone on for so many turns, 300 ms, may have no end. Shorter ones end by themselves, and
 * their threads need not wait for a turn to. */
#define TW_TURNS_LONG 4

/*
 * Whether the tasks of the senior program are set back, one of which is to make way for one that waits, whose
 * phase has gone on for so long. Not where that waits beside many and boosts shrink, nor where it has waited
 * for long: its wait has a bound.
 */
static inline bool tw_is_set_back(const struct tw_task *running, const struct tw_task *waiting,
				  u64 other_age_ns, const struct tw_tunables *tun)
{
	return running->class == TW_CLASS_SENIOR && waiting->class == TW_CLASS_PARALLEL &&
	       other_age_ns >= TW_TURNS_LONG * tun->senior_turn_ns && !tw_age(waiting, waiting->nr_waiting) &&
	       tw_boost_of(TW_CLASS_SENIOR, waiting->nr_waiting, waiting->boost_left, tun) >
		       tun->senior_turn_ns;
}

/* By how much tasks of senior programs were set back in sum, in units of 1.024 us that wrap, after it was
 * done once more: by a turn. */
static inline u32 tw_set_back(u32 before, const struct tw_tunables *tun)
{
	return before + (u32)tw_turns(1, tun);
}

/*
 * The vtime of a task of the senior program, which came to be that when others had been set back by
 * `at_first`, and now is `set_back`; the task was last looked at, as a senior one, at `seen`. All of its
 * program are set back by the same, whenever they are looked at, so that they go on taking turns.
 */
static inline u64 tw_vtime_set_back(u64 vtime, u32 set_back, u32 at_first, u32 seen)
{
	s32 more = (s32)(set_back - ((s32)(seen - at_first) > 0 ? seen : at_first));

	return more > 0 ? vtime - ((u64)more << 10) : vtime;
}

#endif /* TW_TURN_H */
