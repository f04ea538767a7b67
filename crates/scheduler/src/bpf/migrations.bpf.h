/* SPDX-License-Identifier: GPL-2.0-only */
/* How far threads moved, for the statistics of their programs (programs.bpf.h). */
#ifndef TW_MIGRATIONS_BPF_H
#define TW_MIGRATIONS_BPF_H

#include "smt.bpf.h"
#include "spread.bpf.h"

/* What two CPUs share, the most that they do. */
static enum tw_program_stat migration_between(s32 from, s32 to)
{
	if (first_of_core(from) == first_of_core(to))
		return TW_PROGRAM_SAME_CORE;
	if (llc_at(from) == llc_at(to))
		return TW_PROGRAM_SAME_LLC;
	return package_at(from) == package_at(to) ? TW_PROGRAM_SAME_PACKAGE : TW_PROGRAM_OTHER_PACKAGE;
}

/* A task runs. A move that it did not run after is none. */
static void note_running(struct task_struct *p)
{
	struct task_ctx *tctx;
	s32 cpu, last;

	if (!is_told(p))
		return;
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (!tctx)
		return;
	cpu = scx_bpf_task_cpu(p);
	last = (s32)tctx->ran_on - 1;
	if (last == cpu)
		return;
	tctx->ran_on = cpu + 1;
	if (last >= 0)
		count_for(p->tgid, migration_between(last, cpu));
}

#endif /* TW_MIGRATIONS_BPF_H */
