// SPDX-License-Identifier: GPL-2.0-only
//! Assignments when instances are interchangeable, counted by Burnside's lemma with cycle indices.
//!
//! The classes under exchanges of instances are as many as an exchange fixes on the mean. How many classes of
//! assignments an exchange fixes depends on its cycle type alone and is a coefficient of the cycle index of "threads on
//! this machine", which is built as the machine is: m interchangeable children are multisets of m (Joyal, Une théorie
//! combinatoire des séries formelles, 1981; Bergeron, Labelle, Leroux, Combinatorial Species, section 1.4). All is
//! computed modulo as many primes as the result has room for.

use std::collections::BTreeMap;

use num_bigint::BigUint;
use num_traits::{One, Zero};

use crate::tree::{ROOT, Tree};

/// The most coefficients over all cycle types: about ten seconds.
const MAX_TERMS: usize = 1_000_000;

/// How many assignments of `instances` instances of `threads` distinct threads there are, up to exchanges of instances.
/// There are at most `bound`, which is those of distinct threads. None when it takes more than [`MAX_TERMS`].
pub(crate) fn modulo_instances(
    tree: &Tree,
    threads: usize,
    instances: usize,
    bound: &BigUint,
) -> Option<BigUint> {
    if instances == 1 {
        return Some(bound.clone());
    }
    let types = cycle_types(tree, threads, instances)?;
    let (mut result, mut modulus) = (BigUint::zero(), BigUint::one());
    let mut primes = (0..1u64 << 31)
        .rev()
        .filter(|&n| is_prime(n))
        .map(|prime| Field { prime });
    while modulus <= *bound {
        let field = primes.next().expect("there are 105 million primes below 2^31");
        let sum = types
            .iter()
            .fold(0, |sum, limits| field.add(sum, limits.share_fixed(tree, &field)));
        // The Chinese remainder theorem, one prime at a time.
        let so_far = field.reduce(&result);
        let step = field.over(field.add(sum, field.prime - so_far), field.reduce(&modulus));
        result += &modulus * step;
        modulus *= field.prime;
    }
    Some(result)
}

/// Numbers modulo a prime below 2^31.
struct Field {
    prime: u64,
}

impl Field {
    fn add(&self, a: u64, b: u64) -> u64 {
        (a + b) % self.prime
    }

    fn times(&self, a: u64, b: u64) -> u64 {
        a * b % self.prime
    }

    fn power(&self, base: u64, exponent: u64) -> u64 {
        let (mut result, mut square) = (1, base % self.prime);
        for bit in 0..64 - exponent.leading_zeros() {
            if exponent >> bit & 1 == 1 {
                result = self.times(result, square);
            }
            square = self.times(square, square);
        }
        result
    }

    /// a / b, where b is no multiple of the prime (Fermat).
    fn over(&self, a: u64, b: u64) -> u64 {
        self.times(a, self.power(b, self.prime - 2))
    }

    fn factorial(&self, n: usize) -> u64 {
        (1..=n as u64).fold(1, |product, factor| self.times(product, factor))
    }

    fn reduce(&self, number: &BigUint) -> u64 {
        (number % self.prime).iter_u64_digits().next().unwrap_or(0)
    }
}

fn is_prime(n: u64) -> bool {
    n > 1
        && (2..)
            .take_while(|factor| factor * factor <= n)
            .all(|factor| !n.is_multiple_of(factor))
}

/// A cycle type of exchanges of instances, and the part of a cycle index that it needs: a polynomial in p_1, p_2, ...
/// whose exponents are the digits of a coefficient's place.
struct CycleType {
    /// The i of each p_i, ascending.
    variables: Vec<usize>,
    /// Cycles of each of these lengths.
    cycles: Vec<usize>,
    /// The highest exponent of each variable.
    degrees: Vec<usize>,
    threads: usize,
}

/// Coefficients by place.
type Index = Vec<u64>;

/// All cycle types of exchanges of `instances` instances; none when they take too long.
fn cycle_types(tree: &Tree, threads: usize, instances: usize) -> Option<Vec<CycleType>> {
    let mut types = Vec::new();
    let mut terms = 0;
    let mut parts = vec![instances];
    loop {
        let cycle_type = CycleType::new(tree, threads, &parts);
        terms += cycle_type.nr_terms();
        types.push(cycle_type);
        if terms > MAX_TERMS {
            return None;
        }
        // The next partition in descending order: one from the last part above 1, and what follows as large as it may.
        let ones = parts.iter().rev().take_while(|&&part| part == 1).count();
        parts.truncate(parts.len() - ones);
        let Some(last) = parts.last_mut() else {
            return Some(types);
        };
        *last -= 1;
        let (largest, mut rest) = (*last, ones + 1);
        while rest > 0 {
            parts.push(rest.min(largest));
            rest -= rest.min(largest);
        }
    }
}

impl CycleType {
    fn new(tree: &Tree, threads: usize, parts: &[usize]) -> Self {
        let mut nr_of: BTreeMap<usize, usize> = BTreeMap::new();
        parts
            .iter()
            .for_each(|&part| *nr_of.entry(part).or_default() += 1);
        // Replacing p_i by p_ki needs p_i for each divisor of a length, as far as the multiples of it are needed.
        let needed = |i: usize| {
            let multiples = nr_of.iter().filter(|&(length, _)| length % i == 0);
            multiples
                .map(|(_, &nr)| (nr * threads).min(tree.nr_leaves() / i))
                .max()
        };
        let largest = parts.iter().copied().max().unwrap_or(1);
        let (variables, degrees): (Vec<_>, Vec<_>) = (1..=largest)
            .filter_map(|i| needed(i).map(|degree| (i, degree)))
            .unzip();
        CycleType {
            cycles: variables
                .iter()
                .map(|i| nr_of.get(i).copied().unwrap_or(0))
                .collect(),
            variables,
            degrees,
            threads,
        }
    }

    fn nr_terms(&self) -> usize {
        self.degrees.iter().map(|degree| degree + 1).product()
    }

    /// The assignments that an exchange of this type fixes, times the share of such exchanges among all.
    fn share_fixed(&self, tree: &Tree, field: &Field) -> u64 {
        let mut known = vec![None; tree.shapes.len()];
        let index = self.index_of(tree, tree.nodes[ROOT].shape, field, &mut known);
        let exponents: Vec<usize> = self.cycles.iter().map(|nr| nr * self.threads).collect();
        if exponents
            .iter()
            .zip(&self.degrees)
            .any(|(exponent, degree)| exponent > degree)
        {
            return 0;
        }
        let symmetries = |exponents: &[usize]| {
            (self.variables.iter().zip(exponents)).fold(1, |product, (&i, &exponent)| {
                let rotations = field.power(i as u64, exponent as u64);
                field.times(product, field.times(rotations, field.factorial(exponent)))
            })
        };
        let fixed = field.times(index[self.place(&exponents)], symmetries(&exponents));
        field.over(fixed, symmetries(&self.cycles))
    }

    fn index_of(&self, tree: &Tree, shape: usize, field: &Field, known: &mut [Option<Index>]) -> Index {
        if let Some(index) = &known[shape] {
            return index.clone();
        }
        let mut index = self.one();
        let children = &tree.shapes[shape].children;
        if children.is_empty() {
            index[self.place(&[1])] = 1;
        }
        for &(child, nr) in children {
            let of_child = self.index_of(tree, child, field, known);
            let all = self.multisets(&of_child, nr, field);
            index = self.product(&terms(&index), &all, field);
        }
        known[shape] = Some(index.clone());
        index
    }

    /// The cycle index of multisets of `size` structures: m h_m = sum over k = 1..m of psi_k h_(m-k), where psi_k
    /// replaces each p_i by p_ki (Newton's identities).
    fn multisets(&self, of_one: &Index, size: usize, field: &Field) -> Index {
        let replaced: Vec<_> = (1..=size).map(|k| self.replace(of_one, k)).collect();
        let mut of_size = vec![self.one()];
        for m in 1..=size {
            let mut sum = vec![0; self.nr_terms()];
            for k in 1..=m {
                let product = self.product(&replaced[k - 1], &of_size[m - k], field);
                sum.iter_mut()
                    .zip(product)
                    .for_each(|(sum, term)| *sum = field.add(*sum, term));
            }
            let inverse = field.over(1, m as u64);
            sum.iter_mut()
                .for_each(|term| *term = field.times(*term, inverse));
            of_size.push(sum);
        }
        of_size.swap_remove(size)
    }

    fn one(&self) -> Index {
        let mut one = vec![0; self.nr_terms()];
        one[0] = 1;
        one
    }

    /// p_ki in place of each p_i; terms with a variable that is not needed are dropped.
    fn replace(&self, index: &Index, k: usize) -> Vec<(usize, u64)> {
        let target: Vec<_> = self
            .variables
            .iter()
            .map(|i| self.variables.binary_search(&(i * k)).ok())
            .collect();
        let replaced = terms(index).into_iter().filter_map(|(place, coefficient)| {
            let mut new = vec![0; target.len()];
            for (&target, exponent) in target.iter().zip(self.exponents(place)) {
                if exponent > 0 {
                    new[target?] = exponent;
                }
            }
            let fits = new
                .iter()
                .zip(&self.degrees)
                .all(|(exponent, degree)| exponent <= degree);
            fits.then(|| (self.place(&new), coefficient))
        });
        replaced.collect()
    }

    fn product(&self, a: &[(usize, u64)], b: &Index, field: &Field) -> Index {
        let mut product = vec![0; self.nr_terms()];
        let b: Vec<_> = terms(b)
            .into_iter()
            .map(|(place, term)| (place, self.exponents(place), term))
            .collect();
        for &(place_a, term_a) in a {
            let room: Vec<usize> = self
                .degrees
                .iter()
                .zip(self.exponents(place_a))
                .map(|(degree, used)| degree - used)
                .collect();
            for (place_b, exponents, term_b) in &b {
                if exponents
                    .iter()
                    .zip(&room)
                    .all(|(exponent, room)| exponent <= room)
                {
                    let term = &mut product[place_a + place_b];
                    *term = field.add(*term, field.times(term_a, *term_b));
                }
            }
        }
        product
    }

    fn place(&self, exponents: &[usize]) -> usize {
        let digits = exponents.iter().zip(&self.degrees).rev();
        digits.fold(0, |place, (exponent, degree)| place * (degree + 1) + exponent)
    }

    fn exponents(&self, mut place: usize) -> Vec<usize> {
        let digit = |degree: &usize| {
            let exponent = place % (degree + 1);
            place /= degree + 1;
            exponent
        };
        self.degrees.iter().map(digit).collect()
    }
}

/// The terms that are not zero, by place.
fn terms(index: &Index) -> Vec<(usize, u64)> {
    index
        .iter()
        .copied()
        .enumerate()
        .filter(|&(_, coefficient)| coefficient != 0)
        .collect()
}
