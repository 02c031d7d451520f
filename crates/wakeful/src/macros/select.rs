//! `select!`: wait for several futures in one task and go on with the first whose output fits its pattern.
//!
//! The macro only parses. It evaluates the preconditions, then the future expressions, in the caller's body; puts the
//! futures into a typed list, each with a closure that picks the outputs that fit the branch's pattern; awaits a `Select`
//! that owns the list; and matches what comes out against the patterns once more to run the handler. By then the list
//! is gone, so a handler may use what the futures had borrowed.
//!
//! ```text
//! select! { x = a() => f(x), Some(y) = b(), if c => g(y), else => h() }
//!
//! output = Select::new(false, [true, c], List2 { a: Branch(a(), pick x), b: Branch(b(), pick Some(y)) }).await
//! match output {
//!     Here(x)               => f(x),      the path to a branch in the output is its place in the list
//!     Later(Here(Some(y)))  => g(y),
//!     Later(Later(AllDisabled)) => h(),
//! }
//! ```
//!
//! The list is in `list.rs`, the polling in `branches.rs`.

/// Waits for several futures at once, goes on with the first that is ready, and drops the others.
///
/// ```text
/// select! {
///     biased;                                          // optional
///     <pattern> = <future> [, if <condition>] => <handler>,
///     …
///     [else => <expression>]                           // optional
/// }
/// ```
///
/// The futures run on the current task: concurrently, never in parallel, and they may borrow from the surrounding
/// function. The value of the handler that ran is the value of `select!`; all handlers have the same type. A handler is
/// ordinary code of the surrounding function: it may `.await`, `return`, use `?`, and `break` or `continue` a loop
/// around the `select!`. It needs no comma after it if it is a block.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::future::{pending, ready};
///
/// let winner = wakeful::select! {
///     n = ready(1) => n,
///     n = pending::<i32>() => n * 10,
/// };
/// assert_eq!(winner, 1);
/// # });
/// ```
///
/// # What happens, step by step
///
/// 1. All conditions are evaluated. A branch whose condition is false is *disabled*.
/// 2. All future expressions are evaluated, also those of disabled branches; such a future is never polled.
///    Anything that implements [`IntoFuture`](core::future::IntoFuture) will do.
/// 3. The enabled futures are polled until one is ready. If its output fits the branch's pattern, the branch has won.
///    If not, the output is dropped, the branch is disabled, and the others go on.
/// 4. All futures are dropped, the losers being cancelled where they stand. Then the winner's handler runs, so a
///    handler may use what the futures had borrowed, even mutably.
///
/// If every branch is disabled, by its condition or by its pattern, the `else` expression is evaluated.
///
/// # Panics
///
/// Panics if every branch is disabled and there is no `else`.
///
/// # Which one wins
///
/// When several futures are ready at once, the one that is polled first wins. By default polling starts at a random
/// branch, so that in a loop each of them gets its share however busy the others are. The random numbers
/// are the runtime's own. Under a seed (`Builder::rng_seed`), a current-thread runtime draws the same numbers in every
/// run.
///
/// With `biased;` in front, the branches are polled in the order in which they are written. Choose it if the order
/// carries meaning, such as "shutdown before more work", or to save the random number. Then it is up to you that a
/// branch which is always ready does not stand before one that must not starve.
///
/// ```
/// # futures::executor::block_on(async {
/// use std::future::ready;
///
/// for _ in 0..100 {
///     let first = wakeful::select! {
///         biased;
///         _ = ready(()) => "shutdown",
///         _ = ready(()) => "work",
///     };
///     assert_eq!(first, "shutdown");
/// }
/// # });
/// ```
///
/// # Losing is being cancelled
///
/// A future that loses is dropped halfway. Whether anything is lost with it depends on the future: receiving from a
/// channel is safe to cancel (a message that was not returned is still in the channel), while a future that has read
/// half of a line into a buffer of its own loses that half. The documentation of each operation says which it is.
///
/// To go on with the same future in the next round instead of starting it again, keep it outside the loop, pin it, and
/// select on a reference:
///
/// ```
/// # futures::executor::block_on(async {
/// use std::future::ready;
///
/// async fn slow() -> u32 { /* many awaits */ 7 }
///
/// wakeful::pin! { let slow = slow(); }
/// let mut ticks = 0;
/// let result = loop {
///     wakeful::select! {
///         biased;
///         _ = ready(()), if ticks < 3 => ticks += 1,
///         result = &mut slow => break result,
///     }
/// };
/// assert_eq!((ticks, result), (3, 7));
/// # });
/// ```
///
/// # Patterns
///
/// A pattern that may fail turns a branch off when its source has dried up; `else` is then the place where all sources
/// are dry.
///
/// ```
/// # futures::executor::block_on(async {
/// let mut odd = vec![3, 1].into_iter();
/// let mut even = vec![4, 2].into_iter();
/// let mut sum = 0;
/// loop {
///     wakeful::select! {
///         Some(n) = async { odd.next() } => sum += n,
///         Some(n) = async { even.next() } => sum += n,
///         else => break,
///     }
/// }
/// assert_eq!(sum, 10);
/// # });
/// ```
///
/// # Conditions
///
/// A condition sees the state before any future of this `select!` has run. It is the way to say that a branch makes no
/// sense now, most often because the future behind a reference has already finished:
///
/// ```
/// # futures::executor::block_on(async {
/// async fn half(n: u32) -> u32 { n / 2 }
///
/// wakeful::pin! {
///     let left = half(8);
///     let right = half(6);
/// }
/// let (mut l, mut r) = (None, None);
/// while l.is_none() || r.is_none() {
///     wakeful::select! {
///         n = &mut left, if l.is_none() => l = Some(n),
///         n = &mut right, if r.is_none() => r = Some(n),
///     }
/// }
/// assert_eq!((l, r), (Some(4), Some(3)));
/// # });
/// ```
///
/// The future expression is evaluated even where the condition is false. If making the future has a price, wrap it in
/// an `async` block, which does nothing until it is polled.
///
/// # Limits
///
/// Up to 64 branches. To wait for a number of futures that is not known beforehand, use a
/// [`JoinSet`](crate::task::JoinSet).
#[macro_export]
macro_rules! select {
    ($(biased;)?) => {
        ::core::compile_error!("select! requires at least one branch.")
    };
    ($(biased;)? else => $else:expr $(,)?) => {{ $else }};
    (biased; $($branches:tt)+) => {
        $crate::__select_parse!(true [] () $($branches)+)
    };
    ($($branches:tt)+) => {
        $crate::__select_parse!(false [] () $($branches)+)
    };
}

/// Takes the branches apart, one per expansion.
///
/// Arguments: is it biased; the branches so far; one `_` for each of them; what is left to parse. The name of a future is
/// always `future`, but each comes from an expansion of its own and is thereby a different variable.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_parse {
    ($biased:tt $branches:tt $place:tt else => $else:expr $(,)?) => {
        $crate::__select_emit!($biased $branches $place $else)
    };
    ($biased:tt $branches:tt $place:tt) => {
        $crate::__select_emit!($biased $branches $place
            ::core::panic!("all branches are disabled and there is no else branch"))
    };
    ($biased:tt [$($branches:tt)*] ($($place:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:block, $($rest:tt)*
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($place)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($place)* _) $($rest)*)
    };
    ($biased:tt [$($branches:tt)*] ($($place:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:block $($rest:tt)*
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($place)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($place)* _) $($rest)*)
    };
    ($biased:tt [$($branches:tt)*] ($($place:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:expr
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($place)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($place)* _))
    };
    ($biased:tt [$($branches:tt)*] ($($place:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:expr, $($rest:tt)*
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($place)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($place)* _) $($rest)*)
    };
}

/// Writes the code for branches that `__select_parse!` has taken apart.
///
/// Whether an output fits is asked with a match guard that notes the fit and then refuses: a refused arm binds nothing,
/// so the pattern may move, `ref mut` or whatever it likes, and the output is still whole. The arm itself is never run.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_emit {
    ($biased:tt
        [$(($place:tt $name:ident ($pattern:pat) ($future:expr) ($enabled:expr) ($handler:expr)))+]
        $end:tt
        $else:expr
    ) => {{
        #[allow(unused_mut)]
        let mut output = {
            let preconditions = $crate::macros::support::Preconditions::new();
            $( let preconditions = preconditions.and($enabled); )+
            $( let $name = $future; )+
            let branches = $crate::__list!($(($crate::macros::support::Branch::new($name, |output| {
                #[allow(unreachable_code, unreachable_patterns, unused_mut, unused_variables)]
                {
                    let mut fits = false;
                    let mut output = match output {
                        ::core::option::Option::Some(output) => output,
                        ::core::option::Option::None => ::core::unreachable!(),
                    };
                    match output {
                        $pattern if { fits = true; false } => ::core::unreachable!(),
                        _ => {}
                    }
                    match fits {
                        true => ::core::option::Option::Some(
                            $crate::__select_place!($place $crate::macros::support::Here(output))
                        ),
                        false => ::core::option::Option::None,
                    }
                }
            })))+);
            let all_disabled = || $crate::__select_place!($end $crate::macros::support::AllDisabled);
            let output =
                $crate::macros::support::Select::new($biased, preconditions, branches, all_disabled).await;
            output
        };
        match output {
            $( $crate::__select_place!($place $crate::macros::support::Here($pattern)) => $handler, )+
            $crate::__select_place!($end $crate::macros::support::AllDisabled) => $else,
            #[allow(unreachable_patterns)]
            _ => ::core::unreachable!("the output of a branch was checked against its pattern"),
        }
    }};
}

/// `Later(Later(… inner))`, one for each `_`: a pattern or an expression, as `inner` is one. Four at a time, to stay far
/// from the recursion limit.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_place {
    (() $($inner:tt)+) => { $($inner)+ };
    ((_ _ _ _ $($place:tt)*) $($inner:tt)+) => {
        $crate::macros::support::Later($crate::macros::support::Later(
            $crate::macros::support::Later($crate::macros::support::Later(
                $crate::__select_place!(($($place)*) $($inner)+)
            ))
        ))
    };
    ((_ $($place:tt)*) $($inner:tt)+) => {
        $crate::macros::support::Later($crate::__select_place!(($($place)*) $($inner)+))
    };
}
