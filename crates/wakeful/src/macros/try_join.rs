//! `try_join!`: `join!` for futures that may fail; the first error ends it. The list is that of `join.rs`.

use core::marker::PhantomData;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::join::{Member, NoMember, PollOrder};

/// Waits for several futures at once: `Ok` with all their values, or the first error.
///
/// Every future must return a [`Result`], all with the same error type. When one of them fails, `try_join!` returns
/// that error at once and drops the futures that have not finished: their work is cancelled where it stands.
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
/// As with [`join!`](crate::join) the futures share the current task, are kept in the caller's frame, and take turns
/// at being polled first unless the list starts with `biased;`. If two of them fail in the same poll, the one that was
/// polled first is the one you hear about.
///
/// # Tasks
///
/// A task's handle gives the task's output inside a `Result` of its own, which says whether the task ended as it
/// should. To stop at the first error of either kind, unwrap the outer one in a small helper:
///
/// ```
/// # use std::future::{Future, ready};
/// # type Error = Box<dyn std::error::Error>;
/// async fn flatten<T, E>(handle: impl Future<Output = Result<Result<T, Error>, E>>) -> Result<T, Error>
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
/// # let second = ready(Ok::<Result<(), Error>, std::fmt::Error>(Err("no luck".into())));
/// // `first` and `second` are handles of spawned tasks.
/// let outcome = wakeful::try_join!(flatten(first), flatten(second));
/// assert_eq!(outcome.unwrap_err().to_string(), "no luck");
/// # });
/// ```
#[macro_export]
macro_rules! try_join {
    ($(biased;)?) => { ::core::result::Result::Ok(()) };
    (biased; $($future:expr),+ $(,)?) => {
        $crate::__try_join!(InOrder [] [] $($future,)+)
    };
    ($($future:expr),+ $(,)?) => {
        $crate::__try_join!(Rotating [] [] $($future,)+)
    };
}

/// As `__join!`, ending in a `Result`.
#[doc(hidden)]
#[macro_export]
macro_rules! __try_join {
    ($order:ident [$($forward:tt)*] [$($backward:tt)*] $future:expr, $($rest:tt)*) => {
        $crate::__try_join!($order [$($forward)* (member $future)] [(member) $($backward)*] $($rest)*)
    };
    ($order:ident [$(($member:ident $future:expr))+] [$(($last_first:ident))+]) => {{
        $( let $member = $future; )+
        let members = ::core::pin::pin!($crate::macros::support::NoMember$(.after($last_first))+);
        let joined = $crate::macros::support::TryJoin::new(
            members,
            $crate::macros::support::$order::default(),
        )
        .await;
        match joined {
            ::core::result::Result::Ok(members) => {
                $( let ($member, members) = members.take_first_ok(); )+
                let $crate::macros::support::NoMember = *members;
                ::core::result::Result::Ok(($($member,)+))
            }
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    }};
}

impl<F, T, E, Rest> Member<F, Rest>
where
    F: Future<Output = Result<T, E>>,
{
    /// The first member's value, and the members after it. Only after a [`TryJoin`] has ended well.
    #[inline]
    pub fn take_first_ok(self: Pin<&mut Self>) -> (T, Pin<&mut Rest>) {
        let (result, rest) = self.take_first();
        match result {
            Ok(value) => (value, rest),
            Err(_) => unreachable!("a failed member ends try_join! before its values are taken"),
        }
    }
}

/// A list of members that fail in the same way.
pub trait TryMembers<E> {
    /// How many members there are.
    const COUNT: u32;

    /// Polls the members whose position lies in `window`, front to back, until one fails; the first of this list is at
    /// `position`. `Ok(true)` if all of those are done.
    fn try_poll_window(
        self: Pin<&mut Self>,
        position: u32,
        window: &Range<u32>,
        cx: &mut Context<'_>,
    ) -> Result<bool, E>;
}

impl<E> TryMembers<E> for NoMember {
    const COUNT: u32 = 0;

    #[inline]
    fn try_poll_window(
        self: Pin<&mut Self>,
        _: u32,
        _: &Range<u32>,
        _: &mut Context<'_>,
    ) -> Result<bool, E> {
        Ok(true)
    }
}

impl<F, T, E, Rest> TryMembers<E> for Member<F, Rest>
where
    F: Future<Output = Result<T, E>>,
    Rest: TryMembers<E>,
{
    const COUNT: u32 = 1 + Rest::COUNT;

    #[inline]
    fn try_poll_window(
        self: Pin<&mut Self>,
        position: u32,
        window: &Range<u32>,
        cx: &mut Context<'_>,
    ) -> Result<bool, E> {
        let mut me = self.project();
        let mut done = true;
        if window.contains(&position) {
            done = me.future.as_mut().poll_done(cx);
            if let Some(Err(_)) = me.future.as_mut().output() {
                // The error is taken out, so this member is never polled again: TryJoin ends here.
                return me.future.take().map(|_| true);
            }
        }
        Ok(me.rest.try_poll_window(position + 1, window, cx)? && done)
    }
}

/// Polls a pinned list of members until all are done, and gives the list back, or until one fails.
#[must_use = "futures do nothing unless polled"]
pub struct TryJoin<'list, L, O, E> {
    /// The list; gone once this future has ended.
    members: Option<Pin<&'list mut L>>,
    /// Whose turn it is.
    order: O,
    /// The error is only passed on.
    error: PhantomData<fn() -> E>,
}

impl<'list, L: TryMembers<E>, O: PollOrder, E> TryJoin<'list, L, O, E> {
    /// Joins the members of a list that is pinned in the caller's frame.
    #[inline]
    pub fn new(members: Pin<&'list mut L>, order: O) -> Self {
        TryJoin { members: Some(members), order, error: PhantomData }
    }
}

impl<'list, L: TryMembers<E>, O: PollOrder + Unpin, E> Future for TryJoin<'list, L, O, E> {
    type Output = Result<Pin<&'list mut L>, E>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let windows = self.order.windows(L::COUNT);
        let mut members = self.members.take().expect("a try_join! was polled after it was done");
        let mut all_done = true;
        for window in &windows {
            if !window.is_empty() {
                match members.as_mut().try_poll_window(0, window, cx) {
                    Ok(done) => all_done &= done,
                    Err(error) => return Poll::Ready(Err(error)),
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
