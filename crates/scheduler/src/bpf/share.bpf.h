/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs that share memory, as their user says by the name of their cgroup (--share): their ready threads
 * are counted together, and they have one home. Without the option the verifier removes all of it.
 */
#ifndef TW_SHARE_BPF_H
#define TW_SHARE_BPF_H

/* The names, of which cgroups of any depth may have one. */
const volatile u32 nr_shares = 0;
const volatile char share_names[TW_MAX_SHARES][TW_SHARE_NAME];

/* One for each name. */
struct share {
	u32 nr_ready;
	/* Its last-level cache, plus one. */
	u8 home;
};

struct share shares[TW_MAX_SHARES];

/* Which of them a task belongs to. */
struct shared {
	/* The cgroup as of which that is known. */
	u64 cgroup;
	/* Plus one; and in which it is counted as ready. */
	u8 in;
	u8 counted_in;
};

static struct share *share_at(u8 in)
{
	return in ? ARRAY_ELEM_PTR(shares, in - 1, TW_MAX_SHARES) : NULL;
}

static bool has_name(const char *name, u32 share)
{
	u32 i;

	bpf_for(i, 0, TW_SHARE_NAME) {
		char c = share_names[share & (TW_MAX_SHARES - 1)][i & (TW_SHARE_NAME - 1)];

		if (name[i & (TW_SHARE_NAME - 1)] != c)
			return false;
		if (!c)
			return true;
	}
	return false;
}

/* The share of a cgroup by its name, plus one. */
__noinline u32 find_share(struct task_struct *p __arg_trusted)
{
	char name[TW_SHARE_NAME] = {};
	u32 i;

	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, name));
	bpf_for(i, 0, nr_shares) {
		if (has_name(name, i))
			return i + 1;
	}
	return 0;
}

/* The task is looked at: it may have come to another cgroup, also while it runs. */
static void look_at_share(struct task_struct *p, struct shared *shared)
{
	u64 cgroup;

	if (!nr_shares)
		return;
	cgroup = BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, id);
	if (cgroup == shared->cgroup)
		return;
	shared->cgroup = cgroup;
	shared->in = find_share(p);
}

/* A ready task is counted in its share, and in no other; the first one is at home where it is. */
static void count_in_share(struct shared *shared, u32 llc)
{
	struct share *was, *is;

	if (!nr_shares || shared->counted_in == shared->in)
		return;
	was = share_at(shared->counted_in);
	is = share_at(shared->in);
	shared->counted_in = shared->in;
	if (was)
		__sync_fetch_and_add(&was->nr_ready, -1);
	if (is && tw_founds_home(__sync_fetch_and_add(&is->nr_ready, 1)))
		is->home = llc + 1;
}

static void uncount_in_share(struct shared *shared)
{
	struct share *was = nr_shares ? share_at(shared->counted_in) : NULL;

	shared->counted_in = 0;
	if (was)
		__sync_fetch_and_add(&was->nr_ready, -1);
}

#endif /* TW_SHARE_BPF_H */
