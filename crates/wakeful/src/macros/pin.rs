//! `pin!`, which pins values in the caller's frame.

/// Pins one or more values in the current frame and rebinds each name to the pinned reference.
///
/// A future from an `async fn` or an `async` block must not move once it has been polled. Awaiting
/// a future by value pins it. Polling it through a reference, as a `select!` in a loop does, needs
/// a pinned future. `pin!` pins without an allocation: the value stays in the caller's frame,
/// behind a `Pin<&mut T>` of the same name.
///
/// The pinned references borrow from the frame and cannot leave it. To return or store a pinned
/// future, use [`Box::pin`]. For a single expression, [`core::pin::pin!`] is more direct.
///
/// # Examples
///
/// `pin!(a, b)` pins existing variables:
///
/// ```
/// # futures::executor::block_on(async {
/// async fn answer() -> u32 { 42 }
///
/// let future = answer();
/// wakeful::pin!(future);
///
/// // `future` is now a `Pin<&mut impl Future>`, so it can be awaited by reference.
/// assert_eq!((&mut future).await, 42);
/// # });
/// ```
///
/// The other form declares the variables and pins them:
///
/// ```
/// # futures::executor::block_on(async {
/// async fn step(n: u32) -> u32 { n + 1 }
///
/// wakeful::pin! {
///     let first = step(1);
///     let second = step(2);
/// }
///
/// let mut seen = Vec::new();
/// while seen.len() < 2 {
///     wakeful::select! {
///         n = &mut first, if !seen.contains(&2) => seen.push(n),
///         n = &mut second, if !seen.contains(&3) => seen.push(n),
///     }
/// }
/// seen.sort();
/// assert_eq!(seen, [2, 3]);
/// # });
/// ```
///
/// The first form takes names, not expressions. The value of an expression would be dropped at the
/// end of the statement:
///
/// ```compile_fail
/// # async fn answer() -> u32 { 42 }
/// # async fn wrong() {
/// let future = wakeful::pin!(answer());
/// future.await;
/// # }
/// ```
#[macro_export]
macro_rules! pin {
    ($($name:ident),* $(,)?) => { $(
        #[allow(unused_mut)]
        let mut $name = ::core::pin::pin!($name);
    )* };
    ($(let $name:ident = $value:expr;)*) => { $(
        let $name = $value;
        #[allow(unused_mut)]
        let mut $name = ::core::pin::pin!($name);
    )* };
}
