//! Generates the server of `src/grpc.rs`.
//!
//! The messages are written by hand, so the build does not need `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let double = Method::builder()
        .name("double")
        .route_name("Double")
        .input_type("crate::grpc::Number")
        .output_type("crate::grpc::Number")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = Service::builder().name("Sums").package("service").method(double).build();
    Builder::new().build_client(false).compile(&[service]);
    println!("cargo:rerun-if-changed=build.rs");
}
