/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who goes first? Every waiting task has a key; the smaller key goes first. The key of a parallel
 * task is its vtime: the time that it ran, divided by its weight. Serial tasks, and those of the
 * senior parallel program, are boosted: their key is their vtime less a constant. The boosts are
 * bounded, and so is how far vtimes lie apart, so a waiting task's turn always comes: whoever runs
 * moves on in vtime, and is overtaken when it is ahead by more than its boost, or at the end of its turn.
 *
 * All times are nanoseconds. vtime wraps; compare with tw_before() only.
 */
#ifndef TW_ORDER_H
#define TW_ORDER_H

#include "types.h"
#include "phase.h"

/* The weight of a nice-0 task (kernel/sched/ext.c, SCX weights: 1 to 10000). */
#define TW_WEIGHT_ONE 100

/* Heavier tasks, about those of nice -10, are owed less of what others are boosted more. */
#define TW_WEIGHT_HEAVY 1000

/* The capacity of the fastest CPU (Documentation/scheduler/sched-capacity.rst). */
#define TW_CAPACITY_ONE 1024

/* CPUs that one serial wake-up looks at, at most. */
#define TW_VICTIM_SCAN 64

/* What a task gets at once where nobody waits: 20 ms. */
#define TW_SLICE_ALONE_NS (20ULL * 1000 * 1000)

/* What one of the senior program gets beside others whose turn comes later, at most: 60 ms. */
#define TW_SLICE_SENIOR_NS (60ULL * 1000 * 1000)

/* By how much a task may be behind or ahead however many wait: 10 ms. */
#define TW_SPAN_LEAST_NS (10ULL * 1000 * 1000)

/* A parallel task in another queue that is no longer than a CPU's own is so much later there: 10 ms. */
#define TW_ELSEWHERE_NS (10ULL * 1000 * 1000)

/* Who waits for longer, for each task of its CPU but the first 16 only, goes forward in its queue, and before
 * who runs: 0.2 s. */
#define TW_PATIENCE_NS	  (200ULL * 1000 * 1000)
#define TW_PATIENCE_TASKS 16

/* So often at most those whose wait has come to count go forward in queues: 100 ms. */
#define TW_ORDER_NS (TW_PATIENCE_NS / 2)

/* The longest time between two looks at those that wait, and where all of them were looked at and nobody was
 * due in that time: 8 and 24 ms. */
#define TW_LOOK_MOST_NS	 (8ULL * 1000 * 1000)
#define TW_LOOK_QUIET_NS (24ULL * 1000 * 1000)

/* Who is owed so many turns of serial tasks does not wait for the end of one. */
#define TW_TURNS_OWED 2

/* The shortest step of the rotation, 0.125 ms, and what a thread's way to another CPU takes beside the look
 * that sends it there: 10 us. */
#define TW_STEP_LEAST_NS (125ULL * 1000)
#define TW_STEP_MOVE_NS	 (10ULL * 1000)

/* The longest look of the timer that counts, and the oldest phase whose age does: 1 ms and 1 s. */
#define TW_LOOK_TAKES_MOST_NS (1000ULL * 1000)
#define TW_STEP_AGE_MOST_NS   (1000ULL * 1000 * 1000)

/* All of a boost (tw_boost_left()). */
#define TW_BOOST_WHOLE 65536

/* Over how long ready serial tasks are counted (tw_serial_ready()): 16 ms. */
#define TW_CROWD_PERIOD_NS (16ULL * 1000 * 1000)

/* For how long it counts how many they were: 128 ms. */
#define TW_CROWD_RECENTLY_NS (8 * TW_CROWD_PERIOD_NS)

/* For how long it counts that a parallel task was ready that is bound to a CPU: 1 s. */
#define TW_BOUND_RECENTLY_NS (1000ULL * 1000 * 1000)

enum tw_class {
	/* A kernel thread bound to its CPU: others depend on it, it runs briefly, it goes at once. */
	TW_CLASS_KERNEL = 0,
	TW_CLASS_SERIAL = 1,
	/* Of the senior parallel program (phase.h). */
	TW_CLASS_SENIOR = 2,
	TW_CLASS_PARALLEL = 3,
};

struct tw_tunables {
	/* How long a task runs before those who wait are considered. */
	u64 slice_ns;
	/* How far a task's vtime may run ahead of that of a waiting one before it yields, at most.
	 * Threads of a program rotate in steps (tw_step()), so that they reach their next barrier together.
	 */
	u64 rotate_ns;
	/* How far ahead of its vtime a serial task is placed. */
	u64 serial_boost_ns;
	/* How long a serial task has a CPU before it makes way for another serial one. */
	u64 serial_turn_ns;
	/* How far ahead of its vtime a task of the senior parallel program is placed. */
	u64 senior_boost_ns;
	/* How long a program is the senior one while others compete. */
	u64 senior_turn_ns;
	/* How far behind the current vtime a task that wakes up may be, and a serial one ahead. */
	u64 vtime_window_ns;
	/* How far from the current vtime any task may be, either way, where nobody waits beside it. */
	u64 vtime_lag_ns;
	/* At most so many ready threads, and the thread group is serial. */
	u32 serial_threshold;
	/* As many tasks waiting in a queue, beyond the second, halve a boost twice; 1 to 65535. */
	u32 boost_shares;
};

/* A task as the ordering sees it. */
struct tw_task {
	u64 vtime;
	/* How long ago it came to the CPU on which it runs (tw_here_ns()); nothing goes by it while it waits.
	 */
	u32 here_ns;
	enum tw_class class;
	/* Tasks that wait in the queue of its CPU. */
	u32 nr_waiting;
	/* What serial tasks leave of boosts (tw_boost_left()), or 0 (tw_goes_unboosted()). */
	u32 boost_left;
	/* How long it has been waiting, in microseconds (tw_waits_us()); 0 if it runs. */
	u32 waits_us;
	/* How far it may run ahead of one that waits before it yields, in nanoseconds (tw_step()). */
	u32 step_ns;
};

static inline bool tw_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* What struct tw_task says of so long: a second at most, which is more than any turn. */
static inline u32 tw_here_ns(u64 ago_ns)
{
	return tw_least(ago_ns, 1000ULL * 1000 * 1000);
}

/* The class of a task whose thread group has so many ready threads, and is the senior one or not. */
static inline enum tw_class tw_class_of(u32 nr_ready, bool bound_kernel_thread, bool senior,
					const struct tw_tunables *tun)
{
	if (bound_kernel_thread)
		return TW_CLASS_KERNEL;
	if (tw_phase_of(nr_ready, tun->serial_threshold) == TW_SERIAL)
		return TW_CLASS_SERIAL;
	return senior ? TW_CLASS_SENIOR : TW_CLASS_PARALLEL;
}

/*
 * The vtime after running for ran_ns with a weight of 1 to 10000 on a CPU of this capacity. What counts
 * is the work that could be done, not the time: who runs on a fast CPU has had more (section VII,
 * "priority for processing power").
 */
static inline u64 tw_vtime_charge(u64 vtime, u64 ran_ns, u32 weight, u32 capacity)
{
	u64 work_ns = ran_ns * capacity / TW_CAPACITY_ONE;

	return vtime + work_ns * TW_WEIGHT_ONE / (weight ? weight : 1);
}

/*
 * For how long a serial task counts as ready that ran for so long since it was last charged, and waited. Of
 * those that may run on one CPU only each waits for all the others; so many that all are ready are few beside
 * the CPUs of a machine.
 */
static inline u64 tw_serial_ready_ns(u64 ran_ns, u64 waited_ns)
{
	u64 most_ns = ran_ns < TW_SLICE_ALONE_NS ? ran_ns : TW_SLICE_ALONE_NS;

	return most_ns + (waited_ns < 2 * most_ns ? waited_ns : 2 * most_ns);
}

/*
 * How many serial tasks are ready, in 256ths: so many as there were, after they were ready for so long in
 * sum. What was long ago counts for nothing.
 */
static inline u32 tw_serial_ready(u32 before, u64 ready_ns, u64 in_ns)
{
	u64 most = 1ULL << 24, now = most;

	if (ready_ns < 1ULL << 48)
		now = tw_least((ready_ns << 8) / (in_ns ? in_ns : 1), most);
	return in_ns > TW_CROWD_RECENTLY_NS ? now : (3 * (u64)before + now) / 4;
}

/*
 * What is left of boosts, in 65536ths, beside so many ready serial tasks, in 256ths. As long as these leave
 * half of the CPUs to others it is worth most that they go first. Where they take all CPUs it is worth
 * nothing: no CPU runs out of work, and a parallel program whose threads meet every few milliseconds would
 * wait for a boost in each of its phases.
 */
static inline u32 tw_boost_left(u32 serial_ready, u32 nr_cpus)
{
	u64 all = (u64)nr_cpus << 8, half = all / 2;

	if (serial_ready <= half)
		return TW_BOOST_WHOLE;
	return serial_ready < all ? (all - serial_ready) * TW_BOOST_WHOLE / (all - half) : 0;
}

/*
 * Whether a task of a program with so few threads that it is always serial, bound to a CPU, goes by its vtime
 * there, without a boost: where so long ago a parallel task was ready that is bound there too. Neither can go
 * elsewhere, and no thread of its program waits for this one on another CPU, so whoever goes first, none runs
 * out of work. But the parallel program, whose other threads may all wait for that one, would wait for a
 * boost in each of its phases.
 */
static inline bool tw_goes_unboosted(u32 nr_threads, u64 parallel_ago_ns, const struct tw_tunables *tun)
{
	return !tw_is_counted(nr_threads, tun->serial_threshold) && parallel_ago_ns < TW_BOUND_RECENTLY_NS;
}

/*
 * A boost beside so many tasks that wait in a queue. Who goes first matters where CPUs run out of work; with
 * many more tasks than CPUs none does, and boosted tasks only keep the others waiting. So from the third one
 * on boosts shrink: with boost_shares of 4, all of those in a queue together keep others waiting for 2
 * boost_ns at most (nr_waiting times the result, which is largest for 2), however many they are. Beside two
 * it is whole, because two programs with a thread for each CPU leave some queues with two, and one of the
 * senior program's that makes way before its turn is over has all the others wait for it at their next
 * barrier.
 *
 * Two tasks are compared beside the longer of the queues that they come from, or one that is alone on its CPU
 * would go before all that wait elsewhere.
 */
static inline u64 tw_boost(u64 boost_ns, u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	u32 nr_others = nr_waiting > 2 ? nr_waiting - 2 : 0;
	u64 shares = tun->boost_shares ? tun->boost_shares : 1, ratio = (shares << 16) / (shares + nr_others);

	return ((boost_ns * ratio >> 16) * ratio >> 16) * left >> 16;
}

/* What a distance in vtime comes to for tasks heavier than this: there it is good for the same time. */
static inline u64 tw_scale_beyond(u32 most, u64 distance_ns, u32 weight)
{
	return weight > most ? distance_ns * most / weight : distance_ns;
}

/* How far ahead of its vtime a task of this class is placed, beside so many that wait. */
static inline u64 tw_boost_of(enum tw_class class, u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	switch (class) {
	case TW_CLASS_PARALLEL:
		return 0;
	case TW_CLASS_SENIOR:
		return tw_boost(tun->senior_boost_ns, nr_waiting, left, tun);
	default:
		return tw_boost(tun->serial_boost_ns, nr_waiting, left, tun);
	}
}

/* The largest boost beside so many. */
static inline u64 tw_boost_most(u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	u64 boost_ns = tun->serial_boost_ns;

	return tw_boost(boost_ns > tun->senior_boost_ns ? boost_ns : tun->senior_boost_ns, nr_waiting, left,
			tun);
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
	/* 1 to 10000, TW_WEIGHT_ONE for nice 0. */
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
};

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
 * Keeps a vtime near the current one, `now`: within its span, and a boost for the senior program. Those that
 * are boosted less fall behind by the difference, which is no credit to be taken from them: they would
 * have to wait for it again each time. A task that `woke` brings none but a window's, and keeps its debt; a
 * serial one brings up to 10 ms of what it did not use, so that it goes before those that never sleep,
 * whoever they are: that is soon used up by who runs for long, and never by what people wait for. What a
 * serial task ran ahead because of its boost is forgiven, but for a window's time for each that waits, or the
 * main thread of a program, which runs in both phases, would use its boost up and then be held back. One
 * without a boost has nothing to be forgiven.
 *
 * What counts is the time for which the credit is good, which the weight multiplies: a newcomer waits for a
 * lag, 10 ms of each that waits, and 20 times a boost at most, whoever they are.
 *
 * Inlined always: BPF has no calls with more than five arguments.
 */
static inline __attribute__((always_inline)) u64 tw_vtime_bound(u64 vtime, const struct tw_run *run, u64 now,
								enum tw_class class, bool woke,
								const struct tw_tunables *tun)
{
	u64 span_ns = tw_vtime_span(run, tun);
	u64 boost_ns = tw_boost_of(class, run->nr_waiting, run->unboosted ? 0 : run->boost_left, tun);
	u64 most_ns = tw_boost_most(run->nr_waiting, run->boost_left, tun);
	u64 outrun_ns = woke && run->unboosted ? 0 : most_ns - boost_ns;
	u64 behind_ns = tw_scale_beyond(TW_WEIGHT_ONE, woke ? TW_SPAN_LEAST_NS : span_ns, run->weight) +
			tw_scale_beyond(TW_WEIGHT_HEAVY, outrun_ns, run->weight);
	u64 forgiven_ns = tw_vtime_charge(0, tun->vtime_window_ns * (run->nr_waiting + 1), run->weight,
					  TW_CAPACITY_ONE);
	u64 ahead_ns = tw_scale_beyond(TW_WEIGHT_ONE, span_ns, run->weight);

	if (woke && class > TW_CLASS_SERIAL)
		behind_ns = tun->vtime_window_ns;
	if (class <= TW_CLASS_SERIAL && !run->unboosted && forgiven_ns < ahead_ns)
		ahead_ns = forgiven_ns;
	/* Or it would run in place at the end of its span, never overtaken, where many wait. */
	if (class == TW_CLASS_SENIOR)
		ahead_ns += boost_ns;

	if (tw_before(vtime, now - behind_ns))
		return now - behind_ns;
	if (tw_before(now + ahead_ns, vtime))
		return now + ahead_ns;
	return vtime;
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
	vtime = tw_vtime_charge(vtime, run->since_ns, run->weight, run->capacity);
	return tw_vtime_bound(vtime, run, now, class, false, tun);
}

/*
 * The current vtime, `now`, after a task was found running, and others wait anywhere or not. It follows
 * the foremost, but without what the senior program ran ahead because of its boost, or those that wake
 * up meanwhile would lose their credit. And it does not follow who has a CPU for itself beside others that
 * wait: that runs away from them, the further the less it weighs, and would leave all of them at the end of
 * their span.
 */
static inline u64 tw_clock(u64 now, const struct tw_task *running, bool others_wait,
			   const struct tw_tunables *tun)
{
	u64 vtime = running->vtime;

	if (running->class == TW_CLASS_SENIOR)
		vtime -= tw_boost_of(running->class, running->nr_waiting, running->boost_left, tun);
	return tw_before(now, vtime) && (running->nr_waiting || !others_wait) ? vtime : now;
}

/*
 * How long a task runs before those who wait are considered. Where nobody waits that would find nothing at
 * some thousand instructions a tick, and whoever is queued later has the CPUs looked at.
 */
static inline u64 tw_slice(bool others_wait, const struct tw_tunables *tun)
{
	return others_wait || tun->slice_ns > TW_SLICE_ALONE_NS ? tun->slice_ns : TW_SLICE_ALONE_NS;
}

/* What a task of this class gets that waited: a serial one all of its turn beside other serial ones. */
static inline u64 tw_slice_of(enum tw_class class, const struct tw_tunables *tun)
{
	return class == TW_CLASS_SERIAL && tun->serial_turn_ns > tun->slice_ns ? tun->serial_turn_ns :
										 tun->slice_ns;
}

/*
 * How long a task of this class and weight goes on that was compared with the best of those that wait, which
 * is due in due_ns of its vtime (tw_due_in()): until about then, unless the timer finds somebody who is due
 * sooner. A senior program goes on for long beside those whose turn comes later; each look at one of its
 * threads holds up all others at their next barrier.
 */
static inline u64 tw_slice_beside(enum tw_class class, u64 due_ns, u32 weight, const struct tw_tunables *tun)
{
	u64 most_ns = tw_slice(false, tun), in_ns = due_ns * weight / TW_WEIGHT_ONE;

	if (class == TW_CLASS_SENIOR && most_ns < TW_SLICE_SENIOR_NS)
		most_ns = TW_SLICE_SENIOR_NS;
	if (in_ns < tun->slice_ns)
		return tun->slice_ns;
	return in_ns < most_ns ? in_ns : most_ns;
}

/* What struct tw_task says of a wait of so long: an hour at most. */
static inline u32 tw_waits_us(u64 waits_ns)
{
	return tw_least(waits_ns / 1000, 3600ULL * 1000 * 1000);
}

/*
 * By how much a task goes forward that waits for long. Boosts and debts are in vtime, and those that a heavy
 * or a serial task (tw_vtime_bound()) runs ahead may last for many times as long. So from some time on
 * waiting counts like vtime, and whoever runs makes way in as much time as boost and spans are long, whatever
 * it weighs. That is late enough, and later beside many, that it says nothing of those that wait for their
 * turn by weight: vtimes are bounded, so who goes before it is due has that forgiven.
 */
static inline u64 tw_age(const struct tw_task *task, u32 nr_waiting)
{
	u64 tasks = tw_least(nr_waiting + 1ULL, TW_PATIENCE_TASKS);
	u64 waits_ns = task->waits_us * 1000ULL, patience_ns = TW_PATIENCE_NS * tasks;

	return waits_ns > patience_ns ? waits_ns - patience_ns : 0;
}

/* Whether a waiting task goes forward in its queue, and is not just queued under a key of another time. */
static inline bool tw_goes_forward(const struct tw_task *task, u64 key, u64 queued_key)
{
	return tw_age(task, task->nr_waiting) && tw_before(key, queued_key);
}

/* The position of a task beside so many that wait. */
static inline u64 tw_position(const struct tw_task *task, u32 nr_waiting, u32 left,
			      const struct tw_tunables *tun)
{
	return task->vtime - tw_boost_of(task->class, nr_waiting, left, tun) - tw_age(task, nr_waiting);
}

/* The position of a waiting task in its queue. */
static inline u64 tw_key(const struct tw_task *task, const struct tw_tunables *tun)
{
	return tw_position(task, task->nr_waiting, task->boost_left, tun);
}

/*
 * How far a task is ahead of another in vtime and boost: before it, and less than 0, if it goes first. Where
 * one of the two has no boost (tw_goes_unboosted()) that of the other does not count either: a senior program
 * is ahead anew in each phase, and would have twice its share.
 */
static inline s64 tw_ahead(const struct tw_task *task, const struct tw_task *of,
			   const struct tw_tunables *tun)
{
	u32 longer = task->nr_waiting > of->nr_waiting ? task->nr_waiting : of->nr_waiting;
	u32 left = task->boost_left < of->boost_left ? task->boost_left : of->boost_left;

	return (s64)(tw_position(task, longer, left, tun) - tw_position(of, longer, left, tun));
}

/* Whether one of two waiting tasks goes first. */
static inline bool tw_goes_first(const struct tw_task *task, const struct tw_task *other,
				 const struct tw_tunables *tun)
{
	return tw_ahead(task, other, tun) < 0;
}

/* Whether a task of this class ever takes the CPU of a running one. */
static inline bool tw_may_preempt(enum tw_class class)
{
	return class != TW_CLASS_PARALLEL;
}

/* Whether tasks of a class go before those of another. */
static inline bool tw_is_before(enum tw_class class, enum tw_class other)
{
	return class < other;
}

/*
 * Whether a task of this class may take the CPU of a running one of that class at all; `nr_own_threads` are
 * those of the program, if both are of one, and 0 if they are not. One that is neither new nor woke up had a
 * turn and made way for the best that waits, or was moved: it takes none from its class. One that is or did
 * takes none from a thread of its class and program: threads that wake each other, at the end of a barrier
 * say, would run one by one, and a parallel program would never be seen to have many ready. One of so few
 * threads that it is always serial has nothing to gain by that.
 */
static inline bool tw_may_take(enum tw_class class, enum tw_class running, bool wakes, u32 nr_own_threads,
			       const struct tw_tunables *tun)
{
	bool own = tw_is_counted(nr_own_threads, tun->serial_threshold);

	return tw_is_before(class, running) || (wakes && running == class && !own);
}

/*
 * Whether a CPU on which a task of this class runs looks at its queue at once when another program has become
 * senior: threads that meet get on only while all of them run. Those of an earlier class do not make way.
 */
static inline bool tw_follows_senior(enum tw_class running)
{
	return running == TW_CLASS_PARALLEL;
}

/*
 * How many CPUs a waking task of this class looks at for one to take over. A serial task is worth a
 * search, of bounded length; the senior program's look at their own CPU, and rotate onto others.
 */
static inline u32 tw_victim_scan(enum tw_class class, u32 nr_cpus)
{
	if (class != TW_CLASS_SERIAL)
		return 1;
	return nr_cpus < TW_VICTIM_SCAN ? nr_cpus : TW_VICTIM_SCAN;
}

/* What a look of the timer takes on the mean, in nanoseconds, after one that took so long. */
static inline u64 tw_look_takes(u64 before_ns, u64 took_ns)
{
	return (15 * before_ns + tw_least(took_ns, TW_LOOK_TAKES_MOST_NS)) / 16;
}

/*
 * How far a task of this class runs ahead of one that waits before it yields, so long after its program's
 * parallel phase began, where a look takes so long. When a phase ends some of its threads are a step behind,
 * and the others wait for them: half a step, s / 2, of the phase's length t. Each step costs a look and a
 * switch of one CPU of n: c / (n s) of all. The sum is least for s * s = 2 c t / n. With a switch of one and
 * a half looks, n of about 7, and a phase that goes on for as long again on the mean as it has, that is
 * between one and one and a half looks times its age: s * s = (look + move) * t. To within a quarter: the
 * root is not worth more.
 */
static inline u64 tw_step(enum tw_class class, u64 age_ns, u64 look_ns, const struct tw_tunables *tun)
{
	u64 square = (look_ns + TW_STEP_MOVE_NS) * tw_least(age_ns, TW_STEP_AGE_MOST_NS);
	u64 step_ns = 3 * look_ns;
	u32 i;

	if (class < TW_CLASS_SENIOR)
		return tun->rotate_ns;
	if (step_ns < TW_STEP_LEAST_NS)
		step_ns = TW_STEP_LEAST_NS;
	for (i = 0; i < 24 && 3 * step_ns * step_ns / 2 < square && step_ns < tun->rotate_ns; i++)
		step_ns += step_ns / 2;
	return tw_least(step_ns, tun->rotate_ns);
}

/* The step between two tasks: the longer one. */
static inline u32 tw_step_between(const struct tw_task *running, const struct tw_task *waiting)
{
	return running->step_ns > waiting->step_ns ? running->step_ns : waiting->step_ns;
}

static inline bool tw_are_serial(const struct tw_task *task, const struct tw_task *other)
{
	return task->class == TW_CLASS_SERIAL && other->class == TW_CLASS_SERIAL;
}

/*
 * What is left of the turn of a task that is so far ahead of one that waits. Serial tasks meet at no barrier
 * and gain nothing from small steps: who just came is left to run for a turn, as EEVDF's does for a slice
 * (RUN_TO_PARITY, kernel/sched/fair.c), or clients and servers that keep waking each other would switch at
 * each wake-up. Who is owed more than others ever are, because it mostly sleeps, need not wait for that.
 */
static inline u64 tw_turn_left(const struct tw_task *running, const struct tw_task *waiting, s64 ahead,
			       const struct tw_tunables *tun)
{
	if (!tw_are_serial(running, waiting) || running->here_ns >= tun->serial_turn_ns ||
	    ahead > (s64)(TW_TURNS_OWED * tun->serial_turn_ns))
		return 0;
	return tun->serial_turn_ns - running->here_ns;
}

/*
 * For how long a task may go on before it makes way for the best that waits: until that comes before it
 * by a step of the rotation, and until its turn is over. In vtime, which is time for a nice-0 task on the
 * fastest CPU; a heavier one is looked at later by its own CPU than its turn ends, and in time by the timer.
 * 0: it is due.
 */
static inline u64 tw_due_in(const struct tw_task *running, const struct tw_task *waiting,
			    const struct tw_tunables *tun)
{
	s64 ahead = tw_ahead(running, waiting, tun), left = tw_step_between(running, waiting) - ahead;
	u64 turn_ns = tw_turn_left(running, waiting, ahead, tun), due_ns = left < 0 ? 0 : (u64)left + 1;

	return due_ns > turn_ns ? due_ns : turn_ns;
}

/*
 * In how long to look again at a running task beside a waiting one that is due in so long, or has just been
 * given its CPU: not in less than a step, or than a turn of serial tasks, whose turns then end together.
 */
static inline u64 tw_look_in(const struct tw_task *running, const struct tw_task *waiting, u64 due_ns,
			     const struct tw_tunables *tun)
{
	u64 turn_ns = tw_are_serial(running, waiting) ? tun->serial_turn_ns : 0;
	u64 step_ns = tw_step_between(running, waiting);

	if (step_ns < turn_ns)
		step_ns = turn_ns;
	return due_ns > step_ns ? due_ns : step_ns;
}

/*
 * In how long those that wait are looked at again, where the first is due in in_ns and so many queues in a
 * row held nobody who is due in less than TW_LOOK_MOST_NS. A look takes time of the thread under it, for
 * which all others of its program wait at their next barrier; where turns last for long it finds nothing, and
 * each CPU looks when its slice ends.
 */
static inline u64 tw_look_within(u64 in_ns, u32 nr_quiet, u32 nr_queues)
{
	return tw_least(in_ns, nr_quiet < nr_queues ? TW_LOOK_MOST_NS : TW_LOOK_QUIET_NS);
}

/*
 * The vtime of a task that waits behind another last-level cache, for CPUs of this one to go by: the
 * longest step of the rotation later. To go there it has to fill that cache first, and two tasks that are
 * hardly apart would be exchanged again and again.
 */
static inline u64 tw_vtime_across(u64 vtime, const struct tw_tunables *tun)
{
	return vtime + tun->rotate_ns;
}

/*
 * The vtime of `theirs`, the first task of another CPU's queue, for a CPU to go by whose own queue begins
 * with `mine`. Who has to make way waits in the queue of the CPU that it leaves, so each task that comes from
 * another queue lengthens this one by one and shortens that. Tasks hardly apart would be exchanged until some
 * queues are long and some empty, and a long one shrinks boosts (tw_boost()): the senior program's threads
 * there would make way long before its turn is over, and its others wait for them at the next barrier. So a
 * parallel task in a queue that is no longer than the own one waits for this much longer to be taken from
 * there, unless only that is of the senior program. Its own CPU goes by its vtime as it is.
 */
static inline u64 tw_vtime_elsewhere(const struct tw_task *theirs, const struct tw_task *mine)
{
	bool is_serial = theirs->class <= TW_CLASS_SERIAL;
	bool is_longer = theirs->nr_waiting > mine->nr_waiting;

	return is_serial || is_longer || theirs->class < mine->class ? theirs->vtime :
								       theirs->vtime + TW_ELSEWHERE_NS;
}

/* Whether a task that has used up its slice makes way for the best that waits. */
static inline bool tw_yields(const struct tw_task *running, const struct tw_task *waiting,
			     const struct tw_tunables *tun)
{
	return tw_due_in(running, waiting, tun) == 0;
}

/*
 * Whether a task that just became ready takes the CPU from the one that runs there: that of a later class,
 * which it goes before, or of two serial ones that which is due to make way for it anyway, at the next look.
 */
static inline bool tw_preempts(const struct tw_task *waking, const struct tw_task *running,
			       const struct tw_tunables *tun)
{
	if (waking->class == TW_CLASS_KERNEL)
		return true;
	if (running->class < waking->class)
		return false;
	if (running->class == waking->class)
		return waking->class == TW_CLASS_SERIAL && tw_yields(running, waking, tun);
	return tw_goes_first(waking, running, tun);
}

/*
 * Whether a serial task makes way for one that is bound to this CPU, however the two are ordered: it finds
 * another CPU, in place of a parallel task if need be, but a bound thread would hold up its program here.
 */
static inline bool tw_makes_room(const struct tw_task *running, bool running_is_bound, bool waiting_is_bound)
{
	return waiting_is_bound && !running_is_bound && running->class == TW_CLASS_SERIAL;
}

#endif /* TW_ORDER_H */
