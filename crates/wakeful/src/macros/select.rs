//! `select!`, which waits for several futures and continues with the first whose output matches its
//! pattern.
//!
//! The macro only parses. It evaluates the preconditions, then the future expressions, in the
//! caller's body. It builds a typed list of the futures, each with a closure that checks the
//! branch's pattern. It awaits a `Select` that owns the list. Then it matches the result against the
//! patterns once more to run the handler. The list has been dropped by this time, so a handler may
//! use what the futures borrowed.
//!
//! ```text
//! select! { x = a() => f(x), Some(y) = b(), if c => g(y), else => h() }
//!
//! branches = List2 { a: Branch(a(), matches x), b: Branch(b(), matches Some(y)) }
//! output = Select::new(false, [true, c], branches).await
//! match output {
//!     Here(x)               => f(x),      the path in the output is the position in the list
//!     Later(Here(Some(y)))  => g(y),
//!     Later(Later(AllDisabled)) => h(),
//! }
//! ```
//!
//! The lists are in `list.rs`, the polling is in `select_future.rs`.

/// Waits for several futures concurrently and runs the handler of the first that is ready.
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
/// The other futures are dropped. All futures run on the current task: concurrently, not in
/// parallel, and they may borrow from the surrounding function. `select!` evaluates to the value of
/// the handler that ran; all handlers have the same type. A handler is ordinary code of the
/// surrounding function: it may `.await`, `return`, use `?`, and `break` or `continue` a loop around
/// the `select!`. A handler that is a block needs no comma.
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
/// # Evaluation order
///
/// 1. All conditions are evaluated. A branch whose condition is false is *disabled*.
/// 2. All future expressions are evaluated, including those of disabled branches, whose futures are
///    never polled. Any [`IntoFuture`](core::future::IntoFuture) is accepted.
/// 3. The enabled futures are polled until one is ready. If its output matches the branch's
///    pattern, the branch wins. Otherwise the output is dropped, the branch is disabled, and
///    polling continues.
/// 4. All futures are dropped, which cancels those that have not completed. Then the winner's
///    handler runs, so a handler may use what the futures borrowed, even mutably.
///
/// If every branch is disabled, by its condition or by its pattern, the `else` expression is
/// evaluated.
///
/// # Panics
///
/// Panics if every branch is disabled and there is no `else`.
///
/// # Fairness
///
/// If several futures are ready at the same time, the future that is polled first wins. By default,
/// each poll starts with a random branch, so that in a loop no branch starves, however busy the
/// others are. The random numbers come from the runtime;
/// [`Builder::rng_seed`](crate::runtime::Builder::rng_seed) seeds them.
///
/// With `biased;` as the first token, the branches are polled in the written order. Use it if the
/// order matters, such as "shutdown before more work", or to save the random number. Put a branch
/// that is often ready after those that must not starve.
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
/// # Cancel safety
///
/// A losing future is dropped before it completes. Whether data is lost depends on the future.
/// Receiving from a channel is cancel safe: a message that was not returned is still in the channel.
/// A future that has read half of a line into its own buffer loses that half. The documentation of
/// each operation has a "Cancel safety" section.
///
/// To continue the same future in the next iteration, create it outside of the loop, pin it, and
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
/// A refutable pattern disables a branch whose source is exhausted. The `else` branch runs when all
/// sources are.
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
/// A condition is evaluated before any future of this `select!` is polled. Use it to disable a
/// branch, usually because the future behind a reference has already completed:
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
/// The future expression is evaluated even if the condition is false. If creating the future is
/// expensive or can panic, wrap it in an `async` block, which does nothing until it is polled.
///
/// # Limits
///
/// Up to 64 branches. To wait for a number of futures that is not known at compile time, use a
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

/// Parses the branches, one per expansion.
///
/// Arguments: whether the order is biased; the branches so far; one `_` for each of them; the rest
/// to parse. Every future is named `future`. Each name comes from its own expansion, so macro
/// hygiene makes them different variables.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_parse {
    ($biased:tt $branches:tt $path:tt else => $else:expr $(,)?) => {
        $crate::__select_emit!($biased $branches $path $else)
    };
    ($biased:tt $branches:tt $path:tt) => {
        $crate::__select_emit!($biased $branches $path
            ::core::panic!("all branches are disabled and there is no else branch"))
    };
    ($biased:tt [$($branches:tt)*] ($($path:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:block, $($rest:tt)*
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($path)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($path)* _) $($rest)*)
    };
    ($biased:tt [$($branches:tt)*] ($($path:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:block $($rest:tt)*
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($path)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($path)* _) $($rest)*)
    };
    ($biased:tt [$($branches:tt)*] ($($path:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:expr
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($path)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($path)* _))
    };
    ($biased:tt [$($branches:tt)*] ($($path:tt)*)
        $pattern:pat = $future:expr $(, if $condition:expr)? => $handler:expr, $($rest:tt)*
    ) => {
        $crate::__select_parse!($biased
            [$($branches)* (($($path)*) future ($pattern) ($future) (true $(&& $condition)?) ($handler))]
            ($($path)* _) $($rest)*)
    };
}

/// Writes the code for the branches that `__select_parse!` has parsed.
///
/// Whether an output matches is tested by a match guard that records the match and then returns
/// false. An arm whose guard is false binds nothing. So the pattern may move or use `ref mut`, and
/// the output stays intact. The arm itself never runs.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_emit {
    ($biased:tt
        [$(($path:tt $name:ident ($pattern:pat) ($future:expr) ($enabled:expr) ($handler:expr)))+]
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
                            $crate::__select_path!($path $crate::macros::support::Here(output))
                        ),
                        false => ::core::option::Option::None,
                    }
                }
            })))+);
            let all_disabled = || $crate::__select_path!($end $crate::macros::support::AllDisabled);
            let output =
                $crate::macros::support::Select::new($biased, preconditions, branches, all_disabled).await;
            output
        };
        match output {
            $( $crate::__select_path!($path $crate::macros::support::Here($pattern)) => $handler, )+
            $crate::__select_path!($end $crate::macros::support::AllDisabled) => $else,
            #[allow(unreachable_patterns)]
            _ => ::core::unreachable!("the output of a branch was checked against its pattern"),
        }
    }};
}

/// Wraps `inner` in one `Later(…)` for each `_`.
///
/// `inner` may be a pattern or an expression. Four levels at a time keep the expansion far from the
/// recursion limit.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_path {
    (() $($inner:tt)+) => { $($inner)+ };
    ((_ _ _ _ $($path:tt)*) $($inner:tt)+) => {
        $crate::macros::support::Later($crate::macros::support::Later(
            $crate::macros::support::Later($crate::macros::support::Later(
                $crate::__select_path!(($($path)*) $($inner)+)
            ))
        ))
    };
    ((_ $($path:tt)*) $($inner:tt)+) => {
        $crate::macros::support::Later($crate::__select_path!(($($path)*) $($inner)+))
    };
}
