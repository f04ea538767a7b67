/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUs that tasks take from what runs there (policy/preempt.h). */
#ifndef TW_PREEMPT_BPF_H
#define TW_PREEMPT_BPF_H

#include "order.bpf.h"

/*
 * Whether a task may take a CPU from what runs there, as far as is cheap to see: by its class, and of two
 * serial ones by whether the turn of that surely goes on and it need not make room. Inlined always: BPF has
 * no calls with more than five arguments.
 */
static __always_inline bool may_take(struct cpu_ctx *cctx, s32 cpu, struct task_struct *p,
				     const struct tw_task *task, bool wakes, u64 now)
{
	struct tw_task there = { .class = TW_CLASS_KERNEL };
	struct task_struct *running;
	u64 here_ns = 0;
	bool answer = false;

	bpf_rcu_read_lock();
	running = running_on(cpu);
	if (running) {
		u32 nr_own = running->tgid == p->tgid ? p->signal->nr_threads : 0;

		there.class = class_of(running);
		here_ns = since_ns(tw_read(&running->sched_info.last_arrival), now);
		answer = tw_may_take(task->class, there.class, wakes, nr_own, tun());
		if (answer && there.class == TW_CLASS_SERIAL && task->class == TW_CLASS_SERIAL)
			answer = !tw_just_came(here_ns, tun()) &&
				 (tw_makes_room(&there, running->nr_cpus_allowed == 1,
						p->nr_cpus_allowed == 1) ||
				  !surely_stays(running, task, now));
	}
	bpf_rcu_read_unlock();
	cctx->stays_until = tw_stays_until(there.class, here_ns, now, tun());
	return answer;
}

/* Whether a task takes a CPU from what runs there. */
enum victim {
	TW_VICTIM_NOT,
	/* What runs there could go nowhere else. */
	TW_VICTIM_BOUND,
	TW_VICTIM,
};

__noinline u32 look_at_victim(s32 cpu, struct task_struct *p __arg_trusted,
			      const struct tw_task *task __arg_nonnull, bool wakes, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct tw_task there;
	u32 only_here = 0;

	if (!cctx || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !may_take(cctx, cpu, p, task, wakes, now) ||
	    !look_at_running(cpu, now, &there, &only_here))
		return TW_VICTIM_NOT;
	if (!tw_turns_out(&there, only_here, p->nr_cpus_allowed == 1, tun()) && !preempts(task, &there))
		return TW_VICTIM_NOT;
	return only_here ? TW_VICTIM_BOUND : TW_VICTIM;
}

/* The same where it is not known already that none there is to be had. */
static u32 victim_at(s32 cpu, struct task_struct *p, const struct tw_task *task, bool wakes, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (!cctx || tw_passed_over(task->class, cctx->stays_until, nr_parallel, now))
		return TW_VICTIM_NOT;
	return look_at_victim(cpu, p, task, wakes, now);
}

/* When the first CPU is to be had again, as they were last looked at, by whomever. */
static u64 first_to_go(void)
{
	s32 at = next_cpu(0);
	u64 first = 0;
	u32 i;

	bpf_for(i, 0, nr_online) {
		struct cpu_ctx *cctx = cpu_ctx_of(walk_online(&at));

		if (cctx && (!i || (s64)(cctx->stays_until - first) < 0))
			first = cctx->stays_until;
	}
	return first;
}

/*
 * The CPU whose running task a serial task takes over, or -1. The one that it ran on before comes
 * first: its cache is warm, and mostly it is the answer. Tasks that could go nowhere else come last.
 */
static s32 find_victim(struct task_struct *p, const struct tw_task *task, bool wakes, s32 prev_cpu, u64 now)
{
	u32 i, victim,
		nr = tw_victim_scan(task->class, p->nr_cpus_allowed > 1 && may_move(p) ? nr_online : 1);
	s32 bound, at = next_cpu(prev_cpu);

	if (tw_passed_over(task->class, all_stay_until, nr_parallel, now))
		return -1;
	victim = victim_at(prev_cpu, p, task, wakes, now);
	bound = victim == TW_VICTIM_BOUND ? prev_cpu : -1;
	/* A loop that does not run is still dear. */
	if (victim == TW_VICTIM || nr == 1)
		return victim ? prev_cpu : -1;
	bpf_for(i, 1, nr) {
		s32 cpu = walk_online(&at);

		victim = victim_at(cpu, p, task, wakes, now);
		if (victim == TW_VICTIM)
			return cpu;
		if (victim && bound < 0)
			bound = cpu;
	}
	if (bound < 0 && nr == nr_online)
		all_stay_until = first_to_go();
	return bound;
}

#endif /* TW_PREEMPT_BPF_H */
