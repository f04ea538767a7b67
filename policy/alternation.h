/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One program after the other, where that gets more done than all at once? Programs of which each fills the
 * last-level cache slow each other down, and some pairs are done sooner one after the other, although that
 * leaves CPUs idle: thread-essence, section VIII, saw ammp and wupwise do so under either scheduler. Nobody
 * knows which pairs, so it is tried: all of them beside each other for a while and one after the other for as
 * long, judged by the instructions that were done. Each trial doubles the time until the next.
 *
 * Programs have turns. Whoever's turn it is not does not run at all, not even where CPUs are idle: that it
 * ran at the same time is what filled the cache. Nobody waits longer than for a turn of each of the others.
 *
 * Not done here: who is a member (members.h), and counted (crates/scheduler/src/bpf/alternation.bpf.h).
 */
#ifndef TW_ALTERNATION_H
#define TW_ALTERNATION_H

#include "pairing.h"

/* Programs that have turns, at most. Others run as ever. */
#define TW_ALTERNATION_PROGRAMS 4

/* Long against the time in which a program fills a cache: 5 to 20 ms for 4 to 32 MB. */
#define TW_ALTERNATION_TURN_NS (300ULL * 1000 * 1000)

/* Programs that come together are not tried before they have got going. */
#define TW_ALTERNATION_SETTLE_NS (2000ULL * 1000 * 1000)

/* So much more has to be done one after the other, an eighth, and so much of what it did beside the others, a
 * quarter, nobody loses. */
#define TW_ALTERNATION_GAIN 8
#define TW_ALTERNATION_LOSS 4

/* The first rest, in trials: of all time a ninth at most is spent on them, whoever comes and goes. */
#define TW_ALTERNATION_REST 8

/* No more doublings than fit: 39 years for two programs. */
#define TW_ALTERNATION_DOUBLINGS 26

/* A trial says nothing if more than this part of the samples of counters was lost, a sixteenth. */
#define TW_ALTERNATION_LOST 16

/* How often it is looked at: while programs have turns or are tried, while there are several, and else. */
#define TW_ALTERNATION_LOOK_NS	    (10ULL * 1000 * 1000)
#define TW_ALTERNATION_LOOK_FEW_NS  (100ULL * 1000 * 1000)
#define TW_ALTERNATION_LOOK_IDLE_NS (500ULL * 1000 * 1000)

enum tw_arrangement {
	/* All at once, as ever. */
	TW_BESIDE = 0,
	/* The same, counted: a trial begins so. */
	TW_TRIED_BESIDE = 1,
	/* One after the other, counted: a trial ends so. */
	TW_TRIED_IN_TURNS = 2,
	/* One after the other. */
	TW_IN_TURNS = 3,
};

/* What was done: as counters go, or in a millisecond. */
struct tw_work {
	/* Instructions of each program, and of all tasks of the machine. */
	u64 of[TW_ALTERNATION_PROGRAMS];
	u64 machine;
	/* Samples of counters, and those of them that were lost. */
	u64 nr_samples;
	u64 nr_lost;
};

/* What is seen at a look. Programs are numbered; a bit for each. */
struct tw_alternation_look {
	u64 now_ns;
	/* Those that are there, and those of them that have a ready thread. */
	u32 members;
	u32 ready;
	/* What was done since ever. */
	struct tw_work done;
};

/* All zero: nobody is there. */
struct tw_alternation {
	u32 arrangement;
	u32 members;
	/* The program whose turn it is, and whether it had no ready thread when last looked at. */
	u32 turn;
	u32 absent;
	/* Trials since a program came or went; and whether the last one chose turns. */
	u32 nr_trials;
	u32 chosen;
	/* When the turn ends, when what is counted ends, and when the next trial may begin. */
	u64 turn_ends_ns;
	u64 ends_ns;
	u64 next_ns;
	/* When the last trial ended, 0 if none did; when what is counted began, and what had been done then.
	 */
	u64 tried_ns;
	u64 began_ns;
	struct tw_work from;
	/* What was done in a millisecond beside each other, in the last trial. */
	struct tw_work beside;
};

static inline u32 tw_nr_members(u32 members)
{
	u32 i, nr = 0;

	for (i = 0; i < TW_ALTERNATION_PROGRAMS; i++)
		nr += members >> i & 1;
	return nr;
}

/* A round of turns, which is half of a trial. */
static inline u64 tw_alternation_round_ns(const struct tw_alternation *alt)
{
	return tw_nr_members(alt->members) * TW_ALTERNATION_TURN_NS;
}

static inline bool tw_takes_turns(const struct tw_alternation *alt)
{
	return alt->arrangement >= TW_TRIED_IN_TURNS;
}

/* The programs that have to wait. */
static inline u32 tw_held(const struct tw_alternation *alt)
{
	return tw_takes_turns(alt) ? alt->members & ~(1u << alt->turn) : 0;
}

/* In how long it is to be looked at again. */
static inline u64 tw_alternation_look_in(const struct tw_alternation *alt)
{
	if (alt->arrangement != TW_BESIDE)
		return TW_ALTERNATION_LOOK_NS;
	return tw_nr_members(alt->members) > 1 ? TW_ALTERNATION_LOOK_FEW_NS : TW_ALTERNATION_LOOK_IDLE_NS;
}

/* The turn goes to the next program that has a ready thread, or stays. */
static inline void tw_next_turn(struct tw_alternation *alt, const struct tw_alternation_look *look)
{
	u32 i;

	alt->absent = 0;
	alt->turn_ends_ns = look->now_ns + TW_ALTERNATION_TURN_NS;
	for (i = 1; i <= TW_ALTERNATION_PROGRAMS; i++) {
		u32 next = (alt->turn + i) % TW_ALTERNATION_PROGRAMS;

		if ((look->ready & look->members) >> next & 1) {
			alt->turn = next;
			return;
		}
	}
}

/* A turn ends with its time, or when its program has had nothing to run at two looks. */
static inline void tw_pass_turn(struct tw_alternation *alt, const struct tw_alternation_look *look)
{
	bool absent = !(look->ready >> alt->turn & 1);

	if (look->now_ns >= alt->turn_ends_ns || (absent && alt->absent))
		tw_next_turn(alt, look);
	else
		alt->absent = absent;
}

/* From now on it is so, and counted for a round. */
static inline void tw_arrange(struct tw_alternation *alt, enum tw_arrangement arrangement,
			      const struct tw_alternation_look *look)
{
	if (arrangement >= TW_TRIED_IN_TURNS && !tw_takes_turns(alt))
		tw_next_turn(alt, look);
	alt->arrangement = arrangement;
	alt->began_ns = look->now_ns;
	alt->ends_ns = look->now_ns + tw_alternation_round_ns(alt);
	alt->from = look->done;
}

/* What was done in a millisecond since this arrangement began; false if too many samples were lost to tell.
 */
static inline bool tw_work_since(const struct tw_alternation *alt, const struct tw_alternation_look *look,
				 struct tw_work *work)
{
	u64 ms = (look->now_ns - alt->began_ns) / 1000000;
	u32 i;

	if (!ms)
		return false;
	for (i = 0; i < TW_ALTERNATION_PROGRAMS; i++)
		work->of[i] = (look->done.of[i] - alt->from.of[i]) / ms;
	work->machine = (look->done.machine - alt->from.machine) / ms;
	work->nr_samples = look->done.nr_samples - alt->from.nr_samples;
	work->nr_lost = look->done.nr_lost - alt->from.nr_lost;
	return work->nr_samples && work->nr_lost <= work->nr_samples / TW_ALTERNATION_LOST;
}

/* Whether turns are better: the machine gets more done by an eighth, and nobody less by a quarter. */
static inline bool tw_turns_pay(const struct tw_work *turns, const struct tw_work *beside)
{
	u32 i;

	if (!beside->machine || turns->machine < beside->machine + beside->machine / TW_ALTERNATION_GAIN)
		return false;
	for (i = 0; i < TW_ALTERNATION_PROGRAMS; i++) {
		if (turns->of[i] < beside->of[i] - beside->of[i] / TW_ALTERNATION_LOSS)
			return false;
	}
	return true;
}

/* How long nothing is tried after so many trials, 1 or more. */
static inline u64 tw_alternation_rest_ns(const struct tw_alternation *alt, u32 nr_trials)
{
	u64 doublings = tw_least(nr_trials - 1, TW_ALTERNATION_DOUBLINGS);

	return 2 * TW_ALTERNATION_REST * tw_alternation_round_ns(alt) << doublings;
}

/* A trial is over, which chose turns, or not, or told nothing. */
static inline void tw_end_trial(struct tw_alternation *alt, const struct tw_alternation_look *look)
{
	alt->nr_trials++;
	alt->tried_ns = look->now_ns;
	alt->next_ns = look->now_ns + tw_alternation_rest_ns(alt, alt->nr_trials);
	tw_arrange(alt, alt->chosen ? TW_IN_TURNS : TW_BESIDE, look);
}

/* A program came or went. What was found of the others holds no more, and they are tried again, but not
 * sooner than trials may follow each other. */
static inline void tw_begin_anew(struct tw_alternation *alt, const struct tw_alternation_look *look)
{
	u64 rested_ns;

	/* One that is cut off took its time too. */
	if (alt->arrangement == TW_TRIED_BESIDE || alt->arrangement == TW_TRIED_IN_TURNS)
		alt->tried_ns = look->now_ns;
	alt->members = look->members;
	alt->chosen = 0;
	alt->nr_trials = 0;
	alt->next_ns = look->now_ns + TW_ALTERNATION_SETTLE_NS;
	rested_ns = alt->tried_ns + tw_alternation_rest_ns(alt, 1);
	if (alt->tried_ns && alt->next_ns < rested_ns)
		alt->next_ns = rested_ns;
	tw_arrange(alt, TW_BESIDE, look);
}

/*
 * Time goes on, by counters. Programs run beside each other until a trial chooses turns, and have turns until
 * another trial, or until a round of them got less done than the last trial did beside each other. So turns
 * begin by a trial only, and of those there are in a while T no more than log2(T), whatever counters say.
 */
static inline void tw_alternate(struct tw_alternation *alt, const struct tw_alternation_look *look)
{
	struct tw_work work = {};
	bool tells;

	if (look->members != alt->members) {
		tw_begin_anew(alt, look);
		return;
	}
	if (tw_takes_turns(alt))
		tw_pass_turn(alt, look);
	if (tw_nr_members(alt->members) < 2 ||
	    look->now_ns < (alt->arrangement == TW_BESIDE ? alt->next_ns : alt->ends_ns))
		return;
	tells = tw_work_since(alt, look, &work);
	switch (alt->arrangement) {
	case TW_TRIED_BESIDE:
		if (!tells) {
			tw_end_trial(alt, look);
			return;
		}
		alt->beside = work;
		tw_arrange(alt, TW_TRIED_IN_TURNS, look);
		return;
	case TW_TRIED_IN_TURNS:
		if (tells)
			alt->chosen = tw_turns_pay(&work, &alt->beside);
		tw_end_trial(alt, look);
		return;
	case TW_IN_TURNS:
		if (tells && work.machine < alt->beside.machine)
			alt->chosen = 0;
		if (look->now_ns < alt->next_ns) {
			tw_arrange(alt, alt->chosen ? TW_IN_TURNS : TW_BESIDE, look);
			return;
		}
		break;
	default:
		break;
	}
	tw_arrange(alt, TW_TRIED_BESIDE, look);
}

/*
 * Whether the resident sets of those that are there exceed the cache together. Once it was so, it stays so
 * with an eighth less.
 */
static inline bool tw_exceed_cache(const u64 resident[TW_ALTERNATION_PROGRAMS], u32 members, u64 cache_bytes,
				   bool was)
{
	u64 slack = was ? cache_bytes / 8 : 0, sum = 0;
	u32 i;

	for (i = 0; i < TW_ALTERNATION_PROGRAMS; i++)
		sum += members >> i & 1 ? resident[i] : 0;
	return sum > cache_bytes - slack;
}

/*
 * Time goes on, by resident sets, which nothing can be tried by: turns begin where these exceed the cache,
 * but not sooner than trials may follow each other.
 */
static inline void tw_alternate_by_resident(struct tw_alternation *alt,
					    const struct tw_alternation_look *look, bool exceed)
{
	if (look->members != alt->members) {
		tw_begin_anew(alt, look);
		return;
	}
	if (tw_takes_turns(alt))
		tw_pass_turn(alt, look);
	if (tw_takes_turns(alt) == exceed || (exceed && look->now_ns < alt->next_ns) ||
	    tw_nr_members(alt->members) < 2)
		return;
	if (exceed) {
		alt->chosen = 1;
		tw_end_trial(alt, look);
	} else {
		alt->chosen = 0;
		tw_arrange(alt, TW_BESIDE, look);
	}
}

#endif /* TW_ALTERNATION_H */
