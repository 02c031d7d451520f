//! TCP, UDP and Unix sockets, and pipes; see `wakeful::net`.

pub use wakeful::net::{
    TcpListener, TcpSocket, TcpStream, ToSocketAddrs, UdpSocket, UnixDatagram, UnixListener,
    UnixSocket, UnixStream, lookup_host,
};

/// Halves of a TCP stream.
pub mod tcp {
    pub use wakeful::net::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
}

/// Halves of a Unix stream, credentials, and pipes.
pub mod unix {
    pub use wakeful::net::unix::{
        OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, SocketAddr, UCred, WriteHalf, gid_t,
        pid_t, pipe, uid_t,
    };
}
