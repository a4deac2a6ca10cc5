//! Files to tar and back, in bounded memory and without following anything that points elsewhere.

use std::io::{self, Read};
use std::path::{Component, Path};

use bytes::Bytes;
use tar::{Archive, Builder, EntryType, Header, PaxExtensions};

use crate::executor::outcome::Artifact;
use crate::plan::PlannedFile;

/// Records of a tar archive are padded to this many bytes (POSIX ustar).
const BLOCK: usize = 512;

/// The longest name or extended header that is read into memory; Linux' PATH_MAX is 4096.
const MOST_NAME_BYTES: u64 = 8 * 1024;

/// The most files that one result holds.
const MOST_FILES: usize = 1000;

/// The archive of the input files, as chunks to be sent in order. Contents are shared, not copied.
///
/// # Errors
/// An [`io::Error`] when a path cannot be put into an archive (a NUL byte).
pub(crate) fn pack(files: &[PlannedFile], mtime: u64) -> io::Result<Vec<Bytes>> {
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
pub(crate) struct Unpacked {
    /// New and changed files, sorted by name.
    pub(crate) artifacts: Vec<Artifact>,
    /// How many files did not fit.
    pub(crate) left_out: u64,
    /// Why the archive could not be read to its end, when it could not.
    pub(crate) problem: Option<String>,
}

/// Reads an archive of the work directory. Regular files only: links, devices and names that lead out of the
/// directory are passed over. A file that equals its input is no artifact; one that does not fit into the
/// rest of `cap` is left out whole.
pub(crate) fn unpack(stream: impl Read, inputs: &[PlannedFile], cap: u64) -> Unpacked {
    let mut unpacked = Unpacked::default();
    if let Err(error) = read_into(&mut unpacked, stream, inputs, cap) {
        unpacked.problem = Some(error.to_string());
    }
    unpacked.artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    unpacked
}

fn read_into(unpacked: &mut Unpacked, stream: impl Read, inputs: &[PlannedFile], cap: u64) -> io::Result<()> {
    let mut archive = Archive::new(stream);
    let mut room = cap;
    let mut long_name: Option<Vec<u8>> = None;
    // Raw: the crate would read extended headers of any size into memory by itself.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() {
            let mut name = small(&mut entry)?;
            name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
            long_name = Some(name);
            continue;
        }
        if kind.is_pax_local_extensions() {
            let records = small(&mut entry)?;
            for record in PaxExtensions::new(&records) {
                let record = record?;
                match record.key_bytes() {
                    b"path" => long_name = Some(record.value_bytes().to_vec()),
                    b"size" => return Err(io::Error::other("a file is too large for its header")),
                    _ => {}
                }
            }
            continue;
        }
        if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let (true, Some(name)) = (kind.is_file(), relative(&name)) else {
            continue;
        };
        let size = entry.header().entry_size()?;
        let input = inputs.iter().find(|file| file.path == name);
        // An unchanged input is recognised even where it would not fit.
        let most = input.map_or(0, |file| file.content.len() as u64).max(room);
        if size > most || unpacked.artifacts.len() >= MOST_FILES {
            unpacked.left_out += 1;
            continue;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if content.len() as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if input.is_some_and(|file| file.content == content) {
            continue;
        }
        if size > room {
            unpacked.left_out += 1;
            continue;
        }
        room -= size;
        unpacked.artifacts.push(Artifact { name, content: content.into() });
    }
    Ok(())
}

fn small(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    entry.take(MOST_NAME_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_NAME_BYTES {
        return Err(io::Error::other("a file's name is too long"));
    }
    Ok(bytes)
}

/// The path below the work directory, without `.`; `None` when it leads elsewhere.
fn relative(name: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(name);
    let mut parts = Vec::new();
    for component in Path::new(name.as_ref()).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests;
