//! `try_join!`: `join!` for futures that may fail; the first error ends it. The list is that of `join.rs`.

use core::marker::PhantomData;
use core::ops::{ControlFlow, Range};
use core::pin::Pin;
use core::task::{Context, Poll};

use super::join::{MaybeDone, PollOrder};
use super::list::{List, Visit};

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
        $crate::__try_join!(InOrder [] $($future,)+)
    };
    ($($future:expr),+ $(,)?) => {
        $crate::__try_join!(Rotating [] $($future,)+)
    };
}

/// As `__join!`, ending in a `Result`.
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
    /// Takes the value. Only after a [`TryJoin`] has ended well.
    #[inline]
    pub fn take_ok(self: Pin<&mut Self>) -> T {
        match self.take() {
            Ok(value) => value,
            Err(_) => unreachable!("a failed member ends try_join! before its values are taken"),
        }
    }
}

/// One walk over the members, front to back: polls those whose position lies in `window`. `Break`s off at an error.
pub struct TryWalk<'a, 'cx, E> {
    /// The position of the member that comes next.
    position: u32,
    window: &'a Range<u32>,
    /// Whether all members that were polled are done.
    all_done: bool,
    /// The error, once a member has failed.
    error: Option<E>,
    cx: &'a mut Context<'cx>,
}

impl<F, T, E> Visit<MaybeDone<F>> for TryWalk<'_, '_, E>
where
    F: Future<Output = Result<T, E>>,
{
    #[inline]
    fn visit(&mut self, mut member: Pin<&mut MaybeDone<F>>) -> ControlFlow<()> {
        if self.window.contains(&self.position) {
            self.all_done &= member.as_mut().poll_done(self.cx);
            if let Some(Err(_)) = member.as_mut().output() {
                // The error is taken out, so this member must not be polled again: TryJoin ends here.
                self.error = member.take().err();
                return ControlFlow::Break(());
            }
        }
        self.position += 1;
        ControlFlow::Continue(())
    }
}

/// A list of [`MaybeDone`]s that fail in the same way.
pub trait TryMembers<E>: for<'a, 'cx> List<TryWalk<'a, 'cx, E>> {}

impl<L, E> TryMembers<E> for L where L: for<'a, 'cx> List<TryWalk<'a, 'cx, E>> {}

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
        let windows = self.order.windows(L::LEN);
        let mut members = self.members.take().expect("a try_join! was polled after it was done");
        let mut all_done = true;
        for window in &windows {
            if !window.is_empty() {
                let mut walk = TryWalk { position: 0, window, all_done: true, error: None, cx };
                let _ = members.as_mut().visit_all(&mut walk);
                all_done &= walk.all_done;
                if let Some(error) = walk.error {
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
