//! Writes the control port's API as Rust: see `proto/weft/control/v1/control.proto`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    if cfg!(feature = "control") {
        tonic_prost_build::configure()
            .build_transport(false)
            .compile_protos(&["proto/weft/control/v1/control.proto"], &["proto"])?;
    }
    println!("cargo:rerun-if-changed=proto");
    Ok(())
}
