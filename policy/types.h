/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fixed-width integers for code that is compiled twice: by clang for BPF, where vmlinux.h has
 * declared them, and by the host's compiler for the simulator and the tests.
 */
#ifndef TW_TYPES_H
#define TW_TYPES_H

#ifndef __VMLINUX_H__
#include <stdint.h>
#include <stdbool.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#endif

static inline u64 tw_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

#endif /* TW_TYPES_H */
