//! Sockets and pipes.

pub use wakeful::net::{
    TcpListener, TcpSocket, TcpStream, ToSocketAddrs, UdpSocket, UnixDatagram, UnixListener,
    UnixSocket, UnixStream, lookup_host,
};

/// Parts of a TCP connection.
pub mod tcp {
    pub use wakeful::net::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
}

/// Parts of a unix connection, and pipes.
pub mod unix {
    pub use wakeful::net::unix::{
        OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, SocketAddr, UCred, WriteHalf, gid_t,
        pid_t, pipe, uid_t,
    };
}
