//! A container's output, kept in files: bounded, with the time of every line.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

/// Size of one file. With [`FILES`] of them at least the newest 64 MiB of a container's output remain.
const FILE_BYTES: u64 = 32 << 20;

/// How many files are kept.
const FILES: usize = 3;

/// How many times are remembered at most; beyond that neighbours share one.
const TIMES: usize = 100_000;

/// A container's output. Positions count all bytes ever written; the oldest may be gone.
#[derive(Debug)]
pub struct Log {
    inner: Mutex<Inner>,
    grown: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    files: VecDeque<Segment>,
    end: u64,
    /// When the bytes from each position on were written.
    times: VecDeque<(u64, Timestamp)>,
    closed: bool,
}

#[derive(Debug, Clone)]
struct Segment {
    start: u64,
    file: Arc<File>,
    path: PathBuf,
}

impl Log {
    /// An empty log whose files will be in `directory`.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        let inner =
            Inner { directory, files: VecDeque::new(), end: 0, times: VecDeque::new(), closed: false };
        Self { inner: Mutex::new(inner), grown: watch::Sender::new(0) }
    }

    /// Adds output.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.files.back().is_none_or(|last| inner.end - last.start >= FILE_BYTES) {
            inner.rotate()?;
        }
        if let Some(last) = inner.files.back() {
            (&*last.file).write_all(bytes)?;
        }
        let start = inner.end;
        inner.end += bytes.len() as u64;
        inner.mark(start);
        self.grown.send_replace(inner.end);
        Ok(())
    }

    /// No more output will come.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        self.grown.send_modify(|_| {});
    }

    /// Whether no more output will come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Wakes when output was added or the log was closed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// The positions of the oldest byte kept and of the end.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.start(), inner.end)
    }

    /// Some of the output from `position` on: up to `limit` bytes, empty at the end. A position whose bytes
    /// are gone continues with the oldest kept; the position of the first byte returned comes along.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn read(&self, position: u64, limit: usize) -> io::Result<(u64, Vec<u8>)> {
        let (position, segment, available) = {
            let inner = self.lock();
            let position = position.max(inner.start());
            let Some(index) = inner.files.iter().rposition(|segment| segment.start <= position) else {
                return Ok((position, Vec::new()));
            };
            let end = inner.files.get(index + 1).map_or(inner.end, |next| next.start);
            let Some(segment) = inner.files.get(index).cloned() else {
                return Ok((position, Vec::new()));
            };
            (position, segment, end.saturating_sub(position))
        };
        // The file stays readable when it is rotated away meanwhile.
        let wanted = usize::try_from(available).unwrap_or(usize::MAX).min(limit);
        let mut bytes = vec![0; wanted];
        segment.file.read_exact_at(&mut bytes, position - segment.start)?;
        Ok((position, bytes))
    }

    /// Where the last `lines` lines start.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn tail(&self, lines: u64) -> io::Result<u64> {
        const STEP: u64 = 64 << 10;
        let (start, end) = self.range();
        if lines == 0 {
            return Ok(end);
        }
        let mut found = 0;
        let mut upper = end;
        while upper > start {
            let lower = upper.saturating_sub(STEP).max(start);
            let bytes = self.read_range(lower, upper)?;
            for (offset, byte) in bytes.iter().enumerate().rev() {
                let position = lower + offset as u64;
                // The newline that ends the log ends its last line; it starts none.
                if *byte == b'\n' && position + 1 < end {
                    found += 1;
                    if found == lines {
                        return Ok(position + 1);
                    }
                }
            }
            upper = lower;
        }
        Ok(start)
    }

    /// Where the output written at or after `time` starts.
    #[must_use]
    pub fn since(&self, time: Timestamp) -> u64 {
        let inner = self.lock();
        inner.times.iter().find(|(_, at)| *at >= time).map_or(inner.end, |(position, _)| *position)
    }

    /// When the byte at `position` was written.
    #[must_use]
    pub fn time_of(&self, position: u64) -> Timestamp {
        let inner = self.lock();
        let after = inner.times.partition_point(|(start, _)| *start <= position);
        let known = after.checked_sub(1).and_then(|index| inner.times.get(index));
        known.map_or(Timestamp::UNIX_EPOCH, |(_, time)| *time)
    }

    fn read_range(&self, lower: u64, upper: u64) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut position = lower;
        while position < upper {
            let (_, bytes) = self.read(position, usize::try_from(upper - position).unwrap_or(usize::MAX))?;
            if bytes.is_empty() {
                break;
            }
            position += bytes.len() as u64;
            all.extend(bytes);
        }
        Ok(all)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn start(&self) -> u64 {
        self.files.front().map_or(self.end, |first| first.start)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let path = self.directory.join(format!("{:020}.log", self.end));
        let file = File::options().create_new(true).read(true).append(true).open(&path)?;
        self.files.push_back(Segment { start: self.end, file: Arc::new(file), path });
        if self.files.len() > FILES
            && let Some(oldest) = self.files.pop_front()
        {
            // A file that stays only takes room until the pod's directory goes.
            let _ = std::fs::remove_file(oldest.path);
            let start = self.start();
            while self.times.get(1).is_some_and(|(position, _)| *position <= start) {
                self.times.pop_front();
            }
        }
        Ok(())
    }

    fn mark(&mut self, start: u64) {
        let now = Timestamp::now();
        let newest = self.times.back().map(|(_, time)| *time);
        // Writes within one millisecond share a time, so that a chatty container costs little.
        let close = newest.is_some_and(|t| now.as_millisecond() == t.as_millisecond());
        if !close && self.times.len() < TIMES {
            self.times.push_back((start, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(text: &[u8]) -> (tempfile::TempDir, Log) {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::new(directory.path().to_owned());
        log.append(text).unwrap();
        (directory, log)
    }

    /// `tail -n` on the same text.
    #[test]
    fn tail_counts_lines_as_tail_does() {
        for (text, lines, expected) in [
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc\n", 9, "a\nb\nc\n"),
            ("a\nb\nc", 1, "c"),
            ("a\nb\nc", 2, "b\nc"),
            ("\n\n\n", 1, "\n"),
            ("a\n", 0, ""),
        ] {
            let (_directory, log) = log_of(text.as_bytes());
            let start = usize::try_from(log.tail(lines).unwrap()).unwrap();
            assert_eq!(text.get(start..), Some(expected), "{text:?} {lines}");
        }
    }

    #[test]
    fn the_newest_output_survives_rotation() {
        let (_directory, log) = log_of(b"");
        let block = vec![b'x'; 8 << 20];
        for _ in 0..20 {
            log.append(&block).unwrap();
        }
        log.append(b"\nthe end\n").unwrap();
        let (start, end) = log.range();
        assert!(end - start >= 64 << 20, "{}", end - start);
        assert!(end - start <= 3 * (40 << 20));
        let (position, bytes) = log.read(log.tail(1).unwrap(), 100).unwrap();
        assert_eq!((position, bytes.as_slice()), (end - 8, b"the end\n".as_slice()));
        assert_eq!(log.read(0, 3).unwrap().0, start);
    }
}
