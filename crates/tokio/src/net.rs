//! Sockets and pipes.

pub use wakeful::net::{
    TcpListener, TcpSocket, TcpStream, ToSocketAddrs, UdpSocket, UnixDatagram, UnixListener,
    UnixSocket, UnixStream, lookup_host,
};

pub use wakeful::net::{tcp, unix};
