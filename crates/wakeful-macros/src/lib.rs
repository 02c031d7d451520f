//! The attribute macros of wakeful.
