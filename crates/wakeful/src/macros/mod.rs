//! The room of the declarative macros: waiting for several futures inside one task.
//!
//! | file | macro | what it expands to |
//! | --- | --- | --- |
//! | `select.rs` | `select!` | one [`support::Select`], whose branches are a typed list; the handlers stay at the caller |
//! | `branches.rs` | — | its branches, and the future that polls them |
//! | `join.rs` | `join!` | one [`support::Join`] over a typed list of members pinned in the caller's frame |
//! | `try_join.rs` | `try_join!` | one [`support::TryJoin`] over the same list |
//! | `list.rs` | — | the typed lists of pinned things that these share |
//! | `pin.rs` | `pin!` | a `core::pin::pin!` for each name, which from then on means the pin |
//! | `support.rs` | — | what the expansions may name: the list types and the two doors to the runtime |
//!
//! Control enters in the caller's `async` body, which awaits the future that the macro has built, and leaves with
//! that future's output. The macros parse; all polling is ordinary code in this room, so it is compiled and tested
//! once and needs no `unsafe`. A list is *typed*, `List2<Branch<A, _>, Branch<B, _>>`, so nothing is boxed and each output
//! keeps its own type.
//!
//! Everything public here is public only because expansions must reach it: `#[doc(hidden)]`, no promise of stability.

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
