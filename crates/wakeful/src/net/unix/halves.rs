//! The two halves of a unix connection.

use super::{SocketAddr, UnixStream};
use crate::net::halves::halves;

halves!(UnixStream, SocketAddr);
