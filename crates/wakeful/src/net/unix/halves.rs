//! The read and write halves of a [`UnixStream`].

use super::{SocketAddr, UnixStream};
use crate::net::halves::halves;

halves!(UnixStream, SocketAddr, "# let (client, mut server) = wakeful::net::UnixStream::pair()?;");
