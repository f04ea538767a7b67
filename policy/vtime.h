/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much has a task had? Its vtime is the work that could be done in the time that it ran, divided by its
 * weight, and how far vtimes lie apart is bounded.
 */
#ifndef TW_VTIME_H
#define TW_VTIME_H

#include "weight.h"

/* By how much a task may be behind or ahead however many wait: 10 ms. */
#define TW_SPAN_LEAST_NS (10ULL * 1000 * 1000)

/*
 * The vtime after running for ran_ns with a weight of 1 to 10000 on a CPU of this capacity. What counts
 * is the work that could be done, not the time: who runs on a fast CPU has had more (section VII,
 * "priority for processing power").
 */
static inline u64 tw_vtime_charge(u64 vtime, u64 ran_ns, u32 weight, u32 capacity)
{
	u64 work_ns = ran_ns * capacity / TW_CAPACITY_ONE;

	/* Mostly, and without a division. */
	if (weight == TW_WEIGHT_ONE)
		return vtime + work_ns;
	return vtime + work_ns * TW_WEIGHT_ONE / (weight ? weight : 1);
}

/* What a distance in vtime comes to for tasks heavier than this: there it is good for the same time. */
static inline u64 tw_scale_beyond(u32 most, u64 distance_ns, u32 weight)
{
	return weight > most ? distance_ns * most / weight : distance_ns;
}

/* From when on what a task ran counts, beside what its vtime was charged for. */
enum tw_origin {
	/* All that it ran since it was charged. */
	TW_ORIGIN_CHARGE = 0,
	/* It slept since; what it is owed is brought into bounds at its waking. */
	TW_ORIGIN_WAKING = 1,
	/* It starts with its program's parallel phase (tw_starts_with_phase()), where that began. */
	TW_ORIGIN_PHASE = 2,
};

/* What a task ran since its vtime was last brought up to date. */
struct tw_run {
	/* Before it last slept, if it did. */
	u64 before_ns;
	/* Since then, or since the phase began, or all of it. */
	u64 since_ns;
	/* Among those that run (tw_weight_among()): 1 to 10000, TW_WEIGHT_ONE for nice 0. */
	u32 weight;
	/* Of the CPU that it ran on. */
	u32 capacity;
	/* Tasks that wait in the queue of its CPU. */
	u32 nr_waiting;
	/* What serial tasks leave of boosts. */
	u32 boost_left;
	enum tw_origin origin;
	/* Whether it is serial and has no boost all the same (tw_goes_unboosted()). */
	u32 unboosted;
	/* Whether tasks wait anywhere. */
	u32 others_wait;
};

/*
 * From when on counts what a task ran since it was charged, of which run->since_ns is all so far: where it
 * starts with its program's phase (`seen` names that in which it was charged) or `slept` since, it has been
 * ready for ready_ns.
 */
static inline void tw_find_origin(struct tw_run *run, const struct tw_group *group, u32 seen, u64 ready_ns,
				  bool slept, u64 now_ns, u32 serial_threshold)
{
	u64 ran_ns = run->since_ns;

	if (tw_starts_with_phase(group, seen, ready_ns, now_ns, serial_threshold)) {
		run->origin = TW_ORIGIN_PHASE;
		ready_ns = tw_least(ready_ns, tw_phase_age_ns(group, now_ns));
	} else if (slept) {
		run->origin = TW_ORIGIN_WAKING;
	} else {
		return;
	}
	run->since_ns = tw_least(ready_ns, ran_ns);
	run->before_ns = ran_ns - run->since_ns;
}

/*
 * How far from the current vtime this task may be. CPUs whose load differs drift apart, and a task may be
 * bound to the one that lags: whoever comes there waits until all others have used up their credit. So
 * they share one lag, but for 10 ms each.
 */
static inline u64 tw_vtime_span(const struct tw_run *run, const struct tw_tunables *tun)
{
	u64 span_ns = tun->vtime_lag_ns / (run->nr_waiting + 1);

	return span_ns < TW_SPAN_LEAST_NS ? TW_SPAN_LEAST_NS : span_ns;
}

/*
 * How far behind the current vtime a task may be: its span. Those that are boosted less fall behind by the
 * difference, which is no credit to be taken from them: they would have to wait for it again each time. One
 * that `woke` brings none but a window's; a serial one brings up to 10 ms of what it did not use, so that it
 * goes before those that never sleep, whoever they are: that is soon used up by who runs for long, and never
 * by what people wait for.
 *
 * What counts is the time for which the credit is good, which the weight multiplies: a newcomer waits for a
 * lag, 10 ms of each that waits, and 20 times a boost at most, whoever they are.
 */
static inline u64 tw_behind_most(const struct tw_run *run, enum tw_class class, bool woke,
				 const struct tw_tunables *tun)
{
	u64 span_ns = woke ? TW_SPAN_LEAST_NS : tw_vtime_span(run, tun), boost_ns, outrun_ns = 0;

	if (woke && class > TW_CLASS_SERIAL)
		return tun->vtime_window_ns;
	if (!woke || !run->unboosted) {
		boost_ns = tw_boost_of(class, run->nr_waiting, run->unboosted ? 0 : run->boost_left, tun);
		outrun_ns = tw_boost_most(run->nr_waiting, run->boost_left, tun) - boost_ns;
	}
	return tw_scale_beyond(TW_WEIGHT_ONE, span_ns, run->weight) +
	       tw_scale_beyond(TW_WEIGHT_HEAVY, outrun_ns, run->weight);
}

/*
 * How far ahead of the current vtime a task may be: its span, and a boost for the senior program, or that
 * would run in place at the end of its span, never overtaken, where many wait. What a serial task ran ahead
 * because of its boost is forgiven, but for a window's time for each that waits: phases begin at the current
 * vtime, which leaves out what the senior program is ahead, so a serial program beside one that is always
 * parallel would have a third of its speed. One without a boost has nothing to be forgiven. Nor has one that
 * is ahead of nobody, for a slice: the current vtime follows it there (tw_clock()). As long as a window was
 * all it moved on in a slice, it went at a twentieth of the time beside programs that are always serial, and
 * who ran for less than that was owed nothing at its waking.
 */
static inline u64 tw_ahead_most(const struct tw_run *run, enum tw_class class, const struct tw_tunables *tun)
{
	u64 ahead_ns = tw_scale_beyond(TW_WEIGHT_ONE, tw_vtime_span(run, tun), run->weight);
	u64 left = run->unboosted ? 0 : run->boost_left, kept_ns;

	if (class == TW_CLASS_SENIOR)
		return ahead_ns + tw_boost_of(class, run->nr_waiting, left, tun);
	if (class > TW_CLASS_SERIAL || run->unboosted)
		return ahead_ns;
	kept_ns = tw_vtime_charge(0, tun->vtime_window_ns * (run->nr_waiting + 1), run->weight,
				  TW_CAPACITY_ONE);
	if (!run->nr_waiting && !run->others_wait && kept_ns < TW_SLICE_ALONE_NS)
		kept_ns = TW_SLICE_ALONE_NS;
	return tw_least(ahead_ns, kept_ns);
}

/*
 * Keeps the vtime of a task, which `woke` or not, near the current one, `now`; one that woke keeps its debt.
 *
 * Inlined always: BPF has no calls with more than five arguments.
 */
static inline __attribute__((always_inline)) u64 tw_vtime_bound(u64 vtime, const struct tw_run *run, u64 now,
								enum tw_class class, bool woke,
								const struct tw_tunables *tun)
{
	u64 bound;

	if (tw_before(vtime, now)) {
		bound = now - tw_behind_most(run, class, woke, tun);
		return tw_before(vtime, bound) ? bound : vtime;
	}
	bound = now + tw_ahead_most(run, class, tun);
	return tw_before(bound, vtime) ? bound : vtime;
}

/*
 * A task's vtime brought up to date; the vtime at which its phase began, if it starts with that. One that
 * slept brings its credit into bounds at its waking, not now: what it ran since then is not forgotten, or
 * those that found an idle CPU at the start of a phase would count as having waited for as long as those that
 * wait.
 */
static inline u64 tw_vtime_advance(u64 vtime, const struct tw_run *run, u64 now, enum tw_class class,
				   const struct tw_tunables *tun)
{
	if (run->origin != TW_ORIGIN_PHASE)
		vtime = tw_vtime_charge(vtime, run->before_ns, run->weight, run->capacity);
	if (run->origin == TW_ORIGIN_WAKING)
		vtime = tw_vtime_bound(vtime, run, now, class, true, tun);
	/* Then the others change nothing: a waking's are as narrow or narrower. */
	if (run->origin == TW_ORIGIN_WAKING && !run->since_ns && class <= TW_CLASS_SERIAL)
		return vtime;
	vtime = tw_vtime_charge(vtime, run->since_ns, run->weight, run->capacity);
	return tw_vtime_bound(vtime, run, now, class, false, tun);
}

/* A vtime beyond which tw_vtime_advance() brings no task but one that starts with a phase: what is out of
 * bounds goes back, or forward to the current one at most. */
static inline u64 tw_vtime_most(u64 vtime, const struct tw_run *run, u64 now)
{
	return tw_vtime_charge(tw_before(vtime, now) ? now : vtime, run->before_ns + run->since_ns,
			       run->weight, run->capacity);
}

/*
 * Whether a task that runs, and others wait anywhere or not, is beside others. One that has a CPU for itself
 * while they wait is not: it runs away from them, the further the less it weighs, and says nothing of how far
 * they are.
 */
static inline bool tw_is_beside_others(const struct tw_task *running, bool others_wait)
{
	return running->nr_waiting || !others_wait;
}

/*
 * The current vtime, `now`, after a task of this weight (tw_weight_among()) was found running, and others
 * wait anywhere or not. It follows the foremost of those that are beside others, but without what the senior
 * program ran ahead because of its boost, or those that wake up meanwhile would lose their credit. Who is
 * much lighter than those that run on the mean runs further ahead within a turn than spans are long, and all
 * others would be left at the end of theirs, whatever they had: such a one has it go on as time does, since
 * it last did for one, so that many of them take turns with each other beside few that are heavier.
 */
static inline __attribute__((always_inline)) u64 tw_clock(u64 now, const struct tw_task *running, u32 weight,
							  u64 light_ago_ns, bool others_wait,
							  const struct tw_tunables *tun)
{
	u64 vtime = running->vtime, most = now + tw_least(light_ago_ns, TW_SLICE_ALONE_NS);

	if (!tw_is_beside_others(running, others_wait))
		return now;
	if (running->class == TW_CLASS_SENIOR)
		vtime -= tw_boost_of(running->class, running->nr_waiting, running->boost_left, tun);
	if (tw_is_light(weight) && tw_before(most, vtime))
		vtime = most;
	return tw_before(now, vtime) ? vtime : now;
}

#endif /* TW_VTIME_H */
