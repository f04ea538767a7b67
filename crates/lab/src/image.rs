// SPDX-License-Identifier: GPL-2.0-only
//! The guest's root file system: an initramfs with the programs under test and the libraries that
//! they load.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::NewcBuilder;

use crate::error::{Error, io_error};

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// Collects files, then writes them as a newc archive (Documentation/driver-api/early-userspace/buffer-format.rst).
#[derive(Default)]
pub struct Image {
    /// Guest path without the leading slash, to host path; none for a directory.
    files: BTreeMap<PathBuf, Option<PathBuf>>,
}

impl Image {
    /// Puts the host's file at a path of the guest, with its folders.
    pub fn add(&mut self, guest: impl AsRef<Path>, host: impl AsRef<Path>) {
        let guest = guest.as_ref().strip_prefix("/").unwrap_or(guest.as_ref());
        for folder in guest
            .ancestors()
            .skip(1)
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            self.files.entry(folder.to_path_buf()).or_insert(None);
        }
        self.files
            .insert(guest.to_path_buf(), Some(host.as_ref().to_path_buf()));
    }

    /// Puts a program into the guest's /bin, and the libraries that it loads where it looks for them. One that is named by its
    /// path, or any other file, is at the same path in the guest, below its root if that is relative.
    ///
    /// # Errors
    /// If the program is not there or `ldd` cannot be run.
    pub fn add_program(&mut self, name: &str, host: &Path) -> Result<(), Error> {
        if !host.is_file() {
            return Err(Error::Missing {
                what: format!("the program {}", host.display()),
            });
        }
        match name.contains('/') {
            true => self.add(name, host),
            false => self.add(Path::new("bin").join(name), host),
        }
        let output = Command::new("ldd")
            .arg(host)
            .output()
            .map_err(io_error("run ldd on", host))?;
        for library in libraries(&String::from_utf8_lossy(&output.stdout)) {
            self.add(&library, &library);
        }
        Ok(())
    }

    /// Writes the archive. A file that is in several places is a symbolic link in all but the first.
    ///
    /// # Errors
    /// If a file cannot be read or the archive cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let write = || -> io::Result<()> {
            let mut archive = io::BufWriter::new(File::create(path)?);
            let mut places = BTreeMap::new();
            for (inode, (name, host)) in self.files.iter().enumerate() {
                let first = host.as_ref().map(|host| *places.entry(host).or_insert(name));
                let (mode, content) = match (host, first) {
                    (Some(_), Some(first)) if first != name => {
                        (LINK, Path::new("/").join(first).into_os_string().into_vec())
                    }
                    (Some(host), _) => (
                        EXECUTABLE,
                        fs::read(host).map_err(|e| io::Error::other(format!("{}: {e}", host.display())))?,
                    ),
                    (None, _) => (DIRECTORY, Vec::new()),
                };
                let mut file = NewcBuilder::new(&name.to_string_lossy())
                    .ino(inode as u32 + 1)
                    .mode(mode)
                    .nlink(1)
                    .write(archive, content.len() as u32);
                file.write_all(&content)?;
                archive = file.finish()?;
            }
            cpio::newc::trailer(archive)?.flush()
        };
        write().map_err(io_error("write the image", path))
    }
}

/// The absolute paths in what ldd prints: `libc.so.6 => /lib/... (0x...)` or `/lib64/ld-linux... (0x...)`.
fn libraries(ldd: &str) -> Vec<PathBuf> {
    ldd.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_absolute_paths() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(ldd),
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libelf.so.1"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert!(libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn the_archive_is_what_cpio_reads() {
        let folder = tempfile::tempdir().unwrap();
        let (content, archive) = (folder.path().join("hello"), folder.path().join("image.cpio"));
        fs::write(&content, "guest").unwrap();
        let mut image = Image::default();
        image.add("/usr/share/hello", &content);
        image.add("/welcome", &content);
        image.write(&archive).unwrap();
        let unpacked = Command::new("cpio")
            .args(["-i", "-d", "-v"])
            .current_dir(folder.path())
            .stdin(File::open(&archive).unwrap())
            .output()
            .unwrap();
        assert!(
            String::from_utf8_lossy(&unpacked.stderr)
                .starts_with("usr\nusr/share\nusr/share/hello\nwelcome\n"),
            "{unpacked:?}"
        );
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("usr/share/hello"), "guest");
        let link = fs::read_link(folder.path().join("welcome")).unwrap();
        assert_eq!(link, Path::new("/usr/share/hello"), "not once more");
    }

    #[test]
    fn a_file_that_is_named_by_its_path_is_there_in_the_guest() {
        let folder = tempfile::tempdir().unwrap();
        let load = folder.path().join("load");
        fs::write(&load, "Flush").unwrap();
        let place = |name: &str| {
            let mut image = Image::default();
            image.add_program(name, &load).unwrap();
            let files = image.files.into_iter().filter(|(_, host)| host.is_some());
            files.map(|(guest, _)| guest).collect::<Vec<_>>()
        };
        assert_eq!(place("workloads/load"), [PathBuf::from("workloads/load")]);
        assert_eq!(place("/usr/share/load"), [PathBuf::from("usr/share/load")]);
        assert_eq!(place("load"), [PathBuf::from("bin/load")]);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Image::default()
            .add_program("x", Path::new("/no/such/program"))
            .unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}
