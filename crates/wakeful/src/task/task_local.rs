//! `task_local!`: values that belong to a task, or to a part of one, rather than to a thread.
//!
//! The [`TaskLocalFuture`] that [`LocalKey::scope`] returns owns the value. While the inner future
//! is polled or dropped, the value is in a thread-local slot. It moves back afterwards, even after
//! a panic. Between polls the value is on no thread, so the task may move to another thread.
//!
//! ```text
//!            ┌── enter: swap ──►                       ◄── ScopeGuard::drop: swap back ──┐
//!   TaskLocalFuture.value: Some(v)      thread slot: the value of the outer scope, or None
//!   TaskLocalFuture.value: outer        thread slot: Some(v)   ── with(), get() see v
//! ```
//!
//! Scopes nest: the swap stores the outer value in the inner future for the duration of the poll.

use core::cell::RefCell;
use core::error::Error;
use core::fmt;
use core::marker::PhantomPinned;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::thread;

use pin_project_lite::pin_project;

/// Declares keys of task-local values.
///
/// Each line declares a `static` [`LocalKey`], with its attributes and visibility. A key has no
/// initial value: it has a value only inside a [`scope`](crate::task::LocalKey::scope). The last
/// semicolon is optional.
///
/// # Examples
///
/// ```
/// wakeful::task_local! {
///     /// The request that this task serves.
///     pub static REQUEST: u64;
///
///     #[allow(dead_code)]
///     static USER: String;
/// }
/// # futures::executor::block_on(async {
///
/// REQUEST.scope(7, async {
///     assert_eq!(REQUEST.get(), 7);
/// }).await;
/// # });
/// ```
///
/// [`LocalKey`]: crate::task::LocalKey
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty; $($rest:tt)*) => {
        $crate::task_local!($(#[$attribute])* $visibility static $name: $type);
        $crate::task_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty) => {
        $(#[$attribute])*
        $visibility static $name: $crate::task::LocalKey<$type> = {
            ::std::thread_local! {
                static SLOT: ::core::cell::RefCell<::core::option::Option<$type>> =
                    const { ::core::cell::RefCell::new(::core::option::Option::None) };
            }
            $crate::task::LocalKey { slot: SLOT }
        };
    };
}

/// The key of a task-local value, declared with [`task_local!`](crate::task_local).
///
/// Unlike a [`std::thread::LocalKey`], it has no initial value. [`scope`](LocalKey::scope) sets a
/// value for the duration of a future, [`sync_scope`](LocalKey::sync_scope) for the duration of a
/// call. Scopes of one key can be nested; the innermost one applies. A task that is spawned inside
/// a scope does not inherit the value.
///
/// # Examples
///
/// ```
/// wakeful::task_local! {
///     static DEPTH: u32;
/// }
/// # futures::executor::block_on(async {
///
/// DEPTH.scope(1, async {
///     assert_eq!(DEPTH.get(), 1);
///     DEPTH.scope(2, async { assert_eq!(DEPTH.get(), 2) }).await;
///     assert_eq!(DEPTH.get(), 1);
/// }).await;
/// # });
/// ```
pub struct LocalKey<T: 'static> {
    /// The value of the innermost scope that runs on this thread. Public for `task_local!`.
    #[doc(hidden)]
    pub slot: thread::LocalKey<RefCell<Option<T>>>,
}

impl<T: 'static> LocalKey<T> {
    /// Sets the value of the key while `future` is polled or dropped.
    ///
    /// The returned future owns the value and drops it.
    ///
    /// # Panics
    ///
    /// The returned future panics if it is polled inside a call of [`with`](LocalKey::with) or
    /// [`try_with`](LocalKey::try_with) of the same key.
    ///
    /// # Examples
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// wakeful::task_local! {
    ///     static NAME: &'static str;
    /// }
    ///
    /// let greeting = NAME.scope("world", async { format!("hello {}", NAME.get()) }).await;
    /// assert_eq!(greeting, "hello world");
    /// # });
    /// ```
    pub fn scope<F>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F>
    where
        F: Future,
    {
        TaskLocalFuture {
            key: self,
            value: Some(value),
            future: Some(future),
            pinned: PhantomPinned,
        }
    }

    /// Sets the value of the key for the duration of a call of `function`.
    ///
    /// # Panics
    ///
    /// If called inside a call of [`with`](LocalKey::with) or [`try_with`](LocalKey::try_with) of
    /// the same key.
    ///
    /// # Examples
    ///
    /// ```
    /// wakeful::task_local! {
    ///     static LEVEL: u8;
    /// }
    ///
    /// assert_eq!(LEVEL.sync_scope(3, || LEVEL.get() + 1), 4);
    /// ```
    #[track_caller]
    pub fn sync_scope<F, R>(&'static self, value: T, function: F) -> R
    where
        F: FnOnce() -> R,
    {
        let mut value = Some(value);
        match self.enter(&mut value) {
            Ok(_in_scope) => function(),
            Err(error) => error.panic(),
        }
    }

    /// Calls `function` with the value of the key.
    ///
    /// # Panics
    ///
    /// If called outside every scope of this key.
    ///
    /// # Examples
    ///
    /// ```
    /// wakeful::task_local! {
    ///     static USER: String;
    /// }
    ///
    /// let length = USER.sync_scope("ferris".into(), || USER.with(|user| user.len()));
    /// assert_eq!(length, 6);
    /// ```
    #[track_caller]
    pub fn with<F, R>(&'static self, function: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        match self.try_with(function) {
            Ok(result) => result,
            Err(_) => panic!("cannot access a task-local storage value without setting it first"),
        }
    }

    /// Calls `function` with the value of the key, if it has one.
    ///
    /// # Errors
    ///
    /// Returns an error outside every scope of this key.
    ///
    /// # Examples
    ///
    /// ```
    /// wakeful::task_local! {
    ///     static USER: String;
    /// }
    ///
    /// assert!(USER.try_with(|user| user.len()).is_err());
    /// ```
    pub fn try_with<F, R>(&'static self, function: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        let found = self.slot.try_with(|slot| slot.borrow().as_ref().map(function));
        // The outer error means that the thread is exiting and has dropped its slot.
        found.ok().flatten().ok_or(AccessError { _private: () })
    }

    /// Swaps `value` with this thread's slot until the guard is dropped.
    fn enter<'v>(&'static self, value: &'v mut Option<T>) -> Result<ScopeGuard<'v, T>, EnterError> {
        let swapped = self.slot.try_with(|slot| match slot.try_borrow_mut() {
            Ok(mut slot) => {
                mem::swap(&mut *slot, value);
                Ok(())
            }
            Err(_) => Err(EnterError::Borrowed),
        });
        swapped.unwrap_or(Err(EnterError::ThreadExiting))?;
        Ok(ScopeGuard { key: self, outer: value })
    }
}

impl<T: Clone + 'static> LocalKey<T> {
    /// Returns a clone of the value.
    ///
    /// # Panics
    ///
    /// If called outside every scope of this key.
    ///
    /// # Examples
    ///
    /// ```
    /// wakeful::task_local! {
    ///     static LEVEL: u8;
    /// }
    ///
    /// assert_eq!(LEVEL.sync_scope(3, || LEVEL.get()), 3);
    /// ```
    #[track_caller]
    pub fn get(&'static self) -> T {
        self.with(T::clone)
    }

    /// Returns a clone of the value, if the key has one.
    ///
    /// # Errors
    ///
    /// Returns an error outside every scope of this key.
    ///
    /// # Examples
    ///
    /// ```
    /// wakeful::task_local! {
    ///     static LEVEL: u8;
    /// }
    ///
    /// assert!(LEVEL.try_get().is_err());
    /// ```
    pub fn try_get(&'static self) -> Result<T, AccessError> {
        self.try_with(T::clone)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("LocalKey { .. }")
    }
}

/// A guard that restores the slot. Until then the slot has the scope's value, and `outer` the
/// previous value.
struct ScopeGuard<'v, T: 'static> {
    key: &'static LocalKey<T>,
    outer: &'v mut Option<T>,
}

impl<T: 'static> Drop for ScopeGuard<'_, T> {
    fn drop(&mut self) {
        // The slot exists, because `enter` used it on this thread, in a caller of this function. It
        // is not borrowed, because every call of `with` inside the scope has returned or unwound.
        self.key.slot.with(|slot| mem::swap(&mut *slot.borrow_mut(), self.outer));
    }
}

/// The reason why a scope could not be entered.
enum EnterError {
    /// The caller is inside `with` of the same key.
    Borrowed,
    /// The thread is exiting and has dropped its slot.
    ThreadExiting,
}

impl EnterError {
    #[track_caller]
    fn panic(self) -> ! {
        match self {
            EnterError::Borrowed => {
                panic!("cannot enter a task-local scope while the task-local storage is borrowed")
            }
            EnterError::ThreadExiting => {
                panic!(
                    "cannot enter a task-local scope during or after destruction of the underlying thread-local"
                )
            }
        }
    }
}

pin_project! {
    /// The future of [`LocalKey::scope`], which owns the task-local value.
    ///
    /// [`take_value`](TaskLocalFuture::take_value) takes the value out.
    pub struct TaskLocalFuture<T, F>
    where
        T: 'static,
    {
        key: &'static LocalKey<T>,
        // Between polls the scope's value; during a poll, the outer scope's value.
        value: Option<T>,
        // Dropped as soon as it is ready, while the value is still set.
        #[pin]
        future: Option<F>,
        #[pin]
        pinned: PhantomPinned,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut me = this.project();
            if mem::needs_drop::<F>() && me.future.is_some() {
                // If the scope cannot be entered, the future is dropped without the value.
                if let Ok(_in_scope) = me.key.enter(me.value) {
                    me.future.set(None);
                }
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Removes and returns the value, unless it was already taken.
    ///
    /// Use this to get the value back after the future is ready. A future that is polled after this
    /// call has no value for the key.
    ///
    /// # Examples
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use std::cell::Cell;
    ///
    /// wakeful::task_local! {
    ///     static COUNT: Cell<u32>;
    /// }
    ///
    /// wakeful::pin! {
    ///     let counting = COUNT.scope(Cell::new(0), async { COUNT.with(|count| count.set(5)) });
    /// }
    /// counting.as_mut().await;
    /// assert_eq!(counting.take_value().map(Cell::into_inner), Some(5));
    /// # });
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut me = self.project();
        let Some(future) = me.future.as_mut().as_pin_mut() else {
            panic!("`TaskLocalFuture` polled after completion");
        };
        let _in_scope = match me.key.enter(me.value) {
            Ok(guard) => guard,
            Err(error) => error.panic(),
        };
        let polled = future.poll(cx);
        if polled.is_ready() {
            me.future.set(None);
        }
        polled
    }
}

impl<T: fmt::Debug + 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TaskLocalFuture");
        match &self.value {
            Some(value) => debug.field("value", value),
            None => debug.field("value", &format_args!("<missing>")),
        };
        debug.finish()
    }
}

/// The error of [`LocalKey::try_with`] and [`LocalKey::try_get`]: the key has no value.
///
/// # Examples
///
/// ```
/// wakeful::task_local! {
///     static REQUEST: u64;
/// }
///
/// let error = REQUEST.try_get().unwrap_err();
/// println!("{error}");
/// assert_eq!(REQUEST.sync_scope(7, || REQUEST.try_get()), Ok(7));
/// ```
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct AccessError {
    _private: (),
}

impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessError").finish()
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("task-local value not set")
    }
}

impl Error for AccessError {}
