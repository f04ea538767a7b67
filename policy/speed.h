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
#include "smt.h"

/* CPUs that one decision looks at for a better one, at most. */
#define TW_PLACE_SCAN 64

/* Slower CPUs at whose tasks a faster one looks for one to exchange for its own, at most. One that has
 * nothing to do looks at TW_PLACE_SCAN. */
#define TW_CALL_SCAN 16

/*
 * What a hardware thread is worth while others of its core run, in eighths of the core: two have 1.24 times
 * of what one has (ht-scheduling). Beside a serial task, for which its program waits, it is worth only what
 * both have more than that.
 */
#define TW_SHARED_EIGHTHS	 5
#define TW_BESIDE_SERIAL_EIGHTHS 2

/* How late a CPU looks again at a task that it kept for a slice, at most: 10 ms, two ticks and more. */
#define TW_KEPT_LATE_NS (10ULL * 1000 * 1000)

/* A CPU as a task sees it that might go there. */
struct tw_place {
	u32 capacity;
	struct tw_seat seat;
	bool idle;
	/* It is faster than the slowest: only such a one is taken by class alone. */
	bool fast;
	/* Of what runs there, if it is not idle. */
	enum tw_class class;
};

/* What a task looks for, and the best of the places that it has seen. */
struct tw_choice {
	/* The CPU on which it runs, or 0 where it is bound for one: its capacity, and what it is worth. */
	u32 own;
	u32 here;
	/* The same of the one chosen, 0 as long as there is none. */
	u32 capacity;
	u32 worth;
	/* Its seat's rank, and whether it is idle. */
	u32 rank;
	bool idle;
};

/* Whether it is worth a migration: an eighth more, so that a few favoured MHz are not. */
static inline bool tw_is_faster(u32 capacity, u32 than)
{
	return capacity >= than + than / 8 && capacity > than;
}

/* What a CPU is worth to a task of this class: its capacity, and less while others of its core run. */
static inline u32 tw_worth(enum tw_class class, u32 capacity, bool shared, bool beside_serial)
{
	if (!shared)
		return capacity;
	if (beside_serial && class != TW_CLASS_SERIAL)
		return capacity * TW_BESIDE_SERIAL_EIGHTHS / 8;
	return capacity * TW_SHARED_EIGHTHS / 8;
}

/*
 * Whether a CPU is so much faster than another, for a task to which they are worth this, that it is taken
 * from who runs there although the other is idle. What cores share is no reason: who runs beside a serial
 * task leaves it a whole core as soon as there is another seat, and if both went, they would chase each
 * other.
 */
static inline bool tw_is_worth_taking(u32 capacity, u32 worth, u32 other_capacity, u32 other_worth)
{
	return tw_is_faster(capacity, other_capacity) && tw_is_faster(worth, other_worth);
}

/* Whether a task of this class may choose such a place at all: one that is not idle only if it is fast, for a
 * serial task. */
static inline bool tw_may_choose(enum tw_class class, bool idle, bool fast)
{
	return idle ? class != TW_CLASS_KERNEL : fast && class == TW_CLASS_SERIAL;
}

/*
 * Whether a task of this class chooses this place before those that it has seen: first what is worth an
 * eighth more, then what is idle, then its own CPU, its own core, and any.
 */
static inline bool tw_chooses(struct tw_choice *choice, enum tw_class class, const struct tw_place *there)
{
	u32 worth = tw_worth(class, there->capacity, there->seat.shared, there->seat.beside_serial);
	u32 rank = tw_seat_rank(&there->seat);
	bool before;

	if (!tw_may_choose(class, there->idle, there->fast))
		return false;
	if (there->idle)
		before = tw_is_faster(worth, choice->here);
	else
		before = there->class > TW_CLASS_SERIAL &&
			 tw_is_worth_taking(there->capacity, worth, choice->own, choice->here);
	if (!before)
		return false;
	if (choice->worth && there->idle == choice->idle)
		before = tw_is_faster(worth, choice->worth) ||
			 (!tw_is_faster(choice->worth, worth) && rank < choice->rank);
	else if (choice->worth && there->idle)
		before = !tw_is_worth_taking(choice->capacity, choice->worth, there->capacity, worth);
	else if (choice->worth)
		before = tw_is_worth_taking(there->capacity, worth, choice->capacity, choice->worth);
	if (before) {
		choice->capacity = there->capacity;
		choice->worth = worth;
		choice->rank = rank;
		choice->idle = there->idle;
	}
	return before;
}

/* Whether no place of at most this capacity that it has not seen can be chosen before the one that is: the
 * places are gone through from the fastest on. */
static inline bool tw_has_chosen(const struct tw_choice *choice, u32 capacity)
{
	return !tw_is_faster(capacity, choice->here) || tw_is_faster(choice->worth, capacity) ||
	       (choice->worth && choice->idle && choice->rank < TW_SEAT_SHARED &&
		!tw_is_faster(capacity, choice->worth));
}

/* Whether a task of this class changes places with that of a CPU that asks for it. */
static inline bool tw_answers_call(enum tw_class class)
{
	return class != TW_CLASS_KERNEL;
}

/* Where a task looks for a better CPU than its own. */
enum tw_search {
	TW_SEARCH_NOWHERE,
	/* Among all, by speed and by what shares their cores: where cores differ too, what a CPU is worth
	 * says whether one that is shared is left for a slow one. */
	TW_SEARCH_PLACE,
	/* Among those that are idle, as the mode has it. */
	TW_SEARCH_SPOT,
	/* Among those of cores that are idle, or not a serial task's. */
	TW_SEARCH_SEAT,
};

/* Where one of this class looks, on a machine of CPUs that differ in speed, with a mode, or with shared
 * cores. */
static inline enum tw_search tw_search(enum tw_class class, bool unequal, bool mode, bool smt)
{
	if (unequal)
		return TW_SEARCH_PLACE;
	if (mode && class != TW_CLASS_KERNEL)
		return TW_SEARCH_SPOT;
	return smt ? TW_SEARCH_SEAT : TW_SEARCH_NOWHERE;
}

/*
 * Whether a task that is queued looks for such a CPU. For one that `comes` to run, as it woke up or is new,
 * none was idle a moment ago, and only a faster one may be had, by taking it; if one has become idle since,
 * that is woken for it. One that makes way has mostly `looked` in vain in the same moment, before it did.
 */
static inline bool tw_looks_for_better(bool comes, bool looked, bool unequal)
{
	return comes ? unequal : !looked;
}

/* Whether it is worth a look for a CPU that has nothing to do that a slower one kept its task so long ago,
 * where a look takes so long. */
static inline bool tw_kept_recently(u64 ago_ns, u64 look_ns, const struct tw_tunables *tun)
{
	return ago_ns < tw_slice(true, true, look_ns, tun) + TW_KEPT_LATE_NS;
}

/*
 * By how much more the program of a task on a slower CPU has lost than that of one on the faster, for
 * tw_takes_turn(). Only serial ones go by it. As tw_come_near() has it nobody is owed more than some turns,
 * but here the lower one is raised: it slept, or is new, and all others stay as far apart as they are. (When
 * the higher one was lowered, each program that came had all others take that CPU one right after the other.)
 */
static inline s32 tw_lost_more_there(const struct tw_task *task, struct tw_group *group,
				     const struct tw_task *there, struct tw_group *other,
				     const struct tw_tunables *tun)
{
	if (!tw_are_serial(task, there))
		return 0;
	if (tw_lost_more(group, other) > 0)
		return -tw_come_near(other, group, tun);
	return tw_come_near(group, other, tun);
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
