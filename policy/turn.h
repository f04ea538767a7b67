/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When is the turn of the senior program over although no other has lost more? A turn ends by losses, by half
 * a turn (seniority.h), and its tasks go first while their boost lasts, which is a matter of vtimes. That is
 * longer, but a turn may begin with tasks that are ahead: their program had the machine for itself, or a
 * third one was there, or it is lighter. Where the boost is used up first, CPUs rotate between both programs,
 * both lose alike, and no turn would ever end: threads that spin at barriers wait for those of their program
 * that have no CPU, for as long as the programs run. So the turn ends with its boost.
 *
 * In the long run vtimes say then who has how much, which is by weight among any number of programs. Losses
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

/* What a turn lasts at least, 9.4 ms, whatever its tasks run ahead: all CPUs go over at its end. */
#define TW_TURN_PARTS 8

/* Boosts that are shorter are worth no turn: where so many wait, CPUs rotate. 10 ms. */
#define TW_TURN_BOOST_NS (10ULL * 1000 * 1000)

/* How old a turn is, and the phases of two programs at least: of the senior one and of one that waits. */
struct tw_ages {
	u64 turn_ns;
	u64 phases_ns;
};

/* Whether the turn of the senior program is over, a task of which is to make way for one that waits. */
static inline bool tw_is_used_up(const struct tw_task *senior, const struct tw_task *waiting,
				 const struct tw_ages *ages, const struct tw_tunables *tun)
{
	u32 nr_waiting = tw_longer_queue(senior, waiting), left = tw_left_beside(senior, waiting);

	return senior->class == TW_CLASS_SENIOR && waiting->class == TW_CLASS_PARALLEL &&
	       ages->phases_ns >= TW_TURNS_LONG * tun->senior_turn_ns &&
	       ages->turn_ns >= tun->senior_turn_ns / TW_TURN_PARTS &&
	       tw_boost_of(TW_CLASS_SENIOR, nr_waiting, left, tun) >= TW_TURN_BOOST_NS;
}

/* What a senior program has lost whose turn ends thereby, beside that for which it does: so much less that
 * its next turn by losses, at nice 0, comes after a whole one of that. */
static inline u32 tw_lost_after(const struct tw_group *senior, const struct tw_group *other,
				const struct tw_tunables *tun)
{
	u32 least = other->lost - (u32)(tw_turns(1, tun) / 2 + 1);

	return (s32)(senior->lost - least) > 0 ? least : senior->lost;
}

#endif /* TW_TURN_H */
