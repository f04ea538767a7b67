/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks as the ordering sees them (struct tw_task), their vtime up to date, and how the policy compares them.
 */
#ifndef TW_ORDER_BPF_H
#define TW_ORDER_BPF_H

#include "state.bpf.h"

/* TW_FAULT_STARVE. */
static void starve(const struct task_struct *p, struct tw_task *task)
{
	if (fault == TW_FAULT_STARVE && p->nr_cpus_allowed == 1 && task->class != TW_CLASS_KERNEL) {
		task->class = TW_CLASS_PARALLEL;
		task->vtime += TW_STARVED_NS;
		task->waits_us = 0;
	}
}

/* A look at a task. */
struct look {
	/* The clock, which is not read again for each thing that is asked. */
	u64 now;
	/* What it ran and the kernel has not accounted for yet. */
	u64 ahead_ns;
	/* Whether it wakes up. */
	bool waking;
};

/*
 * From when on counts what a task ran since it was charged, if that is not all of it. One that found an idle
 * CPU when it woke up has not been looked at then: that it slept shows in the number of its voluntary
 * switches, since when it runs in the kernel's sched_info, and that its program's phase began in the group.
 */
static void find_origin(const struct task_struct *p, const struct task_ctx *tctx,
			const struct tw_group *group, const struct look *look, struct tw_run *run)
{
	bool slept = look->waking || p->nvcsw != tctx->nr_sleeps;
	u64 ready_ns;

	if (!slept && group->began == tctx->phase)
		return;
	ready_ns = look->waking ? 0 : since_ns(p->sched_info.last_arrival, look->now);
	tw_find_origin(run, group, tctx->phase, ready_ns, slept, look->now, tunables.serial_threshold);
}

/* Parallel tasks that may run on one CPU only leave word there; whether a serial one goes by its vtime. */
__noinline bool goes_unboosted_bound(const struct task_struct *p __arg_trusted, u32 class, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(scx_bpf_task_cpu(p));
	u32 nr_threads;
	u64 at, ago_ns;
	bool answer;

	if (!cctx || class == TW_CLASS_KERNEL)
		return false;
	if (class != TW_CLASS_SERIAL) {
		cctx->bound_parallel_at = now;
		return false;
	}
	at = tw_read(&cctx->bound_parallel_at);
	if (!at)
		return false;
	nr_threads = p->signal->nr_threads;
	ago_ns = since_ns(at, now);
	answer = tw_goes_unboosted(nr_threads, ago_ns, tun());
	record(TW_DECISION_UNBOOSTED, answer, nr_threads, ago_ns);
	return answer;
}

/* Whether a task of this class goes by its vtime although it is serial. */
static bool goes_unboosted(const struct task_struct *p, u32 class, u64 now)
{
	return p->nr_cpus_allowed == 1 && goes_unboosted_bound(p, class, now);
}

/* How far a task of this class runs ahead of one that waits, so long after its program's phase began. */
__noinline u32 step_after(u32 class, u64 age_ns)
{
	u64 look_ns = look_takes_ns, step_ns = tw_step(class, age_ns, look_ns, tun());

	record(TW_DECISION_STEP, step_ns, class, age_ns, look_ns);
	return step_ns;
}

static u32 step_of(enum tw_class class, const struct tw_group *group, u64 now)
{
	if (!tw_steps_age(class))
		return tw_step(class, 0, 0, tun());
	return step_after(class, group ? tw_phase_age_ns(group, now) : 0);
}

/* A step at the beginning of a phase. */
static u32 shortest_step(void)
{
	return step_after(TW_CLASS_SENIOR, 0);
}

/*
 * Not static, or the verifier follows each of its paths with each way that its caller came: enqueue alone
 * took 58,000 instructions in place of 12,000.
 */
__noinline u64 advance(u64 vtime, const struct tw_run *run __arg_nonnull, u64 now, u32 class)
{
	u64 advanced = tw_vtime_advance(vtime, run, now, class, tun());

	record(TW_DECISION_ADVANCE, advanced, vtime, run->before_ns, run->since_ns, run->weight,
	       run->capacity, run->nr_waiting, run->boost_left, run->origin, run->unboosted, run->others_wait,
	       now, class);
	return advanced;
}

/* What a task weighs among those that run. */
static u32 weight_of(const struct task_struct *p, const struct membership *in)
{
	return tw_weight_among(own_weight_of(p, in), crowd.mean_weight);
}

/* By what weight a task is charged. */
static u32 charged_weight(const struct task_struct *p, const struct task_ctx *tctx)
{
	return fault == TW_FAULT_WEIGHTLESS ? TW_WEIGHT_ONE : weight_of(p, &tctx->in);
}

/* What a task is, and its vtime up to date. Whether it has no boost although it is serial. */
__noinline bool look_at(struct task_struct *p __arg_trusted, const struct task_ctx *tctx __arg_nonnull,
			const struct look *look __arg_nonnull, struct tw_task *task __arg_nonnull)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct tw_group *group = group_of(p->tgid);
	/* The task's CPU may be charging it. Read in this order, what it ran is not negative, and counts
	 * twice rather than never. */
	u64 charged_ns = tw_read(&tctx->charged_ns), vtime = tw_read(&tctx->vtime), now = vtime_now;
	u64 ran_ns = tw_read(&p->se.sum_exec_runtime) + look->ahead_ns - charged_ns;
	struct tw_run run = {
		.since_ns = ran_ns,
		.weight = charged_weight(p, tctx),
		.capacity = capacity_of(cpu),
		.nr_waiting = nr_waiting_at(cpu),
		.boost_left = crowd.boost_left,
		.others_wait = tasks_wait,
	};

	task->class = class_beside(p, group ? tw_read(&group->nr_ready) : 0);
	run.unboosted = goes_unboosted(p, task->class, look->now);
	if (group)
		find_origin(p, tctx, group, look, &run);
	if (group && run.origin == TW_ORIGIN_PHASE)
		vtime = tw_unstamp(group->base, now);
	task->nr_waiting = run.nr_waiting;
	task->boost_left = run.unboosted ? 0 : run.boost_left;
	task->here_ns = task->class == TW_CLASS_SERIAL && !look->waking ?
				tw_here_ns(since_ns(tw_read(&p->sched_info.last_arrival), look->now)) :
				0;
	task->waits_us = 0;
	task->step_ns = step_of(task->class, group, look->now);
	task->vtime = advance(vtime, &run, now, task->class);
	starve(p, task);
	return run.unboosted;
}

/*
 * A task was found running, and was looked at; its vtime is still that of when it was last charged. Inlined
 * never: what this needs of the stack would be there while the task is looked at.
 */
__noinline int move_clock(const struct task_struct *p __arg_trusted,
			  const struct task_ctx *tctx __arg_nonnull, const struct tw_task *task __arg_nonnull,
			  u64 ran_ns, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(bpf_get_smp_processor_id());
	struct tw_task picked = {
		.vtime = tctx->vtime,
		.class = task->class,
		.nr_waiting = task->nr_waiting,
		.boost_left = task->boost_left,
	};
	bool others_wait = tasks_wait;
	u32 own_weight = own_weight_of(p, &tctx->in), weight = tw_weight_among(own_weight, crowd.mean_weight);
	u64 clock = vtime_now, light_ago_ns = tw_is_light(weight) ? since_ns(light_at, now) : 0;
	u64 moved = tw_clock(clock, &picked, weight, light_ago_ns, others_wait, tun());

	record(TW_DECISION_CLOCK, moved, clock, task_in(&picked), weight, light_ago_ns, others_wait);
	if (moved != clock) {
		vtime_now = moved;
		if (light_ago_ns)
			light_at = now;
	}
	if (cctx && tw_is_beside_others(&picked, others_wait)) {
		cctx->beside_ns += ran_ns;
		cctx->weighed_ns += tw_weighed_ns(own_weight, ran_ns);
	}
	return 0;
}

/* The key of a task in a CPU's queue. It goes by a copy: the timer may make keys anew at any moment. */
static u64 key_in(const struct tw_keys *queue, const struct tw_task *task, bool unboosted)
{
	struct tw_keys keys = *queue;
	u64 key = tw_key_in(&keys, task, unboosted, tun());

	record(TW_DECISION_KEY_IN, key, task_in(task), keys.nr_waiting, keys.boost_left, unboosted);
	return key;
}

__noinline bool goes_first(const struct tw_task *task __arg_nonnull,
			   const struct tw_task *other __arg_nonnull)
{
	bool answer = tw_goes_first(task, other, tun());

	record(TW_DECISION_GOES_FIRST, answer, task_in(task), task_in(other));
	return answer;
}

__noinline bool preempts(const struct tw_task *waking __arg_nonnull,
			 const struct tw_task *running __arg_nonnull)
{
	bool answer = tw_preempts(waking, running, tun());

	record(TW_DECISION_PREEMPTS, answer, task_in(waking), task_in(running));
	return answer;
}

__noinline u64 makes_way_in(struct tw_task *running __arg_nonnull,
			    const struct tw_task *waiting __arg_nonnull,
			    const struct tw_beside *beside __arg_nonnull)
{
	u64 answer, step_ns = running->step_ns;

	answer = tw_makes_way_in(running, waiting, beside, tun());
	record(TW_DECISION_MAKES_WAY, answer, running->vtime, running->here_ns, running->class,
	       running->nr_waiting, running->boost_left, running->waits_us, step_ns, task_in(waiting),
	       beside->running_bound | beside->waiting_bound << 1 | beside->of_one_program << 2);
	return answer;
}

static u64 vtime_seen(const struct tw_task *theirs, const struct tw_task *mine, bool waits_here, bool across)
{
	u64 vtime = tw_vtime_seen(theirs, waits_here ? mine : NULL, across, tun());

	record(TW_DECISION_SEEN, vtime, task_in(theirs), task_in(mine), waits_here, across);
	return vtime;
}

static bool makes_room(const struct tw_task *running, bool running_is_bound, bool waiting_is_bound)
{
	bool answer = tw_makes_room(running, running_is_bound, waiting_is_bound);

	record(TW_DECISION_MAKES_ROOM, answer, task_in(running), running_is_bound, waiting_is_bound);
	return answer;
}

/* A task beside so many that wait, with its vtime as last charged: what its key goes by, without its step.
 * Whether it has no boost although it is serial. */
__noinline bool look_at_charged(struct task_struct *p __arg_trusted,
				const struct task_ctx *tctx __arg_nonnull, u32 nr_waiting, u64 now,
				struct tw_task *task __arg_nonnull)
{
	struct tw_group *group = group_of(p->tgid);
	bool unboosted;

	task->vtime = tw_read(&tctx->vtime);
	task->class = class_beside(p, group ? tw_read(&group->nr_ready) : 0);
	unboosted = goes_unboosted(p, task->class, now);
	task->step_ns = 0;
	task->nr_waiting = nr_waiting;
	task->boost_left = unboosted ? 0 : crowd.boost_left;
	task->here_ns = 0;
	task->waits_us = fault == TW_FAULT_PATIENT ? 0 : tw_waits_us(waits_ns(p, tctx, now));
	starve(p, task);
	return unboosted;
}

/* What runs on a CPU as far as it is ours: NULL if that is idle, or of a class above. */
static struct task_struct *running_on(s32 cpu)
{
	/* What runs here is at hand. */
	struct task_struct *running = cpu == (s32)bpf_get_smp_processor_id() ? bpf_get_current_task_btf() :
									       __COMPAT_scx_bpf_cpu_curr(cpu);

	/* RT and deadline tasks have priorities below 100. */
	return running && running->pid && running->prio >= 100 && (!partial || running->policy == SCHED_EXT) ?
		       running :
		       NULL;
}

/* The class of what runs on a CPU; that of kernel threads if nothing does that others could take it from. */
__noinline u32 class_on(s32 cpu)
{
	enum tw_class class = TW_CLASS_KERNEL;
	struct task_struct *running;

	bpf_rcu_read_lock();
	running = running_on(cpu);
	if (running)
		class = class_of(running);
	bpf_rcu_read_unlock();
	return class;
}

/* What a CPU's interrupts and its hypervisor took, where the kernel is built not to account it to tasks. */
static u64 interrupted_ns(s32 cpu)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	u64 task_ns;

	if (!rq)
		return 0;
	/* Read in this order, an update between the two makes what runs there look younger, not older. */
	task_ns = tw_read(&rq->clock_task);
	return tw_read(&rq->clock) - task_ns;
}

/* What runs on a CPU ran since the kernel last accounted for it. exec_start is that CPU's clock, without what
 * its interrupts took since the machine was booted. */
static u64 not_accounted_ns(const struct task_struct *p, s32 cpu, u64 now)
{
	return since_ns(tw_read(&p->se.exec_start), now - interrupted_ns(cpu));
}

/*
 * The position of what runs on a CPU, with what it ran since the kernel last accounted for it; and its
 * program if it may run only there, or 0.
 */
static bool look_at_running(s32 cpu, u64 now, struct tw_task *task, u32 *bound_tgid)
{
	struct task_struct *p = running_on(cpu);
	struct task_ctx *tctx = p ? bpf_task_storage_get(&task_ctxs, p, 0, 0) : NULL;
	struct look look = { .now = now };

	if (!p || !tctx)
		return false;
	look.ahead_ns = not_accounted_ns(p, cpu, now);
	look_at(p, tctx, &look, task);
	*bound_tgid = p->nr_cpus_allowed == 1 ? p->tgid : 0;
	return true;
}

/* Whether a serial task that runs goes on beside one that woke up, as shows without a look at it. */
static bool surely_stays(struct task_struct *p, const struct tw_task *waking, u64 now)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	struct tw_task at_most = { .class = TW_CLASS_SERIAL };
	struct tw_run run = {};
	u64 vtime, charged_ns, ahead_ns;
	bool answer;

	if (!tctx)
		return true;
	/* Read in this order, what changes meanwhile counts twice. */
	charged_ns = tw_read(&tctx->charged_ns);
	vtime = tw_read(&tctx->vtime);
	ahead_ns = not_accounted_ns(p, scx_bpf_task_cpu(p), now);
	run.since_ns = tw_read(&p->se.sum_exec_runtime) - charged_ns + ahead_ns;
	run.weight = charged_weight(p, tctx);
	run.capacity = capacity_of(scx_bpf_task_cpu(p));
	at_most.vtime = tw_vtime_most(vtime, &run, vtime_now);
	at_most.here_ns = tw_here_ns(since_ns(tw_read(&p->sched_info.last_arrival), now));
	answer = tw_surely_stays(&at_most, waking, tun());
	record(TW_DECISION_SURELY_STAYS, answer, task_in(&at_most), task_in(waking));
	return answer;
}

#endif /* TW_ORDER_BPF_H */
