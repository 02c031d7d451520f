//! x
use super::round::Round;
pub fn round(_: &mut Round) {}
