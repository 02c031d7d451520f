//! Declarative macros that wait for several futures inside one task: `select!`, `join!`,
//! `try_join!`, `pin!`.
//!
//! | file | macro | expands to |
//! | --- | --- | --- |
//! | `select.rs` | `select!` | a [`support::Select`] over a typed list of branches |
//! | `select_future.rs` | | the branches of `select!`, and the future that polls them |
//! | `join.rs` | `join!` | a [`support::Join`] over a typed list of pinned members |
//! | `try_join.rs` | `try_join!` | a [`support::TryJoin`] over a list of the same kind |
//! | `list.rs` | | typed lists of pinned elements |
//! | `pin.rs` | `pin!` | one `core::pin::pin!` for each name |
//! | `support.rs` | | the names that expansions use, and their calls into the runtime |
//!
//! The caller's `async` body awaits the future that the macro built. The macros only parse, and the
//! handlers of `select!` stay in the caller's body. All polling is ordinary code in this module, so
//! it is compiled and tested once and needs no `unsafe`. Lists are typed, for example
//! `List2<Branch<A, _>, Branch<B, _>>`, so nothing is boxed and each output keeps its type.
//!
//! Everything here is public only because expansions must name it. It is `#[doc(hidden)]` and not a
//! stable API.

mod pin;

#[cfg(feature = "macros")]
mod join;
#[cfg(feature = "macros")]
mod list;
#[cfg(feature = "macros")]
mod select;
#[cfg(feature = "macros")]
mod select_future;
#[cfg(feature = "macros")]
pub mod support;
#[cfg(feature = "macros")]
mod try_join;
