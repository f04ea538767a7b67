// SPDX-License-Identifier: GPL-2.0-only
//! The number of packets transmitted so far, for those who watch: the main thread, and profilers by way of a file.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::Error;

const BYTES: usize = size_of::<u64>();

/// Eight bytes at the beginning of a page of their own, so that T shares its cache line with nobody who writes.
#[derive(Debug)]
pub struct Counter {
    map: MmapRaw,
}

impl Counter {
    /// A counter that only this process sees, or one in the file at `path`, which is created if need be. It is 0.
    ///
    /// A file that is there is never shortened, as others may have mapped it already.
    ///
    /// # Errors
    /// If the file cannot be created or mapped.
    pub fn new(path: Option<&Path>) -> Result<Self, Error> {
        let map = match path {
            Some(path) => Self::map(path)?,
            None => MmapOptions::new()
                .len(BYTES)
                .map_anon()
                .map_err(|reason| Error::File {
                    action: "map memory for",
                    path: "the packet counter".into(),
                    reason,
                    advice: "free some memory",
                })?
                .into(),
        };
        let counter = Self { map };
        counter.set(0);
        Ok(counter)
    }

    fn map(path: &Path) -> Result<MmapRaw, Error> {
        let error = |action| {
            move |reason| Error::File {
                action,
                path: path.to_owned(),
                reason,
                advice: "give --counter a regular file, or one to be created, that may be written",
            }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(error("open"))?;
        let bytes = file.metadata().map_err(error("open"))?.len();
        if bytes < BYTES as u64 {
            file.set_len(BYTES as u64).map_err(error("extend"))?;
        }
        MmapOptions::new().len(BYTES).map_raw(&file).map_err(error("map"))
    }

    /// Publishes `packets`. Only T calls this during a run.
    #[inline]
    pub fn set(&self, packets: u64) {
        self.cell().store(packets.to_le(), Ordering::Relaxed);
    }

    /// What was published last.
    pub fn get(&self) -> u64 {
        u64::from_le(self.cell().load(Ordering::Relaxed))
    }

    #[inline]
    fn cell(&self) -> &AtomicU64 {
        // SAFETY: the map has 8 bytes, is aligned to a page, and lives as long as the reference. This process touches
        // it by this cell only; other processes are asked to read only, and whatever they write is some number.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_holds_the_count_in_little_endian() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        let counter = Counter::new(Some(&path)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [0; 8]);
        counter.set(0x0102_0304);
        assert_eq!(fs::read(&path).unwrap(), [4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(counter.get(), 0x0102_0304);
    }

    #[test]
    fn a_file_that_is_there_begins_anew_and_keeps_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        fs::write(&path, [7; 10]).unwrap();
        Counter::new(Some(&path)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [0, 0, 0, 0, 0, 0, 0, 0, 7, 7]);
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            folder.path().to_owned(),
            "/dev/null".into(),
            folder.path().join("no/file"),
        ] {
            let error = Counter::new(Some(&path)).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn without_a_file_it_counts_as_well() {
        let counter = Counter::new(None).unwrap();
        counter.set(5);
        assert_eq!(counter.get(), 5);
    }
}
