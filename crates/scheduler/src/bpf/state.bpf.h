/* SPDX-License-Identifier: GPL-2.0-only */
/* What the hooks know of programs, tasks and CPUs, and how they ask the policy about them. */
#ifndef TW_STATE_BPF_H
#define TW_STATE_BPF_H

#include "cgroups.bpf.h"

/* No runnable task waits longer than this, or the kernel throws the scheduler out. Its maximum is 30 s. */
#define WATCHDOG_MS 10000

/* How far back TW_FAULT_STARVE puts a task: beyond the watchdog. */
#define TW_STARVED_NS (1000ULL * 1000 * WATCHDOG_MS * 2)

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* include/uapi/linux/sched.h */
#define SCHED_EXT 7

const volatile u32 nr_cpus = 1;
/* Whether any two CPUs share a core. */
const volatile bool has_smt = false;
/* Whether packages are spread over or filled (spread.bpf.h). */
const volatile bool has_mode = false;
/* Whether programs are at home behind one of several last-level caches (home.bpf.h). */
const volatile bool has_homes = false;
/* By what programs run one after the other, if they do (alternation.bpf.h). */
const volatile u32 alternate = TW_ALTERNATE_OFF;
/* Whether only tasks that ask for SCHED_EXT are ours. */
const volatile bool partial = false;
const volatile u32 fault = TW_FAULT_NONE;
/* CPUs that were offline and came: the loader opens their counters again (pairing.rs), or starts anew
 * (newcomers.rs). */
bool came_online[TW_MAX_CPUS];
/* Set by the loader: no fault strikes while it still attaches. */
bool attached;
const volatile struct tw_tunables tunables = {};
/* Whether every decision goes into the ring buffer. When not, the verifier removes the code. */
const volatile bool recording = false;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16384);
} decisions SEC(".maps");

#include "clock.bpf.h"
#include "programs.bpf.h"
#include "share.bpf.h"
#include "queues.bpf.h"

/* A decision that finds the buffer full is dropped: nobody waits for a reader. It is written in place: stacks
 * are small. */
#define record(_kind, _out, ...)                                                                             \
	do {                                                                                                 \
		struct tw_decision *d = recording ? bpf_ringbuf_reserve(&decisions, sizeof(*d), 0) : NULL;   \
		if (d) {                                                                                     \
			*d = (struct tw_decision){ .kind = _kind, .in = { __VA_ARGS__ }, .out = _out };      \
			bpf_ringbuf_submit(d, 0);                                                            \
		}                                                                                            \
	} while (0)

/* A task among the arguments of a decision. */
#define task_in(task)                                                                                        \
	(task)->vtime, (task)->here_ns, (task)->class, (task)->nr_waiting, (task)->boost_left,               \
		(task)->waits_us, (task)->step_ns

/*
 * The thread groups, indexed by tgid: nothing to allocate, nothing to leak, one bounds check.
 * The loader sizes it by kernel.pid_max (64 MiB at the limit of 4 million ids).
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tw_group);
} groups SEC(".maps");

/* What a task's vtime needs beyond the kernel's own accounting. */
struct task_ctx {
	u64 vtime;
	/* se.sum_exec_runtime and nvcsw up to which vtime is charged. */
	u64 charged_ns;
	u64 nr_sleeps;
	/* sched_info.run_delay, up to which its program was told that it waited; and how much of its present
	 * wait it was told. */
	u64 waited_ns;
	u64 told_ns;
	/* When it was put into a queue after it ran. */
	u64 waits_since;
	/* The parallel phase of its program in which it was last charged. */
	u32 phase;
	/* The better CPU that it leaves its own for, plus one, and whether that has to be taken. */
	u32 leaves_for;
	bool takes;
	/* Whether its thread group counts it as ready. */
	bool ready;
	/* Whether it is new, or woke up since it ran. */
	bool woke;
	/* Its cgroup. */
	struct membership in;
	/* The CPU that it last ran on, plus one, where programs are told apart (migrations.bpf.h). */
	u16 ran_on;
	/* What it needs of a last-level cache, as counters tell (pairing.bpf.h). */
	struct tw_need need;
	/* How long it stays behind one after it changed places. */
	struct tw_rest rest;
	/* With whose memory it shares its own (share.bpf.h). */
	struct shared shared;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct cpu_ctx {
	/* At most so many tasks wait in its queue, unless it is 0 (took_own()). */
	u32 queued_most;
	/* Where the next look for a task to balance starts. */
	u32 cursor;
	/* The CPU that wants what runs here, plus one, a faster one mostly; and the one that has it in
	 * exchange. */
	u32 called_to;
	u32 swaps_with;
	/* Where its look at slower CPUs goes on, counted from itself. */
	u32 call_cursor;
	/* The CPU to whose queue it was sent or woken for, plus one (rotation.bpf.h). */
	u32 sent_to;
	/* Up to which hand-over of seniority its queue was put in order (rotation.bpf.h). */
	u32 sorted_for;
	/* When its task was last looked at for an exchange with that of another cache (exchange.bpf.h). */
	u64 exchange_looked_at;
	/* When an idle core was last looked for in vain that the kernel may have lost (smt.bpf.h). */
	u64 no_core_at;
	/* For how long serial tasks were ready that were charged here (crowd.bpf.h). */
	u64 serial_ns;
	/* For how long tasks ran here that were beside others, and what they weighed (crowd.bpf.h). */
	u64 beside_ns;
	u64 weighed_ns;
	/* When a parallel task was last seen ready that may run here only, or 0. */
	u64 bound_parallel_at;
	u64 stats[TW_NR_STATS];
} __attribute__((aligned(64)));

struct cpu_ctx cpu_ctxs[TW_MAX_CPUS];

/*
 * The current vtime (tw_clock). Racy by design: two CPUs that write at once lose one of the two values,
 * and the next charge makes up for it.
 */
u64 vtime_now;

/* When it last followed a light task. As racy. */
u64 light_at;

/* What tasks that run beside others weigh on the mean, in 65536ths (crowd.bpf.h). */
u32 mean_weight = TW_WEIGHT_ONE << 16;

/* Whether tasks wait anywhere, as far as is known (rotation.bpf.h). */
bool tasks_wait;

/* What a look of the timer takes on the mean (rotation.bpf.h), and that of a CPU at faster ones, which does
 * without locks: two CPUs that write at once lose one of two values that are much alike. */
u64 look_takes_ns;
u64 cpu_look_takes_ns;

/* What serial tasks leave of boosts (crowd.bpf.h). */
u32 boost_left = TW_BOOST_WHOLE;

static struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	return ARRAY_ELEM_PTR(cpu_ctxs, cpu, TW_MAX_CPUS);
}

static void count(struct cpu_ctx *cctx, enum tw_stat stat)
{
	cctx->stats[stat]++;
}

/* Where the CPU at hand is not. */
static void count_here(enum tw_stat stat)
{
	struct cpu_ctx *cctx = cpu_ctx_of(bpf_get_smp_processor_id());

	if (cctx)
		count(cctx, stat);
}

static struct tw_group *group_of(u32 tgid)
{
	return bpf_map_lookup_elem(&groups, &tgid);
}

static u32 nr_ready_of(u32 tgid)
{
	struct tw_group *group = group_of(tgid);

	return group ? tw_read(&group->nr_ready) : 0;
}

/* The parallel program that goes before the others, or 0; and what it had lost when it became that, or the
 * last one. */
u32 senior_tgid;
u32 senior_lost;
/* And since when it is. */
u64 senior_since;

/* How often another program became senior than that which was it last. */
u32 nr_handovers;
u32 last_senior_tgid;

/* Whether there are several last-level caches that are told apart, and that of each CPU. */
const volatile bool has_caches = false;
const volatile u8 llc_of[TW_MAX_CPUS];

static u32 llc_at(s32 cpu)
{
	return llc_of[cpu & (TW_MAX_CPUS - 1)] & (TW_DOMAINS - 1);
}

/*
 * Ready threads are counted where they are seen anyway: in select_cpu(), and, for those that it is not asked
 * about, when a task is charged. The kernel would call ops.runnable() for each, but that costs every wake-up
 * 140 instructions, which whoever waits for the woken task waits for too. So a few are counted late; the flag
 * says who is, so that each is counted once, and taken off once. It changes under the task's rq lock, or
 * before the task has one.
 */
static void count_ready(const struct task_struct *p, struct task_ctx *tctx)
{
	struct tw_group *group = tctx->ready ? NULL : group_of(p->tgid);
	u32 nr_ready;

	if (!group)
		return;
	tctx->ready = true;
	if (nr_shares)
		count_in_share(&tctx->shared, llc_at(scx_bpf_task_cpu(p)));
	nr_ready = tw_ready_add(group);
	if (tw_phase_began(nr_ready, tunables.serial_threshold))
		tw_phase_begin(group, clock_now(), vtime_now, senior_lost);
	note_ready(p, nr_ready - 1, nr_ready);
}

/* Whether the parallel phase of its program ends thereby. */
static bool uncount_ready(const struct task_struct *p, struct task_ctx *tctx)
{
	struct tw_group *group = tctx->ready ? group_of(p->tgid) : NULL;
	u32 nr_ready;
	bool ended;

	if (!group)
		return false;
	tctx->ready = false;
	if (nr_shares)
		uncount_in_share(&tctx->shared);
	nr_ready = tw_ready_sub(group);
	ended = tw_phase_ended(nr_ready, tunables.serial_threshold);
	/* Another may have become senior in between. */
	if (ended && senior_tgid == p->tgid)
		__sync_val_compare_and_swap(&senior_tgid, (u32)p->tgid, 0);
	note_ready(p, nr_ready + 1, nr_ready);
	return ended;
}

static bool is_counted(const struct task_struct *p)
{
	return is_told(p) || nr_shares || tw_is_counted(p->signal->nr_threads, tunables.serial_threshold);
}

static void count_waking(struct task_struct *p)
{
	struct task_ctx *tctx = is_counted(p) ? bpf_task_storage_get(&task_ctxs, p, 0, 0) : NULL;

	if (tctx) {
		look_at_share(p, &tctx->shared);
		count_ready(p, tctx);
	}
}

/*
 * A new thread wakes up. The one that made it runs here, and is not counted yet if its program had too few
 * threads until now.
 */
static void count_maker(const struct task_struct *p)
{
	struct task_struct *maker = bpf_get_current_task_btf();

	if (maker->tgid == p->tgid && (maker->scx.flags & SCX_TASK_QUEUED))
		count_waking(maker);
}

/*
 * The CPUs among which a task looks for a better one than its own, the fastest first: those that are faster
 * than the slowest, nr_faster, and where they share cores too all others behind them.
 */
const volatile u32 nr_faster = 0;
const volatile u32 nr_places = 0;
const volatile u16 places[TW_MAX_CPUS];

static bool is_bound_kernel_thread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/*
 * The tunables without their volatile. The barrier keeps the compiler from seeing where the pointer
 * leads, and so from taking the initial zeroes for the values; the verifier sees the real ones.
 */
static const struct tw_tunables *tun(void)
{
	const struct tw_tunables *t = (const struct tw_tunables *)&tunables;

	barrier_var(t);
	return t;
}

/* Whether a task may gain by going to another CPU although its own has nobody else. */
static bool cpus_differ(void)
{
	return nr_faster || has_smt || has_mode || alternate;
}

static u64 longer_look(void)
{
	return tw_longer_look(look_takes_ns, cpu_look_takes_ns);
}

/*
 * The slice of a task for which no other has to wait. Where CPUs differ, a faster one may become idle; a
 * whole core is worth less, and asking for it at each tick cost 2 % where all hardware threads are busy.
 */
static u64 free_slice(void)
{
	return tw_slice(tasks_wait || nr_faster, longer_look(), tun());
}

/*
 * Functions that are not static the verifier looks at once, for all arguments and results, not anew with
 * every state of their callers. With all of them static, loading took four times as long.
 */
__noinline u32 class_among(u32 nr_ready, bool bound, bool senior)
{
	enum tw_class class = tw_class_of(nr_ready, bound, senior, tun());

	record(TW_DECISION_CLASS, class, nr_ready, bound, senior);
	return class;
}

/* The class of a task whose thread group has so many ready threads. */
static enum tw_class class_beside(const struct task_struct *p, u32 nr_ready)
{
	return class_among(nr_ready, is_bound_kernel_thread(p), p->tgid == senior_tgid);
}

static enum tw_class class_of(const struct task_struct *p)
{
	return class_beside(p, nr_ready_of(p->tgid));
}

/* The capacity of each CPU, 1024 for the fastest. */
const volatile u32 capacities[TW_MAX_CPUS];

static u32 capacity_of(s32 cpu)
{
	return capacities[cpu & (TW_MAX_CPUS - 1)];
}

/* Whether a task that goes from one of these CPUs to the other leaves what it has in the cache behind. */
static bool is_across(s32 cpu, s32 other)
{
	return has_caches && llc_at(cpu) != llc_at(other);
}

/*
 * How often the kernel itself disables migration for the task under which a hook runs: not at all or once, as
 * it is built. An idle task never does so itself, so it tells; until one is seen nobody is sent away.
 */
static s32 nr_disabled_here;

static void learn_disabled(void)
{
	const struct task_struct *current = bpf_get_current_task_btf();

	if (!current->pid)
		nr_disabled_here = current->migration_disabled;
}

/* Whether a task may be sent to another CPU now. Sending one that may not ends the scheduler. */
static bool may_move(const struct task_struct *p)
{
	const struct task_struct *current = bpf_get_current_task_btf();

	return p->migration_disabled <= (p->pid == current->pid ? nr_disabled_here : 0);
}

/* TW_FAULT_STARVE. */
static void starve(const struct task_struct *p, struct tw_task *task)
{
	if (fault == TW_FAULT_STARVE && p->nr_cpus_allowed == 1 && task->class != TW_CLASS_KERNEL) {
		task->class = TW_CLASS_PARALLEL;
		task->vtime += TW_STARVED_NS;
		task->waits_us = 0;
	}
}

/* How long ago this was, on a CPU that may have its own clock. */
static u64 since_ns(u64 then_ns, u64 now)
{
	s64 ago_ns = (s64)(now - then_ns);

	return ago_ns > 0 ? (u64)ago_ns : 0;
}

/* A look that began then is over. */
static void note_look(u64 *takes_ns, u64 began)
{
	*takes_ns = tw_look_takes(*takes_ns, since_ns(began, bpf_ktime_get_ns()));
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
	u64 ready_ns, ran_ns = run->since_ns;

	if (!slept && group->began == tctx->phase)
		return;
	ready_ns = look->waking ? 0 : since_ns(p->sched_info.last_arrival, look->now);
	if (tw_starts_with_phase(group, tctx->phase, ready_ns, look->now, tunables.serial_threshold)) {
		run->origin = TW_ORIGIN_PHASE;
		ready_ns = tw_least(ready_ns, tw_phase_age_ns(group, look->now));
	} else if (slept) {
		run->origin = TW_ORIGIN_WAKING;
	} else {
		return;
	}
	run->since_ns = tw_least(ready_ns, ran_ns);
	run->before_ns = ran_ns - run->since_ns;
}

/*
 * How long a waiting task has been waiting. The kernel does not know of one that was preempted as it was
 * about to sleep (sched_info_depart(), kernel/sched/stats.h).
 */
static u64 waits_ns(const struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	u64 queued_ns = tw_read(&p->sched_info.last_queued);

	return since_ns(queued_ns ? queued_ns : tw_read(&tctx->waits_since), now);
}

/* Whether a waiting task goes to an idle CPU behind another last-level cache than that of its own. */
static bool leaves_cache(struct task_struct *p, u64 now)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	return !tctx || tw_leaves_cache(tctx->woke, waits_ns(p, tctx, now));
}

/* There are idle CPUs, but none to which a task goes yet. */
#define TW_IDLE_LATER (-2)

/* Whether no CPU is idle, as mostly under load: each search of the kernel's for one takes several looks then.
 */
static bool none_is_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool none = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return none;
}

/* Claims one of these idle CPUs for a task, behind the same last-level cache as `cpu`, or -1. */
static s32 claim_among(const struct task_struct *p, s32 cpu, const struct cpumask *idle)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 near = (cpu + i) % nr_cpus;

		if (!is_across(cpu, near) && bpf_cpumask_test_cpu(near, idle) &&
		    bpf_cpumask_test_cpu(near, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(near))
			return near;
	}
	return -1;
}

/* Claims an idle CPU for a task that lost its own or waits for it, or -1 or TW_IDLE_LATER: first one behind
 * the same last-level cache. */
__noinline s32 claim_near(struct task_struct *p __arg_trusted, s32 cpu, u64 now)
{
	const struct cpumask *mask;
	s32 claimed = -1;
	bool any;

	bpf_rcu_read_lock();
	mask = scx_bpf_get_idle_cpumask();
	any = bpf_cpumask_intersects(mask, p->cpus_ptr);
	scx_bpf_put_idle_cpumask(mask);
	if (any) {
		/* The idle CPUs of idle cores first, which without shared cores are all. */
		mask = scx_bpf_get_idle_smtmask();
		claimed = claim_among(p, cpu, mask);
		scx_bpf_put_idle_cpumask(mask);
		if (claimed < 0 && has_smt) {
			mask = scx_bpf_get_idle_cpumask();
			claimed = claim_among(p, cpu, mask);
			scx_bpf_put_idle_cpumask(mask);
		}
		if (claimed < 0)
			claimed =
				leaves_cache(p, now) ? scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) : TW_IDLE_LATER;
	}
	bpf_rcu_read_unlock();
	return claimed;
}

/* The same, where there may be one last-level cache only. */
static s32 claim_any(struct task_struct *p, u64 now)
{
	if (has_caches)
		return claim_near(p, scx_bpf_task_cpu(p), now);
	return has_smt && none_is_idle() ? -1 : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
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
	return tw_weight_among(own_weight_of(p, in), mean_weight);
}

/* By what weight a task is charged. */
static u32 charged_weight(const struct task_struct *p, const struct task_ctx *tctx)
{
	return fault == TW_FAULT_WEIGHTLESS ? TW_WEIGHT_ONE : weight_of(p, &tctx->in);
}

/* What a task is, and its vtime up to date. */
__noinline int look_at(struct task_struct *p __arg_trusted, const struct task_ctx *tctx __arg_nonnull,
		       const struct look *look __arg_nonnull, struct tw_task *task __arg_nonnull)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct tw_group *group = group_of(p->tgid);
	/* The task's CPU may be charging it. Read in this order, what it ran is not negative. */
	u64 vtime = tw_read(&tctx->vtime), charged_ns = tw_read(&tctx->charged_ns), now = vtime_now;
	u64 ran_ns = tw_read(&p->se.sum_exec_runtime) + look->ahead_ns - charged_ns;
	struct tw_run run = {
		.since_ns = ran_ns,
		.weight = charged_weight(p, tctx),
		.capacity = capacity_of(cpu),
		.nr_waiting = nr_waiting_at(cpu),
		.boost_left = boost_left,
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
	return 0;
}

/* A task of this weight was found running that was picked as this, and ran for so long since. */
static void move_clock(struct cpu_ctx *cctx, const struct tw_task *picked, u32 own_weight, u64 ran_ns,
		       u64 now)
{
	bool others_wait = tasks_wait;
	u32 weight = tw_weight_among(own_weight, mean_weight);
	u64 clock = vtime_now, light_ago_ns = tw_is_light(weight) ? since_ns(light_at, now) : 0;
	u64 moved = tw_clock(clock, picked, weight, light_ago_ns, others_wait, tun());

	record(TW_DECISION_CLOCK, moved, clock, task_in(picked), weight, light_ago_ns, others_wait);
	if (moved != clock) {
		vtime_now = moved;
		if (light_ago_ns)
			light_at = now;
	}
	if (cctx && tw_is_beside_others(picked, others_wait)) {
		cctx->beside_ns += ran_ns;
		cctx->weighed_ns += tw_weighed_ns(own_weight, ran_ns);
	}
}

static u64 key_of(const struct tw_task *task)
{
	u64 key = tw_key(task, tun());

	record(TW_DECISION_KEY, key, task_in(task));
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

__noinline u64 due_in(const struct tw_task *running __arg_nonnull,
		      const struct tw_task *waiting __arg_nonnull)
{
	u64 answer = tw_due_in(running, waiting, tun());

	record(TW_DECISION_DUE_IN, answer, task_in(running), task_in(waiting));
	return answer;
}

static u64 vtime_elsewhere(const struct tw_task *theirs, const struct tw_task *mine)
{
	u64 vtime = tw_vtime_elsewhere(theirs, mine);

	record(TW_DECISION_ELSEWHERE, vtime, task_in(theirs), task_in(mine));
	return vtime;
}

static bool makes_room(const struct tw_task *running, bool running_is_bound, bool waiting_is_bound)
{
	bool answer = tw_makes_room(running, running_is_bound, waiting_is_bound);

	record(TW_DECISION_MAKES_ROOM, answer, task_in(running), running_is_bound, waiting_is_bound);
	return answer;
}

/* A task beside so many that wait, with its vtime as last charged: what its key goes by, without its step. */
__noinline int look_at_charged(struct task_struct *p __arg_trusted, const struct task_ctx *tctx __arg_nonnull,
			       u32 nr_waiting, u64 now, struct tw_task *task __arg_nonnull)
{
	struct tw_group *group = group_of(p->tgid);

	task->vtime = tw_read(&tctx->vtime);
	task->class = class_beside(p, group ? tw_read(&group->nr_ready) : 0);
	task->step_ns = 0;
	task->nr_waiting = nr_waiting;
	task->boost_left = goes_unboosted(p, task->class, now) ? 0 : boost_left;
	task->here_ns = 0;
	task->waits_us = fault == TW_FAULT_PATIENT ? 0 : tw_waits_us(waits_ns(p, tctx, now));
	starve(p, task);
	return 0;
}

/* What its program loses while a task waits for so long. */
static u32 loss_of(const struct task_struct *p, const struct tw_group *group, u32 weight, u64 waited_ns)
{
	return tw_loss(waited_ns, weight, tw_read(&group->nr_ready), p->signal->nr_threads, nr_cpus);
}

/* Another program becomes the senior one in place of this, if that still is. */
static bool hand_over(u32 senior, u32 tgid, const struct tw_group *group)
{
	if (__sync_val_compare_and_swap(&senior_tgid, senior, tgid) != senior)
		return false;
	senior_lost = group->lost;
	senior_since = clock_now();
	if (last_senior_tgid != tgid)
		__sync_fetch_and_add(&nr_handovers, 1);
	last_senior_tgid = tgid;
	count_here(TW_STAT_HANDOVERS);
	note_stat(tgid, TW_PROGRAM_TURNS);
	return true;
}

/* A parallel task competes for seniority. */
static void claim_seniority(struct tw_task *task, u32 tgid, struct tw_group *mine)
{
	u32 senior = senior_tgid;
	struct tw_group *first;

	if (task->class != TW_CLASS_PARALLEL)
		return;
	first = senior ? group_of(senior) : NULL;
	if (!tw_claims(mine, first, tun()))
		return;
	if (hand_over(senior, tgid, mine))
		task->class = TW_CLASS_SENIOR;
}

/* A task is to make way for one that waits, of another program: the turn of its own may be over
 * (policy/turn.h). */
__noinline int end_turn(const struct task_struct *p __arg_trusted, const struct tw_task *task __arg_nonnull,
			u32 other_tgid, const struct tw_task *waiting __arg_nonnull, u64 now)
{
	struct tw_group *senior = group_of(p->tgid), *other = group_of(other_tgid);
	struct tw_ages ages = { .turn_ns = since_ns(tw_read(&senior_since), now) };
	bool over;

	if (!senior || !other)
		return 0;
	ages.phases_ns = tw_least(tw_phase_age_ns(senior, now), tw_phase_age_ns(other, now));
	over = tw_is_used_up(task, waiting, &ages, tun());
	record(TW_DECISION_USED_UP, over, task_in(task), task_in(waiting), ages.turn_ns, ages.phases_ns);
	if (!over || !hand_over(p->tgid, other_tgid, other))
		return 0;
	/* What another CPU adds meanwhile is forgotten, which is rare and little. */
	senior->lost = tw_lost_after(senior, other, tun());
	count_here(TW_STAT_USED_UP);
	return 0;
}

/* A task of this class ran for so long. Its program is told what it lost thereby, and while it waited, which
 * is returned. */
static u64 tell_loss(const struct task_struct *p, struct task_ctx *tctx, struct tw_group *group,
		     enum tw_class class, u64 ran_ns)
{
	u64 waited_ns = p->sched_info.run_delay - tctx->waited_ns, told_ns = tctx->told_ns;
	u32 weight, loss;

	tctx->waited_ns += waited_ns;
	/* It may have been put back with another affinity, or sent back, and goes on waiting. */
	if (waited_ns)
		tctx->told_ns = 0;
	/* One that is never parallel does not compete by it. */
	if (!is_counted(p))
		return waited_ns;
	weight = weight_of(p, &tctx->in);
	loss = loss_of(p, group, weight, waited_ns > told_ns ? waited_ns - told_ns : 0);
	if (nr_faster)
		loss += tw_loss_of_speed(class, ran_ns, capacity_of(scx_bpf_task_cpu(p)), weight);
	if (loss)
		tw_fetch_add(&group->lost, loss);
	return waited_ns;
}

/*
 * A task has been waiting for so long. If its program were told only when it runs, the one that goes first
 * would have its turn until some of the others' tasks outrun their boosts, and threads that meet would run a
 * few at a time.
 */
static void tell_waiting(const struct task_struct *p, struct task_ctx *tctx, struct tw_group *group,
			 u64 waiting_ns)
{
	u64 told_ns = tctx->told_ns;
	u32 loss;

	if (waiting_ns <= told_ns || !is_counted(p))
		return;
	loss = loss_of(p, group, weight_of(p, &tctx->in), waiting_ns - told_ns);
	/* Several CPUs may look at it. What is too little to count is told later. */
	if (loss && __sync_val_compare_and_swap(&tctx->told_ns, told_ns, waiting_ns) == told_ns)
		tw_fetch_add(&group->lost, loss);
}

/* Brings a task's vtime up to what it has run, and says what it is. It competes for seniority. */
__noinline int charge(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, bool waking,
		      u64 now, struct tw_task *task __arg_nonnull)
{
	struct look look = { .now = now, .waking = waking };
	struct tw_task picked = { .vtime = tctx->vtime };
	struct tw_group *group = group_of(p->tgid);
	struct cpu_ctx *cctx = cpu_ctx_of(bpf_get_smp_processor_id());
	u64 ran_ns, waited_ns;

	if (is_counted(p)) {
		look_at_share(p, &tctx->shared);
		count_ready(p, tctx);
		if (nr_shares)
			count_in_share(&tctx->shared, llc_at(scx_bpf_task_cpu(p)));
	}
	look_at(p, tctx, &look, task);
	picked.class = task->class;
	picked.nr_waiting = task->nr_waiting;
	picked.boost_left = task->boost_left;
	ran_ns = p->se.sum_exec_runtime - tctx->charged_ns;
	move_clock(cctx, &picked, own_weight_of(p, &tctx->in), ran_ns, now);
	if (ran_ns)
		tctx->waits_since = now;
	waited_ns = group ? tell_loss(p, tctx, group, task->class, ran_ns) : 0;
	count_ready_time(p, &tctx->in, ran_ns, waited_ns);
	if (cctx && task->class == TW_CLASS_SERIAL)
		cctx->serial_ns += tw_serial_ready_ns(ran_ns, waited_ns);
	tctx->charged_ns = p->se.sum_exec_runtime;
	tctx->nr_sleeps = p->nvcsw;
	tctx->vtime = task->vtime;
	if (group && task->class >= TW_CLASS_SENIOR)
		tctx->phase = group->began;
	/* For others it would be a call in vain. */
	if (group && task->class == TW_CLASS_PARALLEL)
		claim_seniority(task, p->tgid, group);
	return 0;
}

/*
 * The first task of a queue in which so many wait, as things stand now. It may have been queued under another
 * key: its program was not senior then, or no longer is. If it can claim that place, it does.
 */
__noinline bool look_at_waiting(struct task_struct *p __arg_trusted, u32 nr_waiting, u64 now,
				struct tw_task *task __arg_nonnull)
{
	struct tw_group *group = group_of(p->tgid);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u64 queued_ns;

	if (!group || !tctx)
		return false;
	look_at_charged(p, tctx, nr_waiting, now, task);
	task->step_ns = step_of(task->class, group, now);
	/* 0 if another CPU has just taken it. */
	queued_ns = tw_read(&p->sched_info.last_queued);
	tell_waiting(p, tctx, group, queued_ns ? since_ns(queued_ns, now) : 0);
	claim_seniority(task, p->tgid, group);
	return true;
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
	/* exec_start is another CPU's clock, without what its interrupts took. */
	look.ahead_ns = since_ns(p->se.exec_start, now - interrupted_ns(cpu));
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
	/* Read in this order, what changes meanwhile counts twice. What interrupts took counts, too. */
	vtime = tw_read(&tctx->vtime);
	charged_ns = tw_read(&tctx->charged_ns);
	ahead_ns = since_ns(tw_read(&p->se.exec_start), now);
	run.since_ns = tw_read(&p->se.sum_exec_runtime) - charged_ns + ahead_ns;
	run.weight = charged_weight(p, tctx);
	run.capacity = capacity_of(scx_bpf_task_cpu(p));
	at_most.vtime = tw_vtime_most(vtime, &run, vtime_now);
	at_most.here_ns = tw_here_ns(since_ns(tw_read(&p->sched_info.last_arrival), now));
	answer = tw_surely_stays(&at_most, waking, tun());
	record(TW_DECISION_SURELY_STAYS, answer, task_in(&at_most), task_in(waking));
	return answer;
}

#endif /* TW_STATE_BPF_H */
