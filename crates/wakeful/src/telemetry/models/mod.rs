//! Loom models of the telemetry protocols.

mod scan_gate;
