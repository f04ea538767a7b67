/* SPDX-License-Identifier: GPL-2.0-only */
/* Every type that the BPF program shares with the loader. */
#ifndef TW_INTF_H
#define TW_INTF_H

#include "../../../../policy/types.h"

enum tw_limits {
	/* CPUs that the queued mask and the per-CPU state cover. */
	TW_MAX_CPUS = 1024,
	TW_MASK_WORDS = TW_MAX_CPUS / 64,
	/* Packages, and last-level caches, that --mode tells apart. */
	TW_DOMAINS = 64,
};

/* Counters, one set per CPU. Described where they are reported: src/stats.rs. */
enum tw_stat {
	TW_STAT_QUEUED,
	TW_STAT_SERIAL_PREEMPTIONS,
	TW_STAT_SERIAL_QUEUED,
	TW_STAT_SENIOR_PREEMPTIONS,
	TW_STAT_STOLEN,
	TW_STAT_REBALANCED,
	TW_STAT_KEPT,
	TW_STAT_MOVED_UP,
	TW_STAT_HANDOVERS,
	TW_NR_STATS,
};

/* Faults that tests inject to see the kernel's scheduler take over. */
enum tw_fault {
	TW_FAULT_NONE,
	/* Ends with scx_bpf_error() at the first enqueue after attaching. */
	TW_FAULT_ERROR,
	/* Queues tasks and never runs them: the kernel's watchdog must notice. */
	TW_FAULT_STALL,
	/* Counts no thread as no longer ready: the check at the end must notice. */
	TW_FAULT_MISCOUNT,
	/* Puts tasks that are bound to one CPU behind all others. */
	TW_FAULT_STARVE,
	/* Charges every task as if its nice value were 0. */
	TW_FAULT_WEIGHTLESS,
};

/* The functions of policy/ whose decisions are recorded, and what stands in tw_decision.in for each. */
enum tw_decision_kind {
	/* tw_class_of: ready threads, bound kernel thread, senior. */
	TW_DECISION_CLASS,
	/* tw_vtime_advance: vtime, the six of tw_run, now, class. */
	TW_DECISION_ADVANCE,
	/* tw_key: the three of tw_task. */
	TW_DECISION_KEY,
	/* tw_goes_first: two tasks. */
	TW_DECISION_GOES_FIRST,
	/* tw_preempts: the waking task, the running one. */
	TW_DECISION_PREEMPTS,
	/* tw_yields: the running task, the waiting one. */
	TW_DECISION_YIELDS,
	/* tw_due_in: the same. */
	TW_DECISION_DUE_IN,
	/* tw_makes_room: the running task, whether it and the waiting one are bound. */
	TW_DECISION_MAKES_ROOM,
	/* tw_clock: now, the running task, whether others wait. */
	TW_DECISION_CLOCK,
};

/* What was asked of the policy and what it answered, for a replay through the native build. */
struct tw_decision {
	u64 kind;
	u64 in[9];
	u64 out;
};

#endif /* TW_INTF_H */
