//! `task_local!`: values that belong to a task, or to a part of one, rather than to a thread.
//!
//! A value lives inside the [`TaskLocalFuture`] that [`LocalKey::scope`] returns. It is lent to a thread-local slot for
//! as long as the inner future runs — while it is polled and while it is dropped — and comes back afterwards, also
//! when that ends in a panic. Between polls no thread has it, so the task may move.
//!
//! ```text
//!            ┌── enter: swap ──►                       ◄── ScopeGuard::drop: swap back ──┐
//!   TaskLocalFuture.value: Some(v)      thread slot: the value of the scope around us, or None
//!   TaskLocalFuture.value: outer        thread slot: Some(v)   ── with(), get() see v
//! ```
//!
//! Scopes nest because the swap puts the outer value into the inner future's keeping for the time being.

use core::cell::RefCell;
use core::error::Error;
use core::fmt;
use core::marker::PhantomPinned;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::thread;

use pin_project_lite::pin_project;

/// Declares keys for task-local values.
///
/// ```
/// wakeful::task_local! {
///     /// The request that this task works on.
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
/// Each line declares a `static` [`LocalKey`], with attributes and visibility as written. There is no initial value: a
/// key has one only inside a [`scope`](crate::task::LocalKey::scope). The last semicolon may be left out.
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

/// A key to a task-local value, declared with [`task_local!`](crate::task_local).
///
/// Unlike a [`std::thread::LocalKey`], it has no value of its own: [`scope`](LocalKey::scope) gives it one for the
/// length of a future, [`sync_scope`](LocalKey::sync_scope) for the length of a call. Scopes of the same key may be
/// nested; the innermost counts. A task that is spawned inside a scope does not inherit the value.
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
    /// The slot that holds the value of the innermost scope now running on this thread. Public for `task_local!`.
    #[doc(hidden)]
    pub slot: thread::LocalKey<RefCell<Option<T>>>,
}

impl<T: 'static> LocalKey<T> {
    /// Gives the key a value for as long as `future` runs, including while it is dropped.
    ///
    /// The value belongs to the returned future and is dropped with it.
    ///
    /// # Panics
    ///
    /// The returned future panics when it is polled inside a call of [`with`](LocalKey::with) or
    /// [`try_with`](LocalKey::try_with) on the same key.
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

    /// Gives the key a value for the length of the call of `function`.
    ///
    /// # Panics
    ///
    /// Panics when called inside a call of [`with`](LocalKey::with) or [`try_with`](LocalKey::try_with) on the same
    /// key.
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

    /// Calls `function` with the key's value.
    ///
    /// # Panics
    ///
    /// Panics outside every scope of this key.
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

    /// Calls `function` with the key's value, or returns an error outside every scope of this key.
    pub fn try_with<F, R>(&'static self, function: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        let found = self.slot.try_with(|slot| slot.borrow().as_ref().map(function));
        // The outer error: this thread is ending and has dropped its slot.
        found.ok().flatten().ok_or(AccessError { _private: () })
    }

    /// Lends the content of `value` to this thread's slot until the guard is dropped.
    fn enter<'v>(&'static self, value: &'v mut Option<T>) -> Result<ScopeGuard<'v, T>, EnterError> {
        let swapped = self.slot.try_with(|slot| match slot.try_borrow_mut() {
            Ok(mut slot) => {
                mem::swap(&mut *slot, value);
                Ok(())
            }
            Err(_) => Err(EnterError::Borrowed),
        });
        swapped.unwrap_or(Err(EnterError::ThreadEnding))?;
        Ok(ScopeGuard { key: self, outer: value })
    }
}

impl<T: Clone + 'static> LocalKey<T> {
    /// A copy of the key's value.
    ///
    /// # Panics
    ///
    /// Panics outside every scope of this key.
    #[track_caller]
    pub fn get(&'static self) -> T {
        self.with(T::clone)
    }

    /// A copy of the key's value, or an error outside every scope of this key.
    pub fn try_get(&'static self) -> Result<T, AccessError> {
        self.try_with(T::clone)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("LocalKey { .. }")
    }
}

/// While this lives, the slot has the scope's value and `outer` keeps what the slot had before.
struct ScopeGuard<'v, T: 'static> {
    key: &'static LocalKey<T>,
    outer: &'v mut Option<T>,
}

impl<T: 'static> Drop for ScopeGuard<'_, T> {
    fn drop(&mut self) {
        // The slot was there when we entered, on this same thread and further up this stack; and a borrow of it cannot
        // outlast the call of `with` that made it, which has returned or unwound by now.
        self.key.slot.with(|slot| mem::swap(&mut *slot.borrow_mut(), self.outer));
    }
}

/// Why a scope could not be entered.
enum EnterError {
    /// We are inside `with` on the same key.
    Borrowed,
    /// The thread is ending and its slot is gone.
    ThreadEnding,
}

impl EnterError {
    #[track_caller]
    fn panic(self) -> ! {
        match self {
            EnterError::Borrowed => {
                panic!("cannot enter a task-local scope while the task-local storage is borrowed")
            }
            EnterError::ThreadEnding => {
                panic!(
                    "cannot enter a task-local scope during or after destruction of the underlying thread-local"
                )
            }
        }
    }
}

pin_project! {
    /// A future with a task-local value: what [`LocalKey::scope`] returns.
    pub struct TaskLocalFuture<T, F>
    where
        T: 'static,
    {
        key: &'static LocalKey<T>,
        // Between polls the scope's own value; during a poll, the value of the scope around it.
        value: Option<T>,
        // Dropped as soon as it has finished, while the value is still there to see.
        #[pin]
        future: Option<F>,
        #[pin]
        pinned: PhantomPinned,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut me = this.project();
            if mem::needs_drop::<F>() && me.future.is_some() {
                // If the scope can't be entered, the future is dropped without it, by the struct's own drop.
                if let Ok(_in_scope) = me.key.enter(me.value) {
                    me.future.set(None);
                }
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out, if it is still there.
    ///
    /// A future that is polled after this finds the key without a value. After the future has finished this is the way
    /// to get the value back.
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

/// The key had no value: the error of [`LocalKey::try_with`] and [`LocalKey::try_get`].
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
