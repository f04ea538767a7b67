// SPDX-License-Identifier: GPL-2.0-only
//! Where a guest's instructions go: exact counts for each function of its kernel, from the governor plugin.
//!
//! Unlike sampling this costs the guest nothing, sees code that runs with interrupts off, and counts, so two runs of the
//! same thing can be compared function by function.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, io_error};

/// The form of the JSON.
pub const SCHEMA: &str = "threadwise.profile/1";
/// The layout of `struct profile` in the plugin: a count, then three words a block.
const WORDS: usize = 3;
const MAX_BLOCKS: usize = 1 << 20;
/// The kernel's half of the address space begins here (Documentation/arch/x86/x86_64/mm.rst).
const KERNEL_BEGINS: u64 = 0xffff_8000_0000_0000;

/// A profile, the function with the most instructions first. Functions of the same name count as one, and a block that ends
/// early in a fault counts whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// All instructions.
    pub instructions: u64,
    /// Where they were.
    pub functions: Vec<Function>,
}

/// A function of the kernel, or everything outside it (`[user]`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Its symbol, as in /proc/kallsyms; BPF programs begin with bpf_prog_ and their hash.
    pub name: String,
    /// Its own instructions, without those of what it calls.
    pub instructions: u64,
    /// How often it was entered at its beginning.
    pub calls: u64,
}

impl Profile {
    /// From what the plugin wrote and the guest's /proc/kallsyms, in any order.
    ///
    /// # Errors
    /// If the file cannot be read, holds nothing, or had no room for all blocks.
    pub fn read(path: &Path, kallsyms: &str) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(io_error("read", path))?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes")))
            .collect();
        let (nr, blocks) = words.split_first().unwrap_or((&0, &[]));
        let nr = *nr as usize;
        if nr == 0 || nr > MAX_BLOCKS || blocks.len() < nr * WORDS {
            return Err(Error::InGuest(format!(
                "it was profiled in {nr} blocks of code, where 1 to {MAX_BLOCKS} can be counted"
            )));
        }
        Ok(Self::of(
            blocks
                .chunks_exact(WORDS)
                .take(nr)
                .map(|block| (block[0], block[1], block[2])),
            &Symbols::parse(kallsyms),
        ))
    }

    /// From blocks: where, how many instructions, how often.
    fn of(blocks: impl Iterator<Item = (u64, u64, u64)>, symbols: &Symbols) -> Self {
        let mut functions: HashMap<&str, (u64, u64)> = HashMap::new();
        let mut instructions = 0;
        for (address, nr_insns, nr_runs) in blocks {
            let (begins, name) = symbols.at(address);
            let (own, calls) = functions.entry(name).or_default();
            *own += nr_insns * nr_runs;
            *calls += if begins == address { nr_runs } else { 0 };
            instructions += nr_insns * nr_runs;
        }
        let mut functions: Vec<Function> = functions
            .into_iter()
            .filter(|(_, (own, _))| *own > 0)
            .map(|(name, (own, calls))| Function {
                name: name.to_string(),
                instructions: own,
                calls,
            })
            .collect();
        functions.sort_by(|a, b| (b.instructions, &a.name).cmp(&(a.instructions, &b.name)));
        Self {
            schema: SCHEMA,
            instructions,
            functions,
        }
    }
}

/// The kernel's symbols by address.
struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Lines of an address, a type and a name; others are left out.
    fn parse(kallsyms: &str) -> Self {
        let symbol = |line: &str| {
            let mut fields = line.split_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            fields.next()?;
            (address >= KERNEL_BEGINS).then(|| Some((address, fields.next()?.to_string())))?
        };
        let mut symbols: Vec<(u64, String)> = kallsyms.lines().filter_map(symbol).collect();
        symbols.sort();
        // Of several names for one place the first will do.
        symbols.dedup_by_key(|(address, _)| *address);
        Self(symbols)
    }

    /// The symbol that an address belongs to, and where that begins.
    fn at(&self, address: u64) -> (u64, &str) {
        if address < KERNEL_BEGINS {
            return (0, "[user]");
        }
        let after = self.0.partition_point(|(begins, _)| *begins <= address);
        match after.checked_sub(1).map(|index| &self.0[index]) {
            Some((begins, name)) => (*begins, name),
            None => (0, "[unknown]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plugin_could_not_write_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        let read = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            fs::write(&path, bytes).unwrap();
            Profile::read(&path, "").map(|profile| profile.instructions)
        };
        assert_eq!(read(&[1, 0x1000, 4, 3]).unwrap(), 12);
        for words in [&[][..], &[0], &[2, 0x1000, 4, 3], &[MAX_BLOCKS as u64 + 1]] {
            assert!(
                read(words).unwrap_err().to_string().contains("profiled"),
                "{words:?}"
            );
        }
    }

    #[test]
    fn blocks_belong_to_the_symbol_before_them() {
        let symbols = Symbols::parse(
            "ffffffff81000100 T second\nffffffff81000000 T first [module]\nnonsense\nffffffff81000000 t same\n0 A low\n",
        );
        let blocks = [
            (0xffff_ffff_8100_0000, 3, 10),
            (0xffff_ffff_8100_0010, 7, 10),
            // Translated again.
            (0xffff_ffff_8100_0000, 3, 5),
            (0xffff_ffff_8100_0100, 5, 0),
            (0x40_0000, 2, 4),
            (0xffff_8000_0000_0000, 1, 1),
        ];
        let profile = Profile::of(blocks.into_iter(), &symbols);
        let function = |name: &str, instructions, calls| Function {
            name: name.to_string(),
            instructions,
            calls,
        };
        assert_eq!(profile.instructions, 124);
        assert_eq!(
            profile.functions,
            [
                function("first", 115, 15),
                function("[user]", 8, 0),
                function("[unknown]", 1, 0)
            ]
        );
    }
}
