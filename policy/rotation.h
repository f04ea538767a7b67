/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For how long does a task run before it makes way? Threads of a program reach their next barrier together
 * only if those that wait take turns with those that run, in steps that are short against a phase; each step
 * costs a look and a switch.
 */
#ifndef TW_ROTATION_H
#define TW_ROTATION_H

#include "order.h"

/* What one of the senior program gets beside others whose turn comes later, at most: 60 ms. */
#define TW_SLICE_SENIOR_NS (60ULL * 1000 * 1000)

/* The shortest step of the rotation, 0.125 ms, and what a thread's way to another CPU takes beside the look
 * that sends it there: 10 us. */
#define TW_STEP_LEAST_NS (125ULL * 1000)
#define TW_STEP_MOVE_NS	 (10ULL * 1000)

/* So many looks could be taken, at least, in the longest step, and in the slice of one whose CPU nobody else
 * waits for (tw_slice()) or that waited for it: they have 6 % of the time then, and
 * what the kernel adds to the scheduler's own part. */
#define TW_LOOKS_APART 16

/* The oldest phase whose age counts: 1 s. */
#define TW_STEP_AGE_MOST_NS (1000ULL * 1000 * 1000)

/* Who is owed so many turns of serial tasks does not wait for the end of one, but for a step. */
#define TW_TURNS_OWED 2

/* A time that is set, or what leaves looks that take so long a small part of it. */
static inline u64 tw_spaced(u64 set_ns, u64 look_ns)
{
	u64 least_ns = TW_LOOKS_APART * look_ns;

	return set_ns > least_ns ? set_ns : least_ns;
}

/*
 * How long a task runs before those who wait are considered, where a look takes so long. Where nobody waits
 * that would find nothing at some thousand instructions a tick, and whoever is queued later has the CPUs
 * looked at; but where CPUs are `unequal` a faster one may become idle. A whole core is worth less, and
 * asking for it at each tick cost 2 % where all hardware threads are busy.
 */
static inline u64 tw_slice(bool others_wait, bool unequal, u64 look_ns, const struct tw_tunables *tun)
{
	u64 slice_ns = tw_spaced(tun->slice_ns, look_ns);

	return others_wait || unequal || slice_ns > TW_SLICE_ALONE_NS ? slice_ns : TW_SLICE_ALONE_NS;
}

/*
 * What a task of this class gets that waited, where a look takes so long: a serial one all of its turn beside
 * other serial ones. The timer has it make way for those who are due sooner.
 */
static inline u64 tw_slice_of(enum tw_class class, u64 look_ns, const struct tw_tunables *tun)
{
	u64 slice_ns = tw_spaced(tun->slice_ns, look_ns);

	return class == TW_CLASS_SERIAL && tun->serial_turn_ns > slice_ns ? tun->serial_turn_ns : slice_ns;
}

/*
 * How long a task of this class and weight goes on that was compared with the best of those that wait, which
 * is due in due_ns of its vtime (tw_due_in()): until about then, unless the timer finds somebody who is due
 * sooner. A senior program goes on for long beside those whose turn comes later; each look at one of its
 * threads holds up all others at their next barrier.
 */
static inline u64 tw_slice_beside(enum tw_class class, u64 due_ns, u32 weight, const struct tw_tunables *tun)
{
	u64 most_ns = tw_slice(false, false, 0, tun), in_ns = due_ns * weight / TW_WEIGHT_ONE;

	if (class == TW_CLASS_SENIOR && most_ns < TW_SLICE_SENIOR_NS)
		most_ns = TW_SLICE_SENIOR_NS;
	if (in_ns < tun->slice_ns)
		return tun->slice_ns;
	return in_ns < most_ns ? in_ns : most_ns;
}

/* Whether that is how long a task goes on, or the slice of one for which no other has to wait (tw_slice()):
 * nobody was seen if due_ns is 0, and a faster CPU may become idle before. */
static inline bool tw_goes_on_until_due(u64 due_ns, bool unequal)
{
	return due_ns && !unequal;
}

/* Whether the step of a task of this class goes by the age of its program's phase. */
static inline bool tw_steps_age(enum tw_class class)
{
	return class >= TW_CLASS_SENIOR;
}

/*
 * How far a task of this class runs ahead of one that waits before it yields, so long after its program's
 * parallel phase began, where a look takes so long. When a phase ends some of its threads are a step behind,
 * and the others wait for them: half a step, s / 2, of the phase's length t. Each step costs a look and a
 * switch of one CPU of n: c / (n s) of all. The sum is least for s * s = 2 c t / n. With a switch of one and
 * a half looks, n of about 7, and a phase that goes on for as long again on the mean as it has, that is
 * between one and one and a half looks times its age: s * s = (look + move) * t. To within a quarter: the
 * root is not worth more. At most it is what is set, or longer where looks would take much of that.
 */
static inline u64 tw_step(enum tw_class class, u64 age_ns, u64 look_ns, const struct tw_tunables *tun)
{
	u64 square = (look_ns + TW_STEP_MOVE_NS) * tw_least(age_ns, TW_STEP_AGE_MOST_NS);
	u64 step_ns = 3 * look_ns;
	u32 i;

	if (!tw_steps_age(class))
		return tun->rotate_ns;
	if (step_ns < TW_STEP_LEAST_NS)
		step_ns = TW_STEP_LEAST_NS;
	/* What is set comes after it: the verifier follows the loop for each way to get there. */
	for (i = 0; i < 24 && 3 * step_ns * step_ns / 2 < square; i++)
		step_ns += step_ns / 2;
	return tw_least(step_ns, tw_spaced(tun->rotate_ns, look_ns));
}

/*
 * The step of a running task beside one that waits, where it is so long beside others; `both_bound` says that
 * neither may run on another CPU. Threads of a program rotate in short steps to reach their next barrier
 * together on many CPUs. Those that share the only one that they may use reach it when the last of them does,
 * in whatever order they run, and each step costs a switch: so they have turns like serial tasks.
 */
static inline u32 tw_step_beside(const struct tw_task *running, bool of_one_program, bool both_bound,
				 const struct tw_tunables *tun)
{
	bool turns = of_one_program && both_bound && tw_steps_age(running->class);

	return turns && running->step_ns < tun->serial_turn_ns ? tun->serial_turn_ns : running->step_ns;
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

/* For how long a serial task has its CPU at least beside another one: a step, or a turn if that is shorter.
 */
static inline u64 tw_turn_least(const struct tw_tunables *tun)
{
	return tw_least(tun->serial_turn_ns, tun->rotate_ns);
}

/*
 * What is left of the turn of a task that is so far ahead of one that waits. Serial tasks meet at no barrier
 * and gain nothing from small steps: who just came is left to run for a turn, as EEVDF's does for a slice
 * (RUN_TO_PARITY, kernel/sched/fair.c), or clients and servers that keep waking each other would switch at
 * each wake-up. Who is owed more than others ever are, because it mostly sleeps, need not wait for that, but
 * for a step: of many that all sleep soon again some always are, and to take their CPU in the middle of a
 * request costs two switches and a search.
 */
static inline u64 tw_turn_left(const struct tw_task *running, const struct tw_task *waiting, s64 ahead,
			       const struct tw_tunables *tun)
{
	bool owed = ahead > (s64)(TW_TURNS_OWED * tun->serial_turn_ns);
	u64 turn_ns = owed ? tw_turn_least(tun) : tun->serial_turn_ns;

	if (!tw_are_serial(running, waiting) || running->here_ns >= turn_ns)
		return 0;
	return turn_ns - running->here_ns;
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

/* Whether a task that has used up its slice makes way for the best that waits. */
static inline bool tw_yields(const struct tw_task *running, const struct tw_task *waiting,
			     const struct tw_tunables *tun)
{
	return tw_due_in(running, waiting, tun) == 0;
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

#endif /* TW_ROTATION_H */
