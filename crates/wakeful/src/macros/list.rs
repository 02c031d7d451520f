//! Typed lists of pinned elements, in which `select!` and `join!` keep their futures.
//!
//! `List3<A, B, C>` is a struct of three pinned fields. Up to seven elements are one such struct.
//! For more, a [`List8`] holds eight elements and a list of the rest. The structs are flat because
//! nested pairs are built from the back, by moves that the compiler does not eliminate.
//!
//! A visitor ([`Visit`]) sees each element with its own type.

use core::ops::ControlFlow;
use core::pin::Pin;

use pin_project_lite::pin_project;

/// An operation on an element of type `T`.
pub trait Visit<T> {
    /// Visits one element. `Break` skips the remaining elements.
    fn visit(&mut self, element: Pin<&mut T>) -> ControlFlow<()>;
}

/// A list whose elements `V` can visit.
pub trait List<V> {
    /// The number of elements.
    const LEN: u32;

    /// Visits the elements front to back until the visitor returns `Break`.
    fn visit_all(self: Pin<&mut Self>, visitor: &mut V) -> ControlFlow<()>;
}

/// The end of a list whose length is a multiple of eight.
pub struct ListEnd;

impl<V> List<V> for ListEnd {
    const LEN: u32 = 0;

    #[inline]
    fn visit_all(self: Pin<&mut Self>, _: &mut V) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

macro_rules! lists {
    ($($name:ident { $($field:ident: $T:ident),+ } then { $($rest:ident: $Rest:ident)? })+) => { $(
        pin_project! {
            #[doc = concat!("A list of the shape ", stringify!($name), ".")]
            pub struct $name<$($T,)+ $($Rest)?> {
                $( #[pin] pub $field: $T, )+
                $( #[pin] pub $rest: $Rest, )?
            }
        }

        impl<$($T,)+ $($Rest)?> $name<$($T,)+ $($Rest)?> {
            /// Splits the list into its elements, each pinned, and the rest of the list, if any.
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

/// Builds the list of the given elements.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __list {
    () => { $crate::macros::support::ListEnd };
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
