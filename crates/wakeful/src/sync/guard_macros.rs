//! What all lock guards have in common.
//!
//! Rules:
//! - G1. A guard keeps a hold of its lock, and its pointer leads to the lock's value
//!   or into it. The value stays where it is for as long as the hold: whoever moves
//!   or drops it has the lock for itself, borrowed or as its last owner.
//! - G2. An exclusive hold is the only one, and a shared hold keeps exclusive ones
//!   away. So references that come from the pointer and live no longer than a
//!   borrow of the guard keep Rust's rules.
//!
//! A guard has methods `pointer` and, if its hold is exclusive, `pointer_mut`.

/// `Deref`, `Debug` and `Display` for a guard, and `DerefMut` for an exclusive one.
macro_rules! guard_traits {
    (exclusive $guard:ty, [$($params:tt)*] => $target:ident) => {
        $crate::sync::guard_macros::guard_traits! { shared $guard, [$($params)*] => $target }

        impl<$($params)*> std::ops::DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut $target {
                // SAFETY: G1 and G2.
                unsafe { &mut *self.pointer_mut() }
            }
        }
    };
    (shared $guard:ty, [$($params:tt)*] => $target:ident) => {
        impl<$($params)*> std::ops::Deref for $guard {
            type Target = $target;

            #[inline]
            fn deref(&self) -> &$target {
                // SAFETY: G1 and G2.
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
