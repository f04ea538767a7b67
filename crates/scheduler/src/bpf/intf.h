/* SPDX-License-Identifier: GPL-2.0-only */
/* Every type that the BPF program shares with the loader. */
#ifndef TW_INTF_H
#define TW_INTF_H

#include "../../../../policy/phase.h"
#include "../../../../policy/smt.h"

enum tw_limits {
	/* CPUs that the queued mask and the per-CPU state cover. */
	TW_MAX_CPUS = 1024,
	TW_MASK_WORDS = TW_MAX_CPUS / 64,
	/* Packages, and last-level caches, that --mode tells apart. */
	TW_DOMAINS = 64,
	/* Cgroups that are told apart, and how deep they may lie: others count as part of their parents. */
	TW_MAX_CGROUPS = 1024,
	TW_CGROUP_DEPTH = 16,
	/* Names that --share takes, and how long they are at most, with the zero at the end. */
	TW_MAX_SHARES = 4,
	TW_SHARE_NAME = 64,
	/* Programs that --programs tells apart; who comes while there are so many is left out. */
	TW_MAX_PROGRAMS = 16384,
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
	TW_STAT_USED_UP,
	TW_STAT_EXCHANGED,
	TW_STAT_HOMES_MOVED,
	TW_STAT_TRIALS,
	TW_STAT_ALTERNATED,
	TW_NR_STATS,
};

/* What tells how much of a last-level cache a task needs (--pairing). */
enum tw_pairing_by {
	TW_PAIRING_OFF,
	/* Two counters of each CPU. */
	TW_PAIRING_COUNTERS,
	/* Its program's resident set. */
	TW_PAIRING_RESIDENT,
};

/* By what programs are found that get more done one after the other (--alternate). */
enum tw_alternate_by {
	TW_ALTERNATE_OFF,
	/* Trials, counted by the counters. */
	TW_ALTERNATE_COUNTERS,
	/* Their resident sets. */
	TW_ALTERNATE_RESIDENT,
};

/* What a program is at: none of its threads is ready, or its phase. */
enum tw_state {
	TW_STATE_IDLE,
	TW_STATE_SERIAL,
	TW_STATE_PARALLEL,
	TW_NR_STATES,
};

/* What is counted for each program. Described where it is reported: src/programs.rs. */
enum tw_program_stat {
	TW_PROGRAM_PHASES,
	TW_PROGRAM_BOOSTS,
	TW_PROGRAM_TURNS,
	TW_PROGRAM_PREEMPTIONS,
	/* A thread ran, and had last run on a CPU of the same core, and so on outwards. */
	TW_PROGRAM_SAME_CORE,
	TW_PROGRAM_SAME_LLC,
	TW_PROGRAM_SAME_PACKAGE,
	TW_PROGRAM_OTHER_PACKAGE,
	TW_NR_PROGRAM_STATS,
};

/* The statistics of one program. */
struct tw_program {
	/* When it began, or was first seen. All times are CLOCK_MONOTONIC. */
	u64 began_ns;
	/*
	 * For each state the times at which it ended less those at which it began: how long it lasted, less
	 * the present time for the one that goes on. Whoever adds in whatever order, the sum is right.
	 */
	u64 state_ns[TW_NR_STATES];
	u64 stats[TW_NR_PROGRAM_STATS];
	/* Its threads; the last one takes the entry along. */
	u32 nr_tasks;
	u32 reserved;
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
	/* Keeps the statistics of programs that ended: the check at the end must notice. */
	TW_FAULT_HOARD,
	/* Has kernel threads that are bound to a CPU wait until what runs there has used up its slice. */
	TW_FAULT_DEMOTE,
	/* The timer counts no crowd, so boosts are the same beside however many serial tasks. */
	TW_FAULT_AGELESS,
	/* One expiry of the timer is lost, as if it had never been started. */
	TW_FAULT_LOST_TIMER,
	/* The clock outside of locks is scx_bpf_now(), which may be old. */
	TW_FAULT_OLD_CLOCK,
	/* That a task has been waiting for long counts for nothing. */
	TW_FAULT_PATIENT,
	/* No CPU that has nothing to do asks for what runs on a slower one, and none for an exchange. */
	TW_FAULT_ALOOF,
	/* Walks over CPUs do not follow those that come and go, and nobody looks after these. */
	TW_FAULT_UNLINKED,
};

/* The functions of policy/ whose decisions are recorded, and what stands in tw_decision.in for each. */
enum tw_decision_kind {
	/* tw_class_of: ready threads, bound kernel thread, senior. */
	TW_DECISION_CLASS,
	/* tw_vtime_advance: vtime, the nine of tw_run, now, class. */
	TW_DECISION_ADVANCE,
	/* tw_key_in: the seven of tw_task, the queue's nr_waiting and boost_left, unboosted. */
	TW_DECISION_KEY_IN,
	/* tw_goes_first: two tasks. */
	TW_DECISION_GOES_FIRST,
	/* tw_preempts: the waking task, the running one. */
	TW_DECISION_PREEMPTS,
	/* tw_makes_way_in: the running task, the waiting one, the three of tw_beside, a bit each. */
	TW_DECISION_MAKES_WAY,
	/* tw_slice_beside: the class of the running one, in how long the waiting one is due, its weight. */
	TW_DECISION_SLICE_BESIDE,
	/* tw_makes_room: the running task, whether it and the waiting one are bound. */
	TW_DECISION_MAKES_ROOM,
	/* tw_vtime_seen: the first task of the other queue, that of the own one, whether there is one, and
	 * whether the queues are behind different caches. */
	TW_DECISION_SEEN,
	/* tw_goes_unboosted: threads, how long ago a bound parallel task was ready. */
	TW_DECISION_UNBOOSTED,
	/* tw_clock: now, the running task, its weight, how long ago it followed a light one, whether others
	 * wait. */
	TW_DECISION_CLOCK,
	/* tw_step: class, age of the phase, what a look takes. */
	TW_DECISION_STEP,
	/* tw_surely_stays: the running task at most, the waking one. */
	TW_DECISION_SURELY_STAYS,
	/* tw_is_used_up: the running task, the waiting one, the two of tw_ages. */
	TW_DECISION_USED_UP,
	/* tw_mean_weight: the mean before, how long tasks ran, what they weighed, in how long. */
	TW_DECISION_MEAN_WEIGHT,
	/* tw_weight_among: the weight, the mean. */
	TW_DECISION_WEIGHT_AMONG,
};

/* What was asked of the policy and what it answered, for a replay through the native build. */
struct tw_decision {
	u64 kind;
	u64 in[16];
	u64 out;
};

#endif /* TW_INTF_H */
