//! `try_join!`, which waits for several futures until all succeed or one fails.
//!
//! The list of members is the one in `join.rs`.

use core::marker::PhantomData;
use core::ops::{ControlFlow, Range};
use core::pin::Pin;
use core::task::{Context, Poll};

use super::join::{MaybeDone, PollOrder};
use super::list::{List, Visit};

/// Waits for several futures concurrently until all succeed or the first one fails.
///
/// Returns `Ok` with a tuple of all values, or the first error. Every future must return a
/// [`Result`], all with the same error type. At the first error, the futures that have not
/// completed are dropped, which cancels them.
///
/// The futures run on the current task and are stored in the caller's frame, as with
/// [`join!`](crate::join). Each poll starts with a different future, in rotation, unless the list
/// begins with `biased;`. If two futures fail in the same poll, the result is the error of the one
/// that was polled first.
///
/// # Cancel safety
///
/// Dropping the `try_join!` drops all futures and the outputs of those that completed.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// async fn parse(text: &str) -> Result<u32, std::num::ParseIntError> { text.parse() }
///
/// assert_eq!(wakeful::try_join!(parse("1"), parse("2")), Ok((1, 2)));
/// assert!(wakeful::try_join!(parse("1"), parse("two")).is_err());
/// # });
/// ```
///
/// The handle of a spawned task wraps the task's output in another `Result`, which is an error if
/// the task panicked or was cancelled. To stop at the first error of either kind, flatten the two:
///
/// ```
/// # use std::future::{Future, ready};
/// # type Error = Box<dyn std::error::Error>;
/// async fn flatten<T, E>(
///     handle: impl Future<Output = Result<Result<T, Error>, E>>,
/// ) -> Result<T, Error>
/// where
///     E: std::error::Error + 'static,
/// {
///     match handle.await {
///         Ok(result) => result,
///         Err(error) => Err(error.into()),
///     }
/// }
///
/// # futures::executor::block_on(async {
/// # let first = ready(Ok::<_, std::fmt::Error>(Ok(1)));
/// # let second = ready(Ok::<Result<(), Error>, std::fmt::Error>(Err("not found".into())));
/// // `first` and `second` are handles of spawned tasks.
/// let outcome = wakeful::try_join!(flatten(first), flatten(second));
/// assert_eq!(outcome.unwrap_err().to_string(), "not found");
/// # });
/// ```
#[macro_export]
macro_rules! try_join {
    ($(biased;)?) => { ::core::result::Result::Ok(()) };
    (biased; $($future:expr),+ $(,)?) => {
        $crate::__try_join!(InOrder [] $($future,)+)
    };
    ($($future:expr),+ $(,)?) => {
        $crate::__try_join!(Rotating [] $($future,)+)
    };
}

/// Names each future of a `try_join!`, builds the list, awaits it and extracts the values.
#[doc(hidden)]
#[macro_export]
macro_rules! __try_join {
    ($order:ident [$($members:tt)*] $future:expr, $($rest:tt)*) => {
        $crate::__try_join!($order [$($members)* (member $future)] $($rest)*)
    };
    ($order:ident [$(($member:ident $future:expr))+]) => {{
        $( let $member = $future; )+
        let members =
            ::core::pin::pin!($crate::__list!($(($crate::macros::support::MaybeDone::new($member)))+));
        let order = $crate::macros::support::$order::default();
        match $crate::macros::support::TryJoin::new(members, order).await {
            ::core::result::Result::Ok(members) => {
                $crate::__join_split!(members $($member)+);
                ::core::result::Result::Ok(($($member.take_ok(),)+))
            }
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    }};
}

impl<F, T, E> MaybeDone<F>
where
    F: Future<Output = Result<T, E>>,
{
    /// Takes the value of a member. Valid only after a [`TryJoin`] returned `Ok`.
    #[inline]
    pub fn take_ok(self: Pin<&mut Self>) -> T {
        match self.take() {
            Ok(value) => value,
            Err(_) => unreachable!("a failed member ends try_join! before its values are taken"),
        }
    }
}

/// A visitor that polls the members whose position lies in `window`, and breaks at an error.
pub struct TryPollMembers<'a, 'cx, E> {
    /// The position of the next member.
    position: u32,
    window: &'a Range<u32>,
    /// Whether all members that were polled are done.
    all_done: bool,
    /// The error of the member that failed.
    error: Option<E>,
    cx: &'a mut Context<'cx>,
}

impl<F, T, E> Visit<MaybeDone<F>> for TryPollMembers<'_, '_, E>
where
    F: Future<Output = Result<T, E>>,
{
    #[inline]
    fn visit(&mut self, mut member: Pin<&mut MaybeDone<F>>) -> ControlFlow<()> {
        if self.window.contains(&self.position) {
            self.all_done &= member.as_mut().poll_done(self.cx);
            if let Some(Err(_)) = member.as_mut().output() {
                // The error is taken out of the member, so it must not be polled again. `TryJoin`
                // completes with this error.
                self.error = member.take().err();
                return ControlFlow::Break(());
            }
        }
        self.position += 1;
        ControlFlow::Continue(())
    }
}

/// A list of [`MaybeDone`]s with one error type.
pub trait TryMemberList<E>: for<'a, 'cx> List<TryPollMembers<'a, 'cx, E>> {}

impl<L, E> TryMemberList<E> for L where L: for<'a, 'cx> List<TryPollMembers<'a, 'cx, E>> {}

/// A future that polls a pinned list of members until all are done or one fails.
///
/// Returns the list, or the error.
#[must_use = "futures do nothing unless polled"]
pub struct TryJoin<'list, L, O, E> {
    /// The list; `None` once this future has completed.
    members: Option<Pin<&'list mut L>>,
    /// Which member the next poll starts with.
    order: O,
    /// Marks the error type; no error is stored.
    error: PhantomData<fn() -> E>,
}

impl<'list, L: TryMemberList<E>, O: PollOrder, E> TryJoin<'list, L, O, E> {
    /// Joins the members of a list that is pinned in the caller's frame.
    #[inline]
    pub fn new(members: Pin<&'list mut L>, order: O) -> Self {
        TryJoin { members: Some(members), order, error: PhantomData }
    }
}

impl<'list, L: TryMemberList<E>, O: PollOrder + Unpin, E> Future for TryJoin<'list, L, O, E> {
    type Output = Result<Pin<&'list mut L>, E>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let windows = self.order.windows(L::LEN);
        let mut members = self.members.take().expect("a try_join! was polled after it completed");
        let mut all_done = true;
        for window in &windows {
            if !window.is_empty() {
                let mut pass =
                    TryPollMembers { position: 0, window, all_done: true, error: None, cx };
                let _ = members.as_mut().visit_all(&mut pass);
                all_done &= pass.all_done;
                if let Some(error) = pass.error {
                    return Poll::Ready(Err(error));
                }
            }
        }
        match all_done {
            true => Poll::Ready(Ok(members)),
            false => {
                self.members = Some(members);
                Poll::Pending
            }
        }
    }
}
