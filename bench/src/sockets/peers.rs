//! How each peer accepts, reads and writes.
//!
//! Every loop does the same with the API of its runtime: read what has arrived, write all of it back.

use std::future::Future;
use std::net::TcpListener as StdListener;

use super::{BUFFER, Service, Sockets, hello};
use crate::peers::{Compio, Monoio, MonoioUring, OneThread, Peer, SmolLocal, SmolMulti};

/// `tokio_shaped!(tokio, adaptor)`: for the crate and hyper's adaptor to its I/O.
macro_rules! tokio_shaped {
    ($name:ident, $peers:ident, $adaptor:path) => {
        mod $name {
            use super::*;
            use crate::peers::$peers::{Current, Multi};
            use ::$name::io::{AsyncReadExt, AsyncWriteExt};
            use ::$name::net::{TcpListener, TcpStream};
            use $adaptor as Adaptor;

            async fn accept_loop(listener: StdListener, service: Service) {
                let listener = TcpListener::from_std(listener).expect("it is non-blocking");
                loop {
                    let (stream, _) = listener.accept().await.expect("there are descriptors left");
                    stream.set_nodelay(true).expect("it is a TCP socket");
                    match service {
                        Service::Http => ::$name::spawn(hello::serve(Adaptor::new(stream))),
                        _ => ::$name::spawn(echo(stream)),
                    };
                }
            }

            async fn echo(mut stream: TcpStream) {
                let mut buffer = [0; BUFFER];
                loop {
                    match stream.read(&mut buffer).await {
                        Ok(count) if count > 0 => {
                            if stream.write_all(&buffer[..count]).await.is_err() {
                                return;
                            }
                        }
                        _ => return,
                    }
                }
            }

            impl Sockets for Multi {
                fn accept_loop(
                    listener: StdListener,
                    service: Service,
                ) -> impl Future<Output = ()> + Send + 'static {
                    accept_loop(listener, service)
                }
            }

            impl Sockets for Current {
                fn accept_loop(
                    listener: StdListener,
                    service: Service,
                ) -> impl Future<Output = ()> + Send + 'static {
                    accept_loop(listener, service)
                }
            }
        }
    };
}
tokio_shaped!(tokio, on_tokio, hyper_util::rt::TokioIo);
#[cfg(feature = "wakeful")]
tokio_shaped!(wakeful, on_wakeful, wakeful_hyper::Io);

mod smol {
    use super::*;
    use ::smol::Async;
    use ::smol::io::{AsyncReadExt, AsyncWriteExt};
    use smol_hyper::rt::FuturesIo;
    use std::net::TcpStream;

    async fn accept_loop<P: Peer>(listener: StdListener, service: Service) {
        let listener = Async::new(listener).expect("it can be watched");
        loop {
            let (stream, _) = listener.accept().await.expect("there are descriptors left");
            stream.get_ref().set_nodelay(true).expect("it is a TCP socket");
            match service {
                Service::Http => P::detach(P::spawn(hello::serve(FuturesIo::new(stream)))),
                _ => P::detach(P::spawn(echo(stream))),
            }
        }
    }

    async fn echo(mut stream: Async<TcpStream>) {
        let mut buffer = [0; BUFFER];
        loop {
            match stream.read(&mut buffer).await {
                Ok(count) if count > 0 => {
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    impl Sockets for SmolMulti {
        fn accept_loop(
            listener: StdListener,
            service: Service,
        ) -> impl Future<Output = ()> + Send + 'static {
            accept_loop::<Self>(listener, service)
        }
    }

    impl Sockets for SmolLocal {
        fn accept_loop(
            listener: StdListener,
            service: Service,
        ) -> impl Future<Output = ()> + Send + 'static {
            accept_loop::<Self>(listener, service)
        }
    }
}

mod monoio {
    use super::*;
    use ::monoio::io::{AsyncReadRent, AsyncWriteRentExt, IntoPollIo};
    use ::monoio::net::{TcpListener, TcpStream};
    use monoio_compat::hyper::MonoioIo;

    async fn accept_loop(listener: StdListener, service: Service) {
        let listener = TcpListener::from_std(listener).expect("it can be watched");
        loop {
            let (stream, _) = listener.accept().await.expect("there are descriptors left");
            stream.set_nodelay(true).expect("it is a TCP socket");
            match service {
                Service::Http => {
                    let stream = stream.into_poll_io().expect("it can be polled");
                    drop(::monoio::spawn(hello::serve(MonoioIo::new(stream))));
                }
                _ => drop(::monoio::spawn(echo(stream))),
            }
        }
    }

    async fn echo(mut stream: TcpStream) {
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            let (read, filled) = stream.read(buffer).await;
            if !read.is_ok_and(|count| count > 0) {
                return;
            }
            let (written, mut used) = stream.write_all(filled).await;
            if written.is_err() {
                return;
            }
            used.clear();
            buffer = used;
        }
    }

    impl Sockets for Monoio {
        fn accept_loop(
            listener: StdListener,
            service: Service,
        ) -> impl Future<Output = ()> + Send + 'static {
            OneThread(accept_loop(listener, service))
        }
    }

    impl Sockets for MonoioUring {
        fn accept_loop(
            listener: StdListener,
            service: Service,
        ) -> impl Future<Output = ()> + Send + 'static {
            OneThread(accept_loop(listener, service))
        }
    }
}

mod compio {
    use super::*;
    use ::compio::buf::BufResult;
    use ::compio::io::compat::AsyncStream;
    use ::compio::io::{AsyncRead, AsyncWriteExt};
    use ::compio::net::{TcpListener, TcpStream};
    use smol_hyper::rt::FuturesIo;

    async fn accept_loop(listener: StdListener, service: Service) {
        let listener = TcpListener::from_std(listener).expect("it can be watched");
        loop {
            let (stream, _) = listener.accept().await.expect("there are descriptors left");
            stream.set_nodelay(true).expect("it is a TCP socket");
            match service {
                Service::Http => {
                    let stream = FuturesIo::new(Box::pin(AsyncStream::new(stream)));
                    ::compio::runtime::spawn(hello::serve(stream)).detach();
                }
                _ => ::compio::runtime::spawn(echo(stream)).detach(),
            }
        }
    }

    async fn echo(mut stream: TcpStream) {
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            let BufResult(read, filled) = stream.read(buffer).await;
            if !read.is_ok_and(|count| count > 0) {
                return;
            }
            let BufResult(written, mut used) = stream.write_all(filled).await;
            if written.is_err() {
                return;
            }
            used.clear();
            buffer = used;
        }
    }

    impl Sockets for Compio {
        fn accept_loop(
            listener: StdListener,
            service: Service,
        ) -> impl Future<Output = ()> + Send + 'static {
            OneThread(accept_loop(listener, service))
        }
    }
}
