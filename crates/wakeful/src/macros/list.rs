//! Typed lists of pinned things: what `select!` and `join!` keep their futures in.
//!
//! `List3<A, B, C>` is a struct of three pinned fields. Up to seven elements are one such struct; beyond, a [`List8`]
//! holds eight and a list of the rest. They are flat because lists of pairs would be built from the back by moving, and
//! the compiler does not see through that: five futures of 72 bytes took three times as long to put in place.
//!
//! What to do with the elements is said by a [`Visit`]or, which sees each with its own type.

use core::ops::ControlFlow;
use core::pin::Pin;

use pin_project_lite::pin_project;

/// Something to do with an element of type `T`.
pub trait Visit<T> {
    /// Does it; `Break` leaves the remaining elements alone.
    fn visit(&mut self, element: Pin<&mut T>) -> ControlFlow<()>;
}

/// A list that `V` can visit.
pub trait List<V> {
    /// How many elements there are.
    const LEN: u32;

    /// Visits the elements front to back until the visitor has had enough.
    fn visit_all(self: Pin<&mut Self>, visitor: &mut V) -> ControlFlow<()>;
}

/// The end of a list whose length is a multiple of eight.
pub struct End;

impl<V> List<V> for End {
    const LEN: u32 = 0;

    #[inline]
    fn visit_all(self: Pin<&mut Self>, _: &mut V) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

macro_rules! lists {
    ($($name:ident { $($field:ident: $T:ident),+ } then { $($rest:ident: $Rest:ident)? })+) => { $(
        pin_project! {
            #[doc = concat!("A list of ", stringify!($name), " elements.")]
            pub struct $name<$($T,)+ $($Rest)?> {
                $( #[pin] pub $field: $T, )+
                $( #[pin] pub $rest: $Rest, )?
            }
        }

        impl<$($T,)+ $($Rest)?> $name<$($T,)+ $($Rest)?> {
            /// Its elements, each pinned, and its rest if it has one.
            #[inline]
            pub fn split(self: Pin<&mut Self>) -> ($(Pin<&mut $T>,)+ $(Pin<&mut $Rest>,)?) {
                let me = self.project();
                ($(me.$field,)+ $(me.$rest,)?)
            }
        }

        impl<V, $($T,)+ $($Rest)?> List<V> for $name<$($T,)+ $($Rest)?>
        where
            $( V: Visit<$T>, )+
            $( $Rest: List<V>, )?
        {
            const LEN: u32 = [$(stringify!($field)),+].len() as u32 $( + $Rest::LEN )?;

            #[inline]
            fn visit_all(self: Pin<&mut Self>, visitor: &mut V) -> ControlFlow<()> {
                let me = self.project();
                $( visitor.visit(me.$field)?; )+
                $( me.$rest.visit_all(visitor)?; )?
                ControlFlow::Continue(())
            }
        }
    )+ };
}

lists! {
    List1 { a: A } then {}
    List2 { a: A, b: B } then {}
    List3 { a: A, b: B, c: C } then {}
    List4 { a: A, b: B, c: C, d: D } then {}
    List5 { a: A, b: B, c: C, d: D, e: E } then {}
    List6 { a: A, b: B, c: C, d: D, e: E, f: F } then {}
    List7 { a: A, b: B, c: C, d: D, e: E, f: F, g: G } then {}
    List8 { a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H } then { rest: Rest }
}

/// The list of these elements.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __list {
    () => { $crate::macros::support::End };
    (($a:expr)) => { $crate::macros::support::List1 { a: $a } };
    (($a:expr) ($b:expr)) => { $crate::macros::support::List2 { a: $a, b: $b } };
    (($a:expr) ($b:expr) ($c:expr)) => { $crate::macros::support::List3 { a: $a, b: $b, c: $c } };
    (($a:expr) ($b:expr) ($c:expr) ($d:expr)) => {
        $crate::macros::support::List4 { a: $a, b: $b, c: $c, d: $d }
    };
    (($a:expr) ($b:expr) ($c:expr) ($d:expr) ($e:expr)) => {
        $crate::macros::support::List5 { a: $a, b: $b, c: $c, d: $d, e: $e }
    };
    (($a:expr) ($b:expr) ($c:expr) ($d:expr) ($e:expr) ($f:expr)) => {
        $crate::macros::support::List6 { a: $a, b: $b, c: $c, d: $d, e: $e, f: $f }
    };
    (($a:expr) ($b:expr) ($c:expr) ($d:expr) ($e:expr) ($f:expr) ($g:expr)) => {
        $crate::macros::support::List7 { a: $a, b: $b, c: $c, d: $d, e: $e, f: $f, g: $g }
    };
    (($a:expr) ($b:expr) ($c:expr) ($d:expr) ($e:expr) ($f:expr) ($g:expr) ($h:expr) $($rest:tt)*) => {
        $crate::macros::support::List8 {
            a: $a, b: $b, c: $c, d: $d, e: $e, f: $f, g: $g, h: $h, rest: $crate::__list!($($rest)*)
        }
    };
}
