/* SPDX-License-Identifier: GPL-2.0-only */
/* What the hooks know of programs, tasks and CPUs, and how they ask the policy about them. */
#ifndef TW_STATE_BPF_H
#define TW_STATE_BPF_H

/* No runnable task waits longer than this, or the kernel throws the scheduler out. Its maximum is 30 s. */
#define WATCHDOG_MS 10000

/* How far back TW_FAULT_STARVE puts a task: beyond the watchdog. */
#define TW_STARVED_NS (1000ULL * 1000 * WATCHDOG_MS * 2)

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* The same: a task that another CPU is about to queue. */
#define TASK_WAKING 0x00000200

/* include/uapi/linux/sched.h */
#define SCHED_EXT 7

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
#include "cgroups.bpf.h"
#include "programs.bpf.h"
#include "share.bpf.h"
#include "online.bpf.h"
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

/* No CPU, plus one: task_ctx.leaves_for. */
#define LOOKED_IN_VAIN (~0U)

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
	/* The better CPU that it leaves its own for, plus one, or LOOKED_IN_VAIN if its own has just looked
	 * for one; and whether that has to be taken. */
	u32 leaves_for;
	bool takes;
	/* Whether its thread group counts it as ready: 0 or 1. */
	u32 ready;
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
	/* Behind which CPU its look at slower ones goes on, plus one, or 0: behind itself. */
	u32 called_last;
	/* The CPU to whose queue it was sent or woken for, plus one (rotation.bpf.h). */
	u32 sent_to;
	/* Up to which hand-over of seniority its queue was put in order (rotation.bpf.h). */
	u32 sorted_for;
	/* What its queue's keys go by. */
	struct tw_keys keys;
	/* When its task was last looked at for an exchange with that of another cache (exchange.bpf.h). */
	u64 exchange_looked_at;
	/* When an idle core was last looked for in vain that the kernel may have lost (smt.bpf.h). */
	u64 no_core_at;
	/* Until when no serial task that wakes up takes it while no program is parallel, as last looked at
	 * (tw_stays_until()). */
	u64 stays_until;
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

/* Whether tasks wait anywhere, as far as is known (rotation.bpf.h): 0 or 1. */
u32 tasks_wait;

/* What a look of the timer takes on the mean (rotation.bpf.h), and that of a CPU at faster ones, which does
 * without locks: two CPUs that write at once lose one of two values that are much alike. */
u64 look_takes_ns;
u64 cpu_look_takes_ns;

/* Until when no serial task that wakes up takes any CPU (tw_passed_over()). Racy by design: of two CPUs that
 * write at once either's value holds. */
u64 all_stay_until;

/* How many programs are parallel, as far as their threads are counted. */
u32 nr_parallel;

/* What serial tasks leave of boosts, and what those weigh that run; counted by the timer alone (crowd.bpf.h).
 */
struct tw_crowd crowd = TW_CROWD_NOBODY;

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

/* The slice of a task for which no other has to wait. */
static u64 free_slice(void)
{
	return tw_slice(tasks_wait, nr_faster, longer_look(), tun());
}

/*
 * Functions that are not static the verifier looks at once, for all arguments and results, not anew with
 * every state of their callers. With all of them static it looked at six times as many instructions.
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

/* A look that began then is over. */
static void note_look(u64 *takes_ns, u64 began)
{
	*takes_ns = tw_look_takes(*takes_ns, since_ns(began, bpf_ktime_get_ns()));
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

#endif /* TW_STATE_BPF_H */
