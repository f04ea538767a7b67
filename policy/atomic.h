/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The atomic operations that the policy needs, in a form that both compilers turn into one
 * instruction (BPF: atomic fetch-and-add, cpu v3; x86-64: lock xadd).
 */
#ifndef TW_ATOMIC_H
#define TW_ATOMIC_H

/* Adds and returns the value before. Full ordering. */
#define tw_fetch_add(ptr, value) __sync_fetch_and_add((ptr), (value))

/* One untorn load of a word that others change, and one store; among themselves in the order of the program.
 */
#define tw_read(ptr)	     (*(volatile __typeof__(*(ptr)) *)(ptr))
#define tw_write(ptr, value) (*(volatile __typeof__(*(ptr)) *)(ptr) = (value))

#endif /* TW_ATOMIC_H */
