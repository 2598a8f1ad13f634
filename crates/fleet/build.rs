//! Compiles the wire contract without protoc.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let file = root.join("volley/fleet/v1/fleet.proto");
    println!("cargo:rerun-if-changed={}", file.display());
    let descriptors = protox::compile([&file], [&root])?;
    tonic_prost_build::configure().bytes(".volley.fleet.v1").compile_fds(descriptors)?;
    Ok(())
}
