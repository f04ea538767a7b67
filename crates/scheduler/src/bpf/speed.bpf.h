/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds faster CPUs on machines whose CPUs differ; on others it costs one comparison. */
#ifndef TW_SPEED_BPF_H
#define TW_SPEED_BPF_H

#include "smt.bpf.h"

/* How often a task chooses again that was not the first to claim a CPU. */
#define TW_CLAIMS 4

/* The capacity of the slowest CPU. */
const volatile u32 slowest = TW_CAPACITY_ONE;

/* Whether a CPU is faster than the slowest. */
static bool is_fast(s32 cpu)
{
	return nr_faster && tw_is_faster(capacity_of(cpu), slowest);
}

/* What a CPU is worth to a task of this class that runs there, or would. */
static u32 worth_of(enum tw_class class, s32 cpu)
{
	struct neighbours beside = {};

	if (has_smt)
		beside = neighbours_of(cpu);
	return tw_worth(class, capacity_of(cpu), beside.run, beside.serial);
}

/* A look at a CPU by a task of this class that ran on `prev`. */
struct look_at_place {
	s32 cpu;
	s32 prev;
	u32 class;
	struct tw_place there;
};

/* False if it is none that such a task may choose. */
__noinline bool look_at_place(const struct task_struct *p __arg_trusted,
			      const struct cpumask *idle __arg_trusted,
			      const struct cpumask *online __arg_trusted,
			      struct look_at_place *look __arg_nonnull)
{
	s32 cpu = look->cpu;
	struct tw_place *there = &look->there;

	/* Those that are offline stay marked as idle. */
	there->idle = bpf_cpumask_test_cpu(cpu, idle) && bpf_cpumask_test_cpu(cpu, online);
	there->fast = is_fast(cpu);
	if (!tw_may_choose(look->class, there->idle, there->fast))
		return false;
	there->capacity = capacity_of(cpu);
	there->seat = (struct tw_seat){ .same_cpu = cpu == look->prev, .first = true };
	if (has_smt)
		there->seat = seat_of(p, cpu, look->prev, idle, online);
	there->class = there->idle ? TW_CLASS_KERNEL : class_on(cpu);
	return true;
}

__noinline bool chooses(struct tw_choice *choice __arg_nonnull, enum tw_class class,
			const struct tw_place *there __arg_nonnull)
{
	return tw_chooses(choice, class, there);
}

/*
 * The best CPU for a task of this class that ran on `prev`, and runs there or not, and whether it has to be
 * `taken` from what runs there; or -1.
 */
__noinline s32 choose_place(const struct task_struct *p __arg_trusted, enum tw_class class, s32 prev,
			    bool runs, bool *taken __arg_nonnull)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 i, nr = nr_places < TW_PLACE_SCAN ? nr_places : TW_PLACE_SCAN;
	struct look_at_place look = { .prev = prev, .class = class };
	struct tw_choice choice = {};
	s32 best = -1;

	if (runs) {
		choice.own = capacity_of(prev);
		choice.here = worth_of(class, prev);
	}
	/* Its last CPU comes first: mostly that is the answer. */
	bpf_for(i, !runs && (has_smt || is_fast(prev)) ? 0 : 1, nr + 1) {
		look.cpu = i ? places[(i - 1) & (TW_MAX_CPUS - 1)] : prev;
		if (i && tw_has_chosen(&choice, capacity_of(look.cpu)))
			break;
		if ((i && look.cpu == prev) || !bpf_cpumask_test_cpu(look.cpu, p->cpus_ptr))
			continue;
		if (look_at_place(p, idle, online, &look) && chooses(&choice, class, &look.there))
			best = look.cpu;
	}
	scx_bpf_put_idle_cpumask(idle);
	scx_bpf_put_cpumask(online);
	*taken = best >= 0 && !choice.idle;
	return best;
}

/*
 * The same, claimed if it is idle, so that of all the CPUs whose ticks come at once only one sends its task
 * there; the others choose again.
 */
__noinline s32 find_place(const struct task_struct *p __arg_trusted, enum tw_class class, s32 prev, bool runs,
			  bool *taken __arg_nonnull)
{
	s32 i, cpu;

	*taken = false;
	if (p->nr_cpus_allowed == 1)
		return -1;
	bpf_for(i, 0, TW_CLAIMS) {
		cpu = choose_place(p, class, prev, runs, taken);
		if (cpu < 0 || *taken || scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* When a CPU that is not the fastest last kept its task. */
u64 slower_kept_at;

/* What runs on a CPU that is worth less than `fast`, if it may go there, and its program. */
__noinline bool look_at_slower(s32 cpu, s32 fast, struct tw_task *task __arg_nonnull, u32 *tgid __arg_nonnull)
{
	struct task_struct *running;
	u32 bound_tgid;
	bool found;

	bpf_rcu_read_lock();
	running = running_on(cpu);
	found = running && bpf_cpumask_test_cpu(fast, running->cpus_ptr) &&
		look_at_running(cpu, scx_bpf_now(), task, &bound_tgid);
	*tgid = running ? running->tgid : 0;
	bpf_rcu_read_unlock();
	return found && (!has_smt || tw_is_faster(worth_of(task->class, fast), worth_of(task->class, cpu)));
}

/* Whether a task of a slower CPU takes a faster one over from `running`. */
static bool takes_turn(const struct tw_task *task, u32 tgid, const struct tw_task *running, u32 than)
{
	struct tw_group *group = group_of(tgid), *other = group_of(than);
	s32 more = group && other ? tw_lost_more_there(task, group, running, other, tun()) : 0;

	return tw_takes_turn(task, running, more, tun());
}

/* What a look at slower CPUs found. */
struct call {
	/* How many it looked at, and of those the one whose task goes first, or -1. */
	u32 nr_seen;
	s32 from;
	struct tw_task first;
};

/* One CPU of that look, if it is slower. */
__noinline int look_for_call(s32 cpu, s32 fast, u32 than, const struct tw_task *running __arg_nonnull,
			     struct call *call __arg_nonnull)
{
	struct tw_task task;
	u32 tgid;

	if (!tw_is_faster(capacity_of(fast), capacity_of(cpu)))
		return 0;
	call->nr_seen++;
	if (!look_at_slower(cpu, fast, &task, &tgid) || (than && !takes_turn(&task, tgid, running, than)))
		return 0;
	if (call->from >= 0 && !tw_goes_first(&task, &call->first, tun()))
		return 0;
	call->from = cpu;
	call->first = task;
	return 0;
}

/*
 * Asks the slower CPU whose task goes first for it: in exchange for `running` of program `than`, which has
 * had its turn on this one, or, if that is 0, to have something to do.
 */
__noinline int call_from_slower(s32 fast, u32 than, const struct tw_task *running __arg_nonnull)
{
	u32 i, most = than ? TW_CALL_SCAN : TW_PLACE_SCAN;
	struct cpu_ctx *cctx = cpu_ctx_of(fast);
	struct call call = { .from = -1 };
	s32 at;

	if (!cctx)
		return 0;
	at = next_cpu(cctx->called_last ? (s32)cctx->called_last - 1 : fast);
	bpf_for(i, 0, nr_online) {
		s32 cpu = walk_online(&at);

		look_for_call(cpu, fast, than, running, &call);
		/* The others are for the next look. */
		if (call.nr_seen == most) {
			cctx->called_last = cpu + 1;
			break;
		}
	}
	cctx = cpu_ctx_of(call.from);
	if (call.from < 0 || !cctx)
		return 0;
	cctx->called_to = than ? fast + 1 : 0;
	scx_bpf_kick_cpu(call.from, SCX_KICK_PREEMPT);
	return 0;
}

/* A CPU has nothing to do: if it is a fast one, it gets what runs on a slower one. */
static void pull_from_slower(s32 cpu)
{
	struct tw_task nothing = {};

	if (fault == TW_FAULT_ALOOF)
		return;
	if (is_fast(cpu) && tw_kept_recently(since_ns(slower_kept_at, scx_bpf_now()), longer_look(), tun()))
		call_from_slower(cpu, 0, &nothing);
}

/* A CPU keeps its task. If it is a fast one, that may have had its turn there. */
static void give_turn(s32 cpu, const struct task_struct *p, const struct tw_task *task)
{
	if (capacity_of(cpu) < TW_CAPACITY_ONE)
		slower_kept_at = scx_bpf_now();
	if (is_fast(cpu) && tw_answers_call(task->class) && p->nr_cpus_allowed > 1)
		call_from_slower(cpu, p->tgid, task);
}

/* The faster CPU that asked for what runs here, or -1. */
static s32 take_turn(struct cpu_ctx *cctx)
{
	s32 fast = (s32)cctx->called_to - 1;

	cctx->called_to = 0;
	return fast;
}

/* Notes who has the place of a task that leaves this CPU in exchange. */
static void offer_own(s32 cpu, s32 to)
{
	struct cpu_ctx *there = cpu_ctx_of(to);

	if (there)
		there->swaps_with = cpu + 1;
}

/*
 * A task that was driven off its CPU in exchange goes to the one that its successor left, a slower one
 * mostly, which has nothing else.
 */
static bool swap(struct task_struct *p, struct cpu_ctx *cctx, s32 *to)
{
	*to = (s32)cctx->swaps_with - 1;
	cctx->swaps_with = 0;
	return *to >= 0 && bpf_cpumask_test_cpu(*to, p->cpus_ptr) && may_move(p);
}

#endif /* TW_SPEED_BPF_H */
