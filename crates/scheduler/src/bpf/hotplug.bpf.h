/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUs that come and go. */
#ifndef TW_HOTPLUG_BPF_H
#define TW_HOTPLUG_BPF_H

#include "state.bpf.h"

/* How often CPUs on their way are kicked, and how soon it is seen that one that was offline is: 10 ms and 1
 * s.
 */
#define TW_ON_ITS_WAY_NS (10ULL * 1000 * 1000)
#define TW_OFFLINE_NS	 (1000ULL * 1000 * 1000)

/* CPUs that the kernel has told of as online, and not as offline since. */
static bool announced[TW_MAX_CPUS];

struct hotplug {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hotplug);
} hotplugs SEC(".maps");

/* In how long the timer looks again, 0: not. No variable, as the verifier would follow it through the loop.
 */
static u64 hotplug_in_ns;

/* Kicks CPUs that are online and not announced. */
static void kick_on_their_way(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu;

	hotplug_in_ns = 0;
	bpf_for(cpu, 0, nr_cpus) {
		if (announced[cpu & (TW_MAX_CPUS - 1)])
			continue;
		if (!hotplug_in_ns)
			hotplug_in_ns = TW_OFFLINE_NS;
		if (!bpf_cpumask_test_cpu(cpu, online))
			continue;
		hotplug_in_ns = TW_ON_ITS_WAY_NS;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	scx_bpf_put_cpumask(online);
}

/*
 * Before a CPU is announced, and after it was said to go, the kernel puts its tasks into its local queue and
 * asks for no dispatch. Where the last task of a CPU is enqueued when its slice ends (SCX_OPS_ENQ_LAST) that
 * means that the CPU picks its idle task and leaves the other in the queue (balance_one(),
 * put_prev_task_scx() and do_enqueue_task(), kernel/sched/ext.c in 7.2): cpuhp, which takes the CPU up or
 * down, stands still until the watchdog ends the scheduler. A kick has the CPU look again.
 */
static int look_after_hotplug(void *map, u32 *zero, struct hotplug *hotplug)
{
	kick_on_their_way();
	if (hotplug_in_ns)
		bpf_timer_start(&hotplug->timer, hotplug_in_ns, 0);
	return 0;
}

static void start_hotplug(void)
{
	u32 zero = 0;
	struct hotplug *hotplug = bpf_map_lookup_elem(&hotplugs, &zero);

	if (hotplug && cpus_differ() && fault != TW_FAULT_UNLINKED)
		bpf_timer_start(&hotplug->timer, TW_ON_ITS_WAY_NS, 0);
}

static s32 init_hotplug(void)
{
	const struct cpumask *online;
	struct hotplug *hotplug;
	u32 cpu, zero = 0;
	s32 err;

	online = scx_bpf_get_online_cpumask();
	bpf_for(cpu, 0, nr_cpus)
		announced[cpu & (TW_MAX_CPUS - 1)] = bpf_cpumask_test_cpu(cpu, online);
	scx_bpf_put_cpumask(online);
	hotplug = bpf_map_lookup_elem(&hotplugs, &zero);
	if (!hotplug)
		return -ENOENT;
	bpf_timer_init(&hotplug->timer, &hotplugs, CLOCK_MONOTONIC);
	err = bpf_timer_set_callback(&hotplug->timer, look_after_hotplug);
	if (!err)
		start_hotplug();
	return err;
}

static void note_announced(s32 cpu, bool comes)
{
	announced[cpu & (TW_MAX_CPUS - 1)] = comes;
	link_online(cpu, comes);
	if (!comes)
		start_hotplug();
}

/* Puts what waits in a queue for a CPU that goes where that takes it last of all, and sends it on. */
__noinline int send_on(u64 queue, s32 cpu)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if (scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

#endif /* TW_HOTPLUG_BPF_H */
