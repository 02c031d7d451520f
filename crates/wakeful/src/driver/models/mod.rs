//! Loom models of the driver.

mod io_readiness;
