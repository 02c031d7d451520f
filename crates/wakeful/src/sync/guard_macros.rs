//! Trait implementations that all lock guards share.
//!
//! A guard type has a method `pointer` and, if its access is exclusive, `pointer_mut`.
//!
//! Rules:
//! - GUARD-1. A guard holds its lock. Its pointer points to the lock's value or into it. The value
//!   does not move while the lock is held: moving or dropping it requires a `&mut` of the lock, or
//!   the last `Arc`.
//! - GUARD-2. While an exclusive guard exists, no other guard of the same lock exists. While a
//!   shared guard exists, no exclusive one does. So references that are made from the pointer and
//!   live no longer than a borrow of the guard obey Rust's aliasing rules.

/// Implements `Deref`, `Debug` and `Display` for a guard, and `DerefMut` for an exclusive one.
macro_rules! guard_traits {
    (exclusive $guard:ty, [$($params:tt)*] => $target:ident) => {
        $crate::sync::guard_macros::guard_traits! { shared $guard, [$($params)*] => $target }

        impl<$($params)*> std::ops::DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut $target {
                // SAFETY: GUARD-1 and GUARD-2.
                unsafe { &mut *self.pointer_mut() }
            }
        }
    };
    (shared $guard:ty, [$($params:tt)*] => $target:ident) => {
        impl<$($params)*> std::ops::Deref for $guard {
            type Target = $target;

            #[inline]
            fn deref(&self) -> &$target {
                // SAFETY: GUARD-1 and GUARD-2.
                unsafe { &*self.pointer() }
            }
        }

        impl<$($params)*> std::fmt::Debug for $guard
        where
            $target: std::fmt::Debug,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&**self, f)
            }
        }

        impl<$($params)*> std::fmt::Display for $guard
        where
            $target: std::fmt::Display,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&**self, f)
            }
        }
    };
}
pub(super) use guard_traits;
