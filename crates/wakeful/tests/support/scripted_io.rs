//! A reader and writer that follow a script, step by step.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use wakeful::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::rng::TestRng;

/// The action of a [`ScriptedIo`] in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Returns these bytes. If the buffer is too small, the next call returns the rest.
    Give(Vec<u8>),
    /// Accepts at most this number of bytes.
    Take(usize),
    /// Returns `Pending`, and wakes the task at once.
    Wait,
    /// Returns `Pending`, and never wakes the task.
    Hang,
    /// Returns an error.
    Fail(ErrorKind),
}

/// Creates an action that returns these bytes.
pub fn give(bytes: impl AsRef<[u8]>) -> Act {
    Act::Give(bytes.as_ref().to_vec())
}

/// A stream with a script for each direction. After the end of its script, a reader is at end of file, and a
/// writer accepts all bytes.
#[derive(Debug, Default)]
pub struct ScriptedIo {
    pub reads: VecDeque<Act>,
    pub writes: VecDeque<Act>,
    pub flushes: VecDeque<Act>,
    pub is_vectored: bool,
    /// The bytes that were written.
    pub written: Vec<u8>,
    /// All calls, including refused ones: `"read 4"` (with the buffer's space), `"write 4"`, `"write 2+3"`,
    /// `"flush"`, `"shutdown"`.
    pub log: Vec<String>,
}

impl ScriptedIo {
    pub fn reads(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { reads: acts.into_iter().collect(), ..Self::default() }
    }

    pub fn writes(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { writes: acts.into_iter().collect(), ..Self::default() }
    }

    pub fn vectored(mut self) -> Self {
        self.is_vectored = true;
        self
    }

    /// Returns a script that gives `bytes` in pieces of random sizes, with random waits and interruptions.
    pub fn in_pieces(mut bytes: &[u8], largest: usize, rng: &mut TestRng) -> VecDeque<Act> {
        let mut acts = VecDeque::new();
        while !bytes.is_empty() {
            acts.extend(hindrance(rng));
            let (piece, rest) = bytes.split_at((1 + rng.below(largest)).min(bytes.len()));
            acts.push_back(give(piece));
            bytes = rest;
        }
        acts.extend(hindrance(rng));
        acts
    }

    /// Returns a script that accepts `count` pieces of random sizes, with random waits and interruptions.
    pub fn takes(count: usize, largest: usize, rng: &mut TestRng) -> VecDeque<Act> {
        let mut acts = VecDeque::new();
        for _ in 0..count {
            acts.extend(hindrance(rng));
            acts.push_back(Act::Take(1 + rng.below(largest)));
        }
        acts
    }

    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn write(&mut self, cx: &mut Context<'_>, bufs: &[&[u8]]) -> Poll<io::Result<usize>> {
        let sizes: Vec<String> = bufs.iter().map(|buf| buf.len().to_string()).collect();
        self.log.push(format!("write {}", sizes.join("+")));
        let most = match self.writes.pop_front() {
            None => usize::MAX,
            Some(Act::Take(most)) => most,
            Some(other) => return hinder(cx, &other),
        };
        let all = bufs.concat();
        let taken = &all[..all.len().min(most)];
        self.written.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }
}

fn hindrance(rng: &mut TestRng) -> Option<Act> {
    match rng.below(6) {
        0 | 1 => Some(Act::Wait),
        2 => Some(Act::Fail(ErrorKind::Interrupted)),
        _ => None,
    }
}

fn hinder<T>(cx: &mut Context<'_>, act: &Act) -> Poll<io::Result<T>> {
    match act {
        Act::Wait => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Act::Hang => Poll::Pending,
        Act::Fail(kind) => Poll::Ready(Err((*kind).into())),
        other => panic!("not in this direction: {other:?}"),
    }
}

impl AsyncRead for ScriptedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.log.push(format!("read {}", buf.remaining()));
        match self.reads.pop_front() {
            None => Poll::Ready(Ok(())),
            Some(Act::Give(mut bytes)) => {
                let rest = bytes.split_off(bytes.len().min(buf.remaining()));
                buf.put_slice(&bytes);
                if !rest.is_empty() {
                    self.reads.push_front(Act::Give(rest));
                }
                Poll::Ready(Ok(()))
            }
            Some(other) => hinder(cx, &other),
        }
    }
}

impl AsyncWrite for ScriptedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, &[buf])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.log.push("flush".into());
        self.flushes.pop_front().map_or(Poll::Ready(Ok(())), |act| hinder(cx, &act))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.log.push("shutdown".into());
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_vectored {
            let bufs: Vec<&[u8]> = bufs.iter().map(|buf| &**buf).collect();
            self.write(cx, &bufs)
        } else {
            let first = bufs.iter().find(|buf| !buf.is_empty());
            self.poll_write(cx, first.map_or(&[], |buf| buf))
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.is_vectored
    }
}
