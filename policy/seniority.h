/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which parallel program goes first (thread-essence, section VII, seniority boost)? Programs that compete for
 * the machine gain nothing from sharing it; those that go one after the other are done sooner on the mean.
 *
 * In the paper it is the one that entered its phase first, for as long as the phase takes or until a timeout.
 * So who has long phases has more of the machine: by the model of its section VI, (inf:1) beside (8:1) is
 * slowed down 1.8 times as much as that. Here it is who has lost more by waiting, beside serial threads and
 * while others went first, by half a turn. Two that never end their phases have equal turns then, short
 * phases are not torn apart, and who had to wait for a long one makes up for it later.
 *
 * Nor does it take two: the only one is senior too, and hands nothing on. There is nobody before whom it
 * would go but serial tasks, whose boost is twice as large, and the place need not be claimed when a second
 * comes.
 */
#ifndef TW_SENIORITY_H
#define TW_SENIORITY_H

#include "task.h"

/* No program is owed more than so many turns, or had fewer, than the one that goes first. */
#define TW_TURNS_MOST 2

/* What a task waits for longer at once counts for nothing: 68 s, of which no loss wraps. */
#define TW_WAITED_MOST_NS (1ULL << 36)

/*
 * What it loses, in units of 1.024 us, while a thread waits for so long that weighs so much: its share of
 * the threads that could be ready at once, which are those that it has, at most as many as CPUs, or those
 * that are. By weight, because who weighs less shall wait for longer.
 */
static inline u32 tw_loss(u64 waited_ns, u32 weight, u32 nr_ready, u32 nr_threads, u32 nr_cpus)
{
	u32 nr = nr_threads < nr_cpus ? nr_threads : nr_cpus;
	u64 weighted =
		tw_least(waited_ns, TW_WAITED_MOST_NS) / TW_WEIGHT_ONE * tw_least(weight, TW_WEIGHT_HEAVY);

	nr = nr > nr_ready ? nr : nr_ready;
	return (u32)((weighted >> 10) / (nr ? nr : 1));
}

/*
 * Whether it counts what a program with so many threads loses. One that is never parallel competes for no
 * turn (tw_is_counted()); but where CPUs are `unequal` its thread takes turns on the faster ones by it
 * (tw_takes_turn()), or the first of two single-threaded programs would have the fast CPU for good.
 */
static inline bool tw_counts_loss(u32 nr_threads, bool unequal, const struct tw_tunables *tun)
{
	return unequal || tw_is_counted(nr_threads, tun->serial_threshold);
}

/* What it loses where a task of this class ran for so long on a CPU of this capacity: for a serial one, of
 * which all others wait, the speed that the CPU lacks. All parallel ones have slow CPUs alike. */
static inline u32 tw_loss_of_speed(enum tw_class class, u64 ran_ns, u32 capacity, u32 weight)
{
	if (class != TW_CLASS_SERIAL || capacity >= TW_CAPACITY_ONE)
		return 0;
	return tw_loss(ran_ns * (TW_CAPACITY_ONE - capacity) / TW_CAPACITY_ONE, weight, 1, 1, 1);
}

/* By how much more a program has lost than another. */
static inline s32 tw_lost_more(const struct tw_group *group, const struct tw_group *than)
{
	return (s32)(group->lost - than->lost);
}

/* A turn, or several, in units of loss. */
static inline s32 tw_turns(u32 nr, const struct tw_tunables *tun)
{
	return (s32)(nr * tun->senior_turn_ns >> 10);
}

/*
 * What a program has lost, brought near to what another has: neither what it lost long ago counts nor
 * how well it fared then.
 */
static inline u32 tw_lost_near(const struct tw_group *group, const struct tw_group *other,
			       const struct tw_tunables *tun)
{
	s32 more = tw_lost_more(group, other), most = tw_turns(TW_TURNS_MOST, tun);

	if (more > most)
		return other->lost + (u32)most;
	return more < -most ? other->lost - (u32)most : group->lost;
}

/* The same, and it is that from now on. By how much more it has lost then. */
static inline s32 tw_come_near(struct tw_group *group, const struct tw_group *other,
			       const struct tw_tunables *tun)
{
	u32 lost = tw_lost_near(group, other, tun);

	/* What another CPU adds meanwhile is forgotten, which is rare and little. */
	if (lost != group->lost)
		group->lost = lost;
	return tw_lost_more(group, other);
}

/*
 * Whether the senior program keeps its place beside another parallel one. The paper asks for as many ready
 * threads as CPUs; every parallel program takes part here, because where all fit nobody waits, and where some
 * do not the order is as good for programs of half the machine's size.
 */
static inline bool tw_stays_senior(const struct tw_group *senior, const struct tw_group *other,
				   const struct tw_tunables *tun)
{
	return tw_phase_of(senior->nr_ready, tun->serial_threshold) == TW_PARALLEL &&
	       tw_lost_more(other, senior) <= tw_turns(1, tun) / 2;
}

/*
 * Whether a program takes the first's place, of which a parallel task is looked at; it does where that is
 * vacant (NULL). What it has lost is brought near to what the first has.
 */
static inline bool tw_claims(struct tw_group *group, const struct tw_group *senior,
			     const struct tw_tunables *tun)
{
	if (!senior)
		return true;
	tw_come_near(group, senior, tun);
	return !tw_stays_senior(senior, group, tun);
}

#endif /* TW_SENIORITY_H */
