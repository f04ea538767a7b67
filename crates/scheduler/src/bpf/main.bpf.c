/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_threadwise: the hooks. They gather state from the kernel, ask policy/, and apply the answer;
 * no decision is taken here.
 *
 * Each CPU has a queue ordered by key (policy/order.h). A task that wakes up goes straight to an
 * idle CPU if there is one. Otherwise a serial task replaces a parallel one, and everything else
 * waits in the queue of the CPU that it ran on. A CPU whose queue is empty takes from the others;
 * a CPU whose task used up its slice considers its own queue and one other.
 *
 * The wake-up path decides what a scheduler costs, so it has no look-up but that of the thread
 * group's ready count, and vtime is charged only when somebody has to wait: sum_exec_runtime
 * remembers what a task ran until then.
 */
#include <scx/common.bpf.h>
#include "intf.h"
#include "../../../../policy/order.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* No runnable task waits longer than this, or the kernel throws the scheduler out. Its maximum is 30 s. */
#define WATCHDOG_MS 10000

/* How far back TW_FAULT_STARVE puts a task: beyond the watchdog. */
#define TW_STARVED_NS (1000ULL * 1000 * WATCHDOG_MS * 2)

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

const volatile u32 nr_cpus = 1;
const volatile u32 fault = TW_FAULT_NONE;
const volatile struct tw_tunables tunables = {};
/* Whether every decision goes into the ring buffer. When not, the verifier removes the code. */
const volatile bool recording = false;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} decisions SEC(".maps");

/* A decision that finds the buffer full is dropped: nobody waits for a reader. */
static void record(enum tw_decision_kind kind, u64 a, u64 b, u64 c, u64 d, u64 out)
{
	struct tw_decision decision = { .kind = kind, .in = { a, b, c, d }, .out = out };

	if (recording)
		bpf_ringbuf_output(&decisions, &decision, sizeof(decision), 0);
}

/*
 * The thread groups, indexed by tgid: nothing to allocate, nothing to leak, one bounds check.
 * The loader sizes it by kernel.pid_max (32 MiB at the limit of 4 million ids).
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
	/* se.sum_exec_runtime up to which vtime is charged. */
	u64 charged_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct cpu_ctx {
	/* Where the next look for a task to balance starts. */
	u32 cursor;
	u64 stats[TW_NR_STATS];
} __attribute__((aligned(64)));

struct cpu_ctx cpu_ctxs[TW_MAX_CPUS];

/*
 * A bit for each CPU whose queue may hold something. It is set when a task is queued and cleared by
 * that CPU's own dispatch when the queue is empty. Both happen under its rq lock (the insertion
 * itself comes only after ops.enqueue() returns), so a queued task is never without its bit. A bit
 * may be set over a queue that others emptied, until that CPU's next tick.
 */
u64 queued_mask[TW_MASK_WORDS];

/*
 * The largest vtime at which a task was found running. Racy by design: two CPUs that write at once
 * lose one of the two values, and the next charge makes up for it.
 */
u64 vtime_now;

static struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	return ARRAY_ELEM_PTR(cpu_ctxs, cpu, TW_MAX_CPUS);
}

static void count(struct cpu_ctx *cctx, enum tw_stat stat)
{
	cctx->stats[stat]++;
}

/*
 * The parallel program that goes before the others, or 0: whichever is the first to ask when there
 * is none, or when the one that is there is no longer parallel.
 */
u32 senior_tgid;

static u64 nr_ready_of(u32 tgid)
{
	struct tw_group *group = bpf_map_lookup_elem(&groups, &tgid);

	return group ? tw_read(&group->nr_ready) : 0;
}

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

static enum tw_class class_of(const struct task_struct *p)
{
	u64 nr_ready = nr_ready_of(p->tgid);
	bool bound = is_bound_kernel_thread(p), senior = p->tgid == senior_tgid;
	enum tw_class class = tw_class_of(nr_ready, bound, senior, tun());

	record(TW_DECISION_CLASS, nr_ready, bound, senior, 0, class);
	return class;
}

/*
 * Brings a task's vtime up to what it has run, and says what it is. A task that `woke` comes back
 * from sleep.
 */
static void charge(struct task_struct *p, struct task_ctx *tctx, bool woke, struct tw_task *task)
{
	u64 ran_ns = p->se.sum_exec_runtime - tctx->charged_ns, now, charged;
	u32 weight = fault == TW_FAULT_WEIGHTLESS ? TW_WEIGHT_ONE : p->scx.weight;

	task->class = class_of(p);
	if (tw_before(vtime_now, tctx->vtime))
		vtime_now = tctx->vtime;
	now = vtime_now;
	charged = tw_vtime_charge(tctx->vtime, ran_ns, weight);
	record(TW_DECISION_CHARGE, tctx->vtime, ran_ns, weight, 0, charged);
	task->vtime = tw_vtime_bound(charged, now, task->class, woke, tun());
	record(TW_DECISION_BOUND, charged, now, task->class, woke, task->vtime);
	tctx->charged_ns = p->se.sum_exec_runtime;
	tctx->vtime = task->vtime;
	if (fault == TW_FAULT_STARVE && p->nr_cpus_allowed == 1 && task->class != TW_CLASS_KERNEL) {
		task->class = TW_CLASS_PARALLEL;
		task->vtime += TW_STARVED_NS;
	}
}

static u64 key_of(const struct tw_task *task)
{
	u64 key = tw_key(task, tun());

	record(TW_DECISION_KEY, task->vtime, task->class, 0, 0, key);
	return key;
}

static bool preempts(const struct tw_task *waking, const struct tw_task *running)
{
	bool answer = tw_preempts(waking, running, tun());

	record(TW_DECISION_PREEMPTS, waking->vtime, waking->class, running->vtime, running->class, answer);
	return answer;
}

static bool yields(const struct tw_task *running, const struct task_struct *waiting)
{
	u64 waiting_key = waiting->scx.dsq_vtime;
	bool answer = tw_yields(running, waiting_key, tun());

	record(TW_DECISION_YIELDS, running->vtime, running->class, waiting_key, 0, answer);
	return answer;
}

/* A parallel task competes: its program becomes the senior one if there is none. */
static void claim_seniority(struct tw_task *task, u32 tgid)
{
	u32 senior = senior_tgid;

	if (task->class != TW_CLASS_PARALLEL)
		return;
	if (senior && tw_phase_of(nr_ready_of(senior), tunables.serial_threshold) == TW_PARALLEL)
		return;
	if (__sync_val_compare_and_swap(&senior_tgid, senior, tgid) == senior)
		task->class = TW_CLASS_SENIOR;
}

/* The word of the queued mask that holds the CPU's bit, or NULL for what is no CPU. */
static u64 *queued_word(u32 cpu)
{
	return ARRAY_ELEM_PTR(queued_mask, cpu / 64, TW_MASK_WORDS);
}

static void mark_queued(s32 cpu)
{
	u64 *word = queued_word(cpu), bit = 1ULL << (cpu & 63);

	if (word && !(*word & bit))
		__sync_fetch_and_or(word, bit);
}

static void unmark_if_empty(s32 cpu)
{
	u64 *word = queued_word(cpu), bit = 1ULL << (cpu & 63);

	if (word && (*word & bit) && !scx_bpf_dsq_nr_queued(cpu))
		__sync_fetch_and_and(word, ~bit);
}

s32 BPF_STRUCT_OPS(threadwise_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);

	if (fault == TW_FAULT_STALL || fault == TW_FAULT_ERROR || cpu < 0)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, tunables.slice_ns, SCX_ENQ_IMMED);
	return cpu;
}

/*
 * The CPU whose running task a serial task takes over, or -1. The one that it ran on before comes
 * first: its cache is warm, and mostly it is the answer.
 */
static s32 find_victim(struct task_struct *p, const struct tw_task *waking, s32 prev_cpu)
{
	u32 i, nr = tw_victim_scan(waking->class, nr_cpus);

	bpf_for(i, 0, nr) {
		s32 cpu = (prev_cpu + i) % nr_cpus;
		struct task_ctx *rctx;
		struct task_struct *running;
		struct tw_task task;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		running = __COMPAT_scx_bpf_cpu_curr(cpu);
		/* Idle, or of a class above ours: RT and deadline tasks have priorities below 100. */
		if (!running || !running->pid || running->prio < 100)
			continue;
		rctx = bpf_task_storage_get(&task_ctxs, running, 0, 0);
		if (!rctx)
			continue;
		task.vtime = rctx->vtime;
		task.class = class_of(running);
		if (preempts(waking, &task))
			return cpu;
	}
	return -1;
}

/* Wakes an idle CPU on which a waiting task may run; it will look for that itself. */
static void kick_idle_for(const struct task_struct *p)
{
	s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(threadwise_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p), victim;
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	struct tw_task task;

	if (!cctx || !tctx) {
		scx_bpf_error("task %d on CPU %d without its context", p->pid, cpu);
		return;
	}
	if (fault == TW_FAULT_ERROR)
		scx_bpf_error("injected fault");

	charge(p, tctx, enq_flags & SCX_ENQ_WAKEUP, &task);
	claim_seniority(&task, p->tgid);

	if (task.class == TW_CLASS_KERNEL && fault != TW_FAULT_STALL) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, tunables.slice_ns, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (tw_may_preempt(task.class) && fault != TW_FAULT_STALL) {
		victim = find_victim(p, &task, cpu);
		if (victim >= 0) {
			count(cctx, task.class == TW_CLASS_SERIAL ? TW_STAT_SERIAL_PREEMPTIONS :
								    TW_STAT_SENIOR_PREEMPTIONS);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | victim, tunables.slice_ns,
					   enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
		if (task.class == TW_CLASS_SERIAL)
			count(cctx, TW_STAT_SERIAL_QUEUED);
	}
	count(cctx, TW_STAT_QUEUED);
	scx_bpf_dsq_insert_vtime(p, cpu, tunables.slice_ns, key_of(&task), enq_flags);
	mark_queued(cpu);
	/* A CPU may have gone idle since select_cpu() looked. */
	kick_idle_for(p);
}

/* The next CPU after the cursor whose queue may hold something, or -1. Looks at one turn of the mask. */
static s32 next_queued_cpu(struct cpu_ctx *cctx, s32 self)
{
	u32 i, nr_words = (nr_cpus + 63) / 64, first = cctx->cursor / 64;

	bpf_for(i, 0, nr_words + 1) {
		u32 base = (first + i) % nr_words * 64, cpu;
		u64 *word = queued_word(base), bits;

		if (!word)
			return -1;
		bits = *word;
		if ((u32)self / 64 == base / 64)
			bits &= ~(1ULL << (self & 63));
		if (i == 0)
			bits &= ~0ULL << (cctx->cursor & 63);
		if (!bits)
			continue;
		cpu = base + ctzll(bits);
		cctx->cursor = (cpu + 1) % nr_cpus;
		return cpu;
	}
	return -1;
}

/* Whether prev makes way for the first task in the queue of `cpu`. */
static bool yields_to_queue(const struct tw_task *prev, s32 cpu)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(cpu);

	return first && yields(prev, first);
}

static void dispatch_idle(struct cpu_ctx *cctx, s32 cpu)
{
	u32 i;

	if (scx_bpf_dsq_move_to_local(cpu, SCX_ENQ_IMMED))
		return;
	unmark_if_empty(cpu);
	bpf_for(i, 0, nr_cpus) {
		s32 from = next_queued_cpu(cctx, cpu);

		if (from < 0)
			return;
		if (scx_bpf_dsq_move_to_local(from, SCX_ENQ_IMMED)) {
			count(cctx, TW_STAT_STOLEN);
			return;
		}
	}
}

void BPF_STRUCT_OPS(threadwise_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_struct *first;
	struct task_ctx *tctx;
	struct tw_task task;
	s32 other;

	if (!cctx || fault == TW_FAULT_STALL)
		return;
	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		dispatch_idle(cctx, cpu);
		return;
	}
	tctx = bpf_task_storage_get(&task_ctxs, prev, 0, 0);
	if (!tctx)
		return;
	charge(prev, tctx, false, &task);
	claim_seniority(&task, prev->tgid);
	other = next_queued_cpu(cctx, cpu);
	if (other >= 0 && yields_to_queue(&task, other) && scx_bpf_dsq_move_to_local(other, SCX_ENQ_IMMED)) {
		count(cctx, TW_STAT_REBALANCED);
		return;
	}
	first = __COMPAT_scx_bpf_dsq_peek(cpu);
	if (!first) {
		unmark_if_empty(cpu);
	} else if (yields(&task, first)) {
		if (scx_bpf_dsq_move_to_local(cpu, SCX_ENQ_IMMED))
			return;
	} else {
		/* It goes on waiting here; a CPU may have gone idle without seeing it. */
		kick_idle_for(first);
	}
	count(cctx, TW_STAT_KEPT);
	scx_bpf_task_set_slice(prev, tunables.slice_ns);
}

void BPF_STRUCT_OPS(threadwise_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 tgid = p->tgid;
	struct tw_group *group = bpf_map_lookup_elem(&groups, &tgid);

	if (group)
		tw_ready_add(group);
}

void BPF_STRUCT_OPS(threadwise_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 tgid = p->tgid;
	struct tw_group *group = bpf_map_lookup_elem(&groups, &tgid);
	u64 nr_ready;

	if (!group || fault == TW_FAULT_MISCOUNT)
		return;
	nr_ready = tw_ready_sub(group);
	if (senior_tgid == tgid && tw_phase_ended(nr_ready, tun()))
		senior_tgid = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(threadwise_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 tgid = p->tgid;

	/* Somebody raised kernel.pid_max. Failing here would fail the fork; the loader starts anew instead.
	 */
	if (!bpf_map_lookup_elem(&groups, &tgid))
		scx_bpf_exit(SCX_ECODE_ACT_RESTART, "tgid %d is beyond the kernel.pid_max at loading", tgid);
	return bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* A task comes to sched_ext: what it ran in another class is not charged. */
void BPF_STRUCT_OPS(threadwise_enable, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (tctx) {
		tctx->vtime = vtime_now;
		tctx->charged_ns = p->se.sum_exec_runtime;
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(threadwise_init)
{
	s32 cpu, err;

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (err) {
			scx_bpf_error("cannot create the queue of CPU %d: %d", cpu, err);
			return err;
		}
	}
	return 0;
}

/*
 * Nothing depends on which CPUs are online: a task that waits in the queue of a CPU that goes is taken
 * by the others, and the kernel moves those that could run there only. Without these two hooks the
 * kernel would throw the scheduler out at each change.
 */
void BPF_STRUCT_OPS(threadwise_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(threadwise_cpu_offline, s32 cpu)
{
}

void BPF_STRUCT_OPS(threadwise_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(threadwise_ops,
	       .select_cpu	= (void *)threadwise_select_cpu,
	       .enqueue		= (void *)threadwise_enqueue,
	       .dispatch	= (void *)threadwise_dispatch,
	       .runnable	= (void *)threadwise_runnable,
	       .quiescent	= (void *)threadwise_quiescent,
	       .enable		= (void *)threadwise_enable,
	       .init_task	= (void *)threadwise_init_task,
	       .cpu_online	= (void *)threadwise_cpu_online,
	       .cpu_offline	= (void *)threadwise_cpu_offline,
	       .init		= (void *)threadwise_init,
	       .exit		= (void *)threadwise_exit,
	       .timeout_ms	= WATCHDOG_MS,
	       .name		= "threadwise");
