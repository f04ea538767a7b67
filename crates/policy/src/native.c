/* SPDX-License-Identifier: GPL-2.0-only */
/* The policy's functions as symbols. They are static inline in their headers, for BPF's sake. */
#include "../../../policy/order.h"

_Static_assert(sizeof(struct tw_group) == 8, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_tunables) == 56, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_task) == 16, "crates/policy/src/lib.rs has the same layout");

u64 tw_native_ready_add(struct tw_group *group)
{
	return tw_ready_add(group);
}

u64 tw_native_ready_sub(struct tw_group *group)
{
	return tw_ready_sub(group);
}

u32 tw_native_class_of(u64 nr_ready, u32 bound_kernel_thread, u32 senior, const struct tw_tunables *tun)
{
	return tw_class_of(nr_ready, bound_kernel_thread, senior, tun);
}

u64 tw_native_vtime_charge(u64 vtime, u64 ran_ns, u32 weight)
{
	return tw_vtime_charge(vtime, ran_ns, weight);
}

u64 tw_native_vtime_bound(u64 vtime, u64 now, u32 class, u32 woke, const struct tw_tunables *tun)
{
	return tw_vtime_bound(vtime, now, class, woke, tun);
}

u64 tw_native_key(const struct tw_task *task, const struct tw_tunables *tun)
{
	return tw_key(task, tun);
}

u32 tw_native_preempts(const struct tw_task *waking, const struct tw_task *running,
		       const struct tw_tunables *tun)
{
	return tw_preempts(waking, running, tun);
}

u32 tw_native_yields(const struct tw_task *running, u64 waiting_key, const struct tw_tunables *tun)
{
	return tw_yields(running, waiting_key, tun);
}
