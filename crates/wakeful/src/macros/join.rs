//! `join!`, which waits for several futures in one task; and the member list it shares with
//! `try_join!`.
//!
//! `join!(a, b)` builds a list of [`MaybeDone`]s in the caller's frame, pins it there, and awaits a
//! [`Join`] that borrows it. Each poll makes two passes over the list: from the member that is
//! polled first to the end, then from the front to that member. When all members are done, the
//! `Join` returns the list and the macro takes the outputs out of it.

use core::ops::{ControlFlow, Range};
use core::pin::Pin;
use core::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::list::{List, Visit};

/// Waits for several futures concurrently and returns their outputs as a tuple.
///
/// All futures run on the current task: concurrently, but not in parallel. So they may borrow from
/// the surrounding function, and a future that blocks the thread delays the others. To use several
/// threads, spawn tasks and join their handles.
///
/// `join!` waits for every future, even if some of them return an error.
/// [`try_join!`](crate::try_join) stops at the first error.
///
/// Any [`IntoFuture`](core::future::IntoFuture) is accepted. Nothing is allocated: the futures are
/// stored in the frame of the caller. Each future is dropped as soon as it completes.
///
/// # Fairness
///
/// Each poll of the task starts with a different future, in rotation. So a future that uses up the
/// task's budget cannot starve the others.
///
/// `biased;` as the first token turns this off: every poll polls the futures in the written order.
/// This saves a counter. Put a future that is often busy after those that must not starve.
///
/// # Cancel safety
///
/// Dropping the `join!` drops all futures and the outputs of those that completed.
///
/// # Examples
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
/// In the written order:
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

/// Names each future of a `join!`, builds the list, awaits it and extracts the outputs.
///
/// Every name is `member`. Each comes from its own expansion, so macro hygiene makes them different
/// variables.
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

/// Splits a pinned list: each name becomes the pin of an element.
#[doc(hidden)]
#[macro_export]
macro_rules! __join_split {
    ($list:ident) => {
        let $crate::macros::support::ListEnd = *$list;
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
    /// A future, then its output, then nothing.
    ///
    /// `repr(C)` keeps the discriminant out of the future's niches. Reading a niche through this
    /// enum would alias the pinned future, which may hold references into itself.
    #[repr(C)]
    #[project = MaybeDoneProj]
    #[project_replace = MaybeDoneOwned]
    pub enum MaybeDone<F: Future> {
        /// The future has not completed.
        Running { #[pin] future: F },
        /// The future has completed and was dropped; its output has not been taken.
        Done { output: F::Output },
        /// The output was taken.
        Taken,
    }
}

impl<F: Future> MaybeDone<F> {
    /// Creates a member that has not been polled.
    #[inline]
    pub fn new(future: impl IntoFuture<IntoFuture = F, Output = F::Output>) -> Self {
        MaybeDone::Running { future: future.into_future() }
    }

    /// Polls the future unless it has completed. Returns true once there is an output.
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

    /// Returns the output, if the future has completed and the output was not taken.
    #[inline]
    pub(super) fn output(self: Pin<&mut Self>) -> Option<&mut F::Output> {
        match self.project() {
            MaybeDoneProj::Done { output } => Some(output),
            _ => None,
        }
    }

    /// Takes the output. Panics unless `poll_done` has returned true.
    #[inline]
    pub fn take(self: Pin<&mut Self>) -> F::Output {
        match self.project_replace(MaybeDone::Taken) {
            MaybeDoneOwned::Done { output } => output,
            _ => unreachable!("the output of a joined future was taken before it completed"),
        }
    }
}

/// A visitor that polls the members whose position lies in `window`.
pub struct PollMembers<'a, 'cx> {
    /// The position of the next member.
    position: u32,
    window: &'a Range<u32>,
    /// Whether all members that were polled are done.
    all_done: bool,
    cx: &'a mut Context<'cx>,
}

impl<F: Future> Visit<MaybeDone<F>> for PollMembers<'_, '_> {
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
pub trait MemberList: for<'a, 'cx> List<PollMembers<'a, 'cx>> {}

impl<L> MemberList for L where L: for<'a, 'cx> List<PollMembers<'a, 'cx>> {}

/// Decides which member a poll starts with.
pub trait PollOrder {
    /// Returns the position to start from in this poll; below `count`.
    fn first(&mut self, count: u32) -> u32;

    /// Returns the two ranges that start at [`first`](PollOrder::first) and cover each position
    /// once.
    #[inline]
    fn windows(&mut self, count: u32) -> [Range<u32>; 2] {
        let first = self.first(count);
        [first..count, 0..first]
    }
}

/// Starts each poll with the next member.
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

/// Starts each poll with the first member (`biased;`).
#[derive(Default)]
pub struct InOrder;

impl PollOrder for InOrder {
    #[inline]
    fn first(&mut self, _: u32) -> u32 {
        0
    }
}

/// A future that polls a pinned list of members until all are done, and returns the list.
#[must_use = "futures do nothing unless polled"]
pub struct Join<'list, L, O> {
    /// The list; `None` once it was returned.
    members: Option<Pin<&'list mut L>>,
    /// Which member the next poll starts with.
    order: O,
}

impl<'list, L: MemberList, O: PollOrder> Join<'list, L, O> {
    /// Joins the members of a list that is pinned in the caller's frame.
    #[inline]
    pub fn new(members: Pin<&'list mut L>, order: O) -> Self {
        Join { members: Some(members), order }
    }
}

impl<'list, L: MemberList, O: PollOrder + Unpin> Future for Join<'list, L, O> {
    type Output = Pin<&'list mut L>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let windows = self.order.windows(L::LEN);
        let mut members = self.members.take().expect("a join! was polled after it completed");
        let mut all_done = true;
        for window in &windows {
            if !window.is_empty() {
                let mut pass = PollMembers { position: 0, window, all_done: true, cx };
                let _ = members.as_mut().visit_all(&mut pass);
                all_done &= pass.all_done;
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
