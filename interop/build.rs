//! Generates the client and the server of `tests/grpc.rs`.
//!
//! The messages are written by hand, so the build does not need `protoc`.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn method(name: &str, route: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type("crate::Number")
        .output_type("crate::Number")
        .codec_path("tonic_prost::ProstCodec")
}

fn main() {
    let service = Service::builder()
        .name("Sums")
        .package("interop")
        .method(method("double", "Double").build())
        .method(method("count", "Count").server_streaming().build())
        .method(method("sum", "Sum").client_streaming().build())
        .method(method("running", "Running").client_streaming().server_streaming().build())
        .build();
    Builder::new().compile(&[service]);
    println!("cargo:rerun-if-changed=build.rs");
}
