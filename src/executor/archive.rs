//! Files to tar and back, in bounded memory and without following anything that points elsewhere.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use bytes::Bytes;
use tar::{Archive, Builder, EntryType, Header, PaxExtensions};

use crate::executor::outcome::Artifact;
use crate::plan::PlannedFile;

/// Records of a tar archive are padded to this many bytes (POSIX ustar).
const BLOCK: usize = 512;

/// The longest name or extended header that is read into memory; Linux' PATH_MAX is 4096.
const MOST_NAME_BYTES: u64 = 8 * 1024;

/// The most files that one result holds, and the most names without content that are remembered.
const MOST_FILES: usize = 1000;

/// The archive of the input files, as chunks to be sent in order. Contents are shared, not copied.
///
/// # Errors
/// An [`io::Error`] when a path cannot be put into an archive (a NUL byte).
pub fn pack(files: &[PlannedFile], mtime: u64) -> io::Result<Vec<Bytes>> {
    let mut chunks = Vec::with_capacity(files.len() * 3 + 1);
    for file in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(file.mode);
        header.set_uid(0);
        header.set_gid(0);
        // GNU tar complains about files from 1970.
        header.set_mtime(mtime);
        header.set_size(file.content.len() as u64);
        // With an empty body the builder writes the header alone, after a long-name record where one is needed.
        let mut builder = Builder::new(Vec::new());
        builder.append_data(&mut header, &file.path, io::empty())?;
        chunks.push(Bytes::from(builder.get_ref().clone()));
        chunks.push(file.content.clone());
        let padding = file.content.len().next_multiple_of(BLOCK) - file.content.len();
        chunks.push(Bytes::from(vec![0; padding]));
    }
    chunks.push(Bytes::from_static(&[0; BLOCK * 2]));
    Ok(chunks)
}

/// The files of a work directory.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// New and changed files, sorted by name.
    pub artifacts: Vec<Artifact>,
    /// How many files did not fit.
    pub left_out: u64,
    /// Why the archive could not be read to its end, when it could not.
    pub problem: Option<String>,
}

/// Reads an archive of the work directory. Regular files only, under each of their names: symbolic links,
/// devices and names that lead out of the directory are passed over. A file that equals its input is no
/// artifact; one that does not fit into the rest of `cap` is left out whole.
pub fn unpack(stream: impl Read, inputs: &[PlannedFile], cap: u64) -> Unpacked {
    let mut reader =
        Reader { unpacked: Unpacked::default(), inputs, room: cap, seen: HashMap::new(), nameless: 0 };
    let problem = reader.read(stream).err();
    let mut unpacked = reader.unpacked;
    unpacked.problem = problem.map(|error| error.to_string());
    unpacked.artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    unpacked
}

/// What became of a name, for the hard links to it that follow.
enum Seen {
    /// A file, returned or equal to its input; its content.
    Content(Bytes),
    /// Passed over: neither are its hard links regular files.
    NoFile,
}

struct Reader<'a> {
    unpacked: Unpacked,
    inputs: &'a [PlannedFile],
    room: u64,
    /// Bounded by the artifacts, the inputs and [`MOST_FILES`]. Contents are shared with them.
    seen: HashMap<String, Seen>,
    /// How many of them are no files.
    nameless: usize,
}

impl Reader<'_> {
    fn read(&mut self, stream: impl Read) -> io::Result<()> {
        let mut archive = Archive::new(stream);
        let mut long_name: Option<Vec<u8>> = None;
        let mut long_target: Option<Vec<u8>> = None;
        // Raw: the crate would read extended headers of any size into memory by itself.
        for entry in archive.entries()?.raw(true) {
            let mut entry = entry?;
            let kind = entry.header().entry_type();
            if kind.is_gnu_longname() || kind.is_gnu_longlink() {
                let mut name = small(&mut entry)?;
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                let long = if kind.is_gnu_longname() { &mut long_name } else { &mut long_target };
                *long = Some(name);
                continue;
            }
            if kind.is_pax_local_extensions() {
                let records = small(&mut entry)?;
                for record in PaxExtensions::new(&records) {
                    let record = record?;
                    match record.key_bytes() {
                        b"path" => long_name = Some(record.value_bytes().to_vec()),
                        b"linkpath" => long_target = Some(record.value_bytes().to_vec()),
                        b"size" => return Err(io::Error::other("a file is too large for its header")),
                        _ => {}
                    }
                }
                continue;
            }
            if kind.is_pax_global_extensions() {
                continue;
            }
            let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
            let target = long_target.take().or_else(|| entry.link_name_bytes().map(|name| name.into_owned()));
            let Some(name) = relative(&name) else {
                continue;
            };
            if kind.is_file() {
                let size = entry.header().entry_size()?;
                self.file(name, size, &mut entry)?;
            } else if kind.is_hard_link() {
                self.link(name, target.as_deref().and_then(relative));
            } else if self.nameless < MOST_FILES && !kind.is_dir() {
                self.nameless += 1;
                self.seen.insert(name.text, Seen::NoFile);
            }
        }
        Ok(())
    }

    fn file(&mut self, name: Name, size: u64, entry: &mut impl Read) -> io::Result<()> {
        // An unchanged input is recognised even where it would not fit.
        let most = self.input(&name).map_or(0, |file| file.content.len() as u64).max(self.room);
        if size > most {
            self.unpacked.left_out += 1;
            return Ok(());
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if content.len() as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.keep(name, content.into());
        Ok(())
    }

    /// Another name of a file that came before: tar stores the content under the first alone. A target that was
    /// left out, or that never came, leaves its links out too.
    fn link(&mut self, name: Name, target: Option<Name>) {
        match target.and_then(|target| self.seen.get(&target.text)) {
            Some(Seen::Content(content)) => {
                let content = content.clone();
                self.keep(name, content);
            }
            Some(Seen::NoFile) => {}
            None => self.unpacked.left_out += 1,
        }
    }

    fn keep(&mut self, name: Name, content: Bytes) {
        let size = content.len() as u64;
        let unchanged = self.input(&name).is_some_and(|file| file.content == content);
        let fits = size <= self.room && self.unpacked.artifacts.len() < MOST_FILES;
        // No archive of a directory has a name twice; a result with one could not say which is which.
        if self.seen.contains_key(&name.text) || !(unchanged || fits) {
            self.unpacked.left_out += 1;
            return;
        }
        self.seen.insert(name.text.clone(), Seen::Content(content.clone()));
        if !unchanged {
            self.room -= size;
            self.unpacked.artifacts.push(Artifact { name: name.text, content });
        }
    }

    fn input(&self, name: &Name) -> Option<&PlannedFile> {
        self.inputs.iter().find(|file| name.verbatim && file.path == name.text)
    }
}

fn small(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    entry.take(MOST_NAME_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_NAME_BYTES {
        return Err(io::Error::other("a file's name is too long"));
    }
    Ok(bytes)
}

/// A path below the work directory, without `.`.
struct Name {
    text: String,
    /// Whether the text is the name itself. A name that is not UTF-8 is written with its other bytes as `\xff`
    /// and its backslashes doubled, so that two such names stay two.
    verbatim: bool,
}

/// `None` when the path leads elsewhere.
fn relative(name: &[u8]) -> Option<Name> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.as_bytes()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let path = parts.join(&b'/');
    if path.is_empty() {
        return None;
    }
    Some(match String::from_utf8(path) {
        Ok(text) => Name { text, verbatim: true },
        Err(error) => Name { text: escaped(error.as_bytes()), verbatim: false },
    })
}

fn escaped(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            // Writing into a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests;
