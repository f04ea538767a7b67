/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads of a program reach their next barrier together only if those that wait take turns with
 * those that run, in steps that are short against a phase. sched_ext ends slices at ticks, 4 ms apart
 * with HZ=250, and the ticks of all CPUs come at once. So while tasks wait, and only then, one timer
 * for the whole machine looks every rotate_ns for a CPU whose task is due to make way, and kicks it;
 * the CPU's own dispatch does the rest.
 */
#ifndef TW_ROTATION_BPF_H
#define TW_ROTATION_BPF_H

#include "state.bpf.h"
#include "queues.bpf.h"

/* Queues that one expiry serves, and CPUs that it looks at for each, at most. */
#define TW_ROTATIONS	 4
#define TW_ROTATION_SCAN 16

struct rotation {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rotation);
} rotations SEC(".maps");

/* Where the timer, which alone uses them, goes on with queues and with CPUs. */
u32 rotation_queue;
u32 rotation_cpu;

/* The position of a running task, with what it ran since the kernel last accounted for it. */
static bool look_at_running(struct task_struct *p, u64 now, struct tw_task *task)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	s64 ahead_ns = now - p->se.exec_start;

	if (!tctx)
		return false;
	/* exec_start is another CPU's clock. */
	look_at(p, tctx, ahead_ns > 0 ? ahead_ns : 0, false, nr_waiting_at(scx_bpf_task_cpu(p)), task);
	return true;
}

/* Kicks a CPU whose task is due to make way for the first one of this queue; false if nobody waits. */
static bool rotate_queue(s32 queue, u64 now)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(queue);
	u64 waiting_key;
	u32 i;

	if (!first)
		return false;
	/* A CPU went idle just as this was queued. */
	if (kick_idle_for(first))
		return true;
	waiting_key = first->scx.dsq_vtime;
	bpf_for(i, 0, nr_cpus < TW_ROTATION_SCAN ? nr_cpus : TW_ROTATION_SCAN) {
		s32 cpu = (rotation_cpu + i) % nr_cpus;
		struct task_struct *running;
		struct tw_task task;

		if (!bpf_cpumask_test_cpu(cpu, first->cpus_ptr))
			continue;
		running = running_on(cpu);
		if (!running || !look_at_running(running, now, &task) || !yields(&task, waiting_key))
			continue;
		rotation_cpu = (cpu + 1) % nr_cpus;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		break;
	}
	return true;
}

static void arm_rotation(void)
{
	u32 zero = 0;
	struct rotation *rotation = bpf_map_lookup_elem(&rotations, &zero);

	if (rotation && !rotation_armed && !__sync_val_compare_and_swap(&rotation_armed, 0, 1))
		bpf_timer_start(&rotation->timer, tunables.rotate_ns, 0);
}

static int rotate(void *map, u32 *key, struct rotation *rotation)
{
	u64 now = scx_bpf_now();
	bool waiting = false;
	s32 queue;
	u32 i;

	bpf_for(i, 0, TW_ROTATIONS) {
		queue = next_queued_cpu(&rotation_queue, -1);
		if (queue < 0)
			break;
		bpf_rcu_read_lock();
		waiting |= rotate_queue(queue, now);
		bpf_rcu_read_unlock();
	}
	/*
	 * Who is queued between the look and this finds the timer armed and waits for the next tick
	 * instead. Bits over empty queues must not keep the timer of an idle machine running.
	 */
	rotation_armed = 0;
	if (waiting)
		arm_rotation();
	return 0;
}

static int init_rotation(void)
{
	u32 zero = 0;
	struct rotation *rotation = bpf_map_lookup_elem(&rotations, &zero);

	if (!rotation)
		return -ENOENT;
	bpf_timer_init(&rotation->timer, &rotations, CLOCK_MONOTONIC);
	return bpf_timer_set_callback(&rotation->timer, rotate);
}

#endif /* TW_ROTATION_BPF_H */
