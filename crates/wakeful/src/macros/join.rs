//! `join!`: run several futures side by side in one task until all are done; and the list that `try_join!` shares.
//!
//! `join!(a, b)` builds a list of [`MaybeDone`]s in the caller's frame, pins it there and awaits a [`Join`] that borrows
//! it. Each poll walks the list twice: from the member whose turn it is to the end, then from the front to that member.
//! When all are done the `Join` hands the list back and the macro takes the outputs out.

use core::ops::{ControlFlow, Range};
use core::pin::Pin;
use core::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::list::{List, Visit};

/// Waits for several futures at once and returns all their outputs as a tuple.
///
/// The futures run on the current task: concurrently, but never in parallel, so they may borrow from the surrounding
/// function, and one that blocks the thread holds up the others. To use more than one thread, spawn tasks and join
/// their handles.
///
/// ```
/// # futures::executor::block_on(async {
/// async fn length(text: &str) -> usize { text.len() }
///
/// let words = String::from("waking up");
/// let (long, short) = wakeful::join!(length(&words), length(&words[..6]));
/// assert_eq!((long, short), (9, 6));
/// # });
/// ```
///
/// Anything that implements [`IntoFuture`](core::future::IntoFuture) will do. Nothing is allocated: the futures are
/// kept in the frame of the caller, and a future is dropped as soon as it has finished.
///
/// `join!` waits for every future even if some of them return an error. [`try_join!`](crate::try_join) stops at the
/// first error.
///
/// # Who goes first
///
/// Each time the task is polled, a different future is polled first: the first in the list, then the second, and so
/// on. A future that uses up the task's budget thus cannot keep the others from running.
///
/// Starting with `biased;` turns this off: the futures are polled in the order in which they are written, every time.
/// That saves a counter, and it is then up to you that a busy future does not come before one that must not starve.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::cell::RefCell;
///
/// let order = RefCell::new(Vec::new());
/// let note = |name| { let order = &order; async move { order.borrow_mut().push(name) } };
///
/// wakeful::join!(biased; note("first"), note("second"));
/// assert_eq!(*order.borrow(), ["first", "second"]);
/// # });
/// ```
#[macro_export]
macro_rules! join {
    ($(biased;)?) => { () };
    (biased; $($future:expr),+ $(,)?) => {
        $crate::__join!(InOrder [] $($future,)+)
    };
    ($($future:expr),+ $(,)?) => {
        $crate::__join!(Rotating [] $($future,)+)
    };
}

/// Gives each future of a `join!` a name of its own (always `member`, but each from an expansion of its own, and thereby
/// different); then builds the list, drives it and takes it apart.
#[doc(hidden)]
#[macro_export]
macro_rules! __join {
    ($order:ident [$($members:tt)*] $future:expr, $($rest:tt)*) => {
        $crate::__join!($order [$($members)* (member $future)] $($rest)*)
    };
    ($order:ident [$(($member:ident $future:expr))+]) => {{
        $( let $member = $future; )+
        let members =
            ::core::pin::pin!($crate::__list!($(($crate::macros::support::MaybeDone::new($member)))+));
        let order = $crate::macros::support::$order::default();
        let members = $crate::macros::support::Join::new(members, order).await;
        $crate::__join_split!(members $($member)+);
        ($($member.take(),)+)
    }};
}

/// Takes a pinned list apart: each name becomes the pin of an element.
#[doc(hidden)]
#[macro_export]
macro_rules! __join_split {
    ($list:ident) => {
        let $crate::macros::support::End = *$list;
    };
    ($list:ident $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident $($rest:ident)*) => {
        let ($a, $b, $c, $d, $e, $f, $g, $h, $list) = $list.split();
        $crate::__join_split!($list $($rest)*);
    };
    ($list:ident $($element:ident)+) => {
        let ($($element,)+) = $list.split();
    };
}

pin_project! {
    /// A future, then what it returned, then nothing.
    ///
    /// `repr(C)`, so that the discriminant has a place of its own: in a niche of the future it would be read through
    /// this enum while the pinned future may hold references into itself.
    #[repr(C)]
    #[project = MaybeDoneProj]
    #[project_replace = MaybeDoneOwned]
    pub enum MaybeDone<F: Future> {
        /// Still to be polled.
        Running { #[pin] future: F },
        /// Finished: the future is dropped, its output waits to be taken.
        Done { output: F::Output },
        /// The output was taken.
        Taken,
    }
}

impl<F: Future> MaybeDone<F> {
    /// A future that is still to be polled.
    #[inline]
    pub fn new(future: impl IntoFuture<IntoFuture = F, Output = F::Output>) -> Self {
        MaybeDone::Running { future: future.into_future() }
    }

    /// Polls the future unless it has finished. True once there is an output.
    #[inline]
    pub(super) fn poll_done(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let output = match self.as_mut().project() {
            MaybeDoneProj::Running { future } => match future.poll(cx) {
                Poll::Ready(output) => output,
                Poll::Pending => return false,
            },
            MaybeDoneProj::Done { .. } => return true,
            MaybeDoneProj::Taken => {
                unreachable!("a joined future was polled after its output was taken")
            }
        };
        self.set(MaybeDone::Done { output });
        true
    }

    /// The output, if there is one that nobody has taken.
    #[inline]
    pub(super) fn output(self: Pin<&mut Self>) -> Option<&mut F::Output> {
        match self.project() {
            MaybeDoneProj::Done { output } => Some(output),
            _ => None,
        }
    }

    /// Takes the output, once `poll_done` has said that there is one.
    #[inline]
    pub fn take(self: Pin<&mut Self>) -> F::Output {
        match self.project_replace(MaybeDone::Taken) {
            MaybeDoneOwned::Done { output } => output,
            _ => unreachable!("the output of a joined future was taken before it was there"),
        }
    }
}

/// One walk over the members, front to back: polls those whose position lies in `window`.
pub struct Walk<'a, 'cx> {
    /// The position of the member that comes next.
    position: u32,
    window: &'a Range<u32>,
    /// Whether all members that were polled are done.
    all_done: bool,
    cx: &'a mut Context<'cx>,
}

impl<F: Future> Visit<MaybeDone<F>> for Walk<'_, '_> {
    #[inline]
    fn visit(&mut self, member: Pin<&mut MaybeDone<F>>) -> ControlFlow<()> {
        if self.window.contains(&self.position) {
            self.all_done &= member.poll_done(self.cx);
        }
        self.position += 1;
        ControlFlow::Continue(())
    }
}

/// A list of [`MaybeDone`]s.
pub trait Members: for<'a, 'cx> List<Walk<'a, 'cx>> {}

impl<L> Members for L where L: for<'a, 'cx> List<Walk<'a, 'cx>> {}

/// Which member is polled first.
pub trait PollOrder {
    /// The position to start from in this poll, below `count`.
    fn first(&mut self, count: u32) -> u32;

    /// The two walks over the list that begin at [`first`](PollOrder::first) and reach everyone once.
    #[inline]
    fn windows(&mut self, count: u32) -> [Range<u32>; 2] {
        let first = self.first(count);
        [first..count, 0..first]
    }
}

/// A different member each time, in turn.
#[derive(Default)]
pub struct Rotating {
    /// The position to start from in the next poll.
    next: u32,
}

impl PollOrder for Rotating {
    #[inline]
    fn first(&mut self, count: u32) -> u32 {
        let first = self.next;
        self.next = if first + 1 == count { 0 } else { first + 1 };
        first
    }
}

/// Always the first, as `biased;` asks.
#[derive(Default)]
pub struct InOrder;

impl PollOrder for InOrder {
    #[inline]
    fn first(&mut self, _: u32) -> u32 {
        0
    }
}

/// Polls a pinned list of members until all are done, and gives the list back.
#[must_use = "futures do nothing unless polled"]
pub struct Join<'list, L, O> {
    /// The list; gone once it was handed back.
    members: Option<Pin<&'list mut L>>,
    /// Whose turn it is.
    order: O,
}

impl<'list, L: Members, O: PollOrder> Join<'list, L, O> {
    /// Joins the members of a list that is pinned in the caller's frame.
    #[inline]
    pub fn new(members: Pin<&'list mut L>, order: O) -> Self {
        Join { members: Some(members), order }
    }
}

impl<'list, L: Members, O: PollOrder + Unpin> Future for Join<'list, L, O> {
    type Output = Pin<&'list mut L>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let windows = self.order.windows(L::LEN);
        let mut members = self.members.take().expect("a join! was polled after it was done");
        let mut all_done = true;
        for window in &windows {
            if !window.is_empty() {
                let mut walk = Walk { position: 0, window, all_done: true, cx };
                let _ = members.as_mut().visit_all(&mut walk);
                all_done &= walk.all_done;
            }
        }
        match all_done {
            true => Poll::Ready(members),
            false => {
                self.members = Some(members);
                Poll::Pending
            }
        }
    }
}
