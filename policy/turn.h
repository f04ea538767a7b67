/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When is the turn of the senior program over although no other has lost more? A turn ends by losses, by half
 * a turn (seniority.h), and its tasks go first while their boost lasts, which is a matter of vtimes. That is
 * longer, but a turn may begin with tasks that are ahead: their program had the machine for itself, or a
 * third one was there, or it is lighter. Where the boost is used up first, CPUs rotate between both programs,
 * both lose alike, and no turn would ever end: threads that spin at barriers wait for those of their program
 * that have no CPU, for as long as the programs run. So the turn ends with its boost.
 *
 * So in the long run vtimes say who has how much, which is by weight among any number of programs. Losses
 * alone say so of two: of three that lose alike, a wait counting by weight, one of half the others' weight
 * would have nothing.
 */
#ifndef TW_TURN_H
#define TW_TURN_H

#include "order.h"
#include "seniority.h"

/* Phases that have gone on for so many turns, 300 ms, may have no end. Shorter ones end by themselves, and
 * the turn with them. */
#define TW_TURNS_LONG 4

/* Boosts that are shorter are no turns: where so many wait, CPUs rotate. 10 ms. */
#define TW_TURN_LEAST_NS (10ULL * 1000 * 1000)

/*
 * Whether the turn of the senior program is over, a task of which is to make way for one that waits, where
 * the phases of both have gone on for so long at least.
 */
static inline bool tw_is_used_up(const struct tw_task *senior, const struct tw_task *waiting, u64 age_ns,
				 const struct tw_tunables *tun)
{
	u32 nr_waiting = senior->nr_waiting > waiting->nr_waiting ? senior->nr_waiting : waiting->nr_waiting;
	u32 left = senior->boost_left < waiting->boost_left ? senior->boost_left : waiting->boost_left;

	return senior->class == TW_CLASS_SENIOR && waiting->class == TW_CLASS_PARALLEL &&
	       age_ns >= TW_TURNS_LONG * tun->senior_turn_ns &&
	       tw_boost_of(TW_CLASS_SENIOR, nr_waiting, left, tun) >= TW_TURN_LEAST_NS;
}

/* What a senior program has lost whose turn ends thereby, beside that for which it does: so much less that it
 * goes first again after a whole turn of that. */
static inline u32 tw_lost_after(const struct tw_group *senior, const struct tw_group *other,
				const struct tw_tunables *tun)
{
	u32 least = other->lost - (u32)(tw_turns(1, tun) / 2 + 1);

	return (s32)(senior->lost - least) > 0 ? least : senior->lost;
}

#endif /* TW_TURN_H */
