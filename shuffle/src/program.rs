//! Whether two workers run the same program on the same job.

use std::fs::File;
use std::io::{self, Read as _};

use weft_object::Types;

use crate::error::ProgramsDiffer;

/// What has to be equal on all workers. Closures are not sent, so that the same stage means the same
/// thing only if the program is the same, byte for byte.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    types: Types,
    /// Checksum and length of the executable.
    build: [u8; 12],
    /// Checksum of what the job was asked to do.
    arguments: u32,
}

/// Which build this program is, in hexadecimal: workers of another one refuse to work with those of this one.
///
/// # Errors
/// The executable cannot be read.
pub fn build_of_this_program() -> io::Result<String> {
    let program = Program::of_this_process(Types::new(), "")?;
    Ok(program.build.iter().map(|byte| format!("{byte:02x}")).collect())
}

const FIXED_BYTES: usize = 16;

impl Program {
    #[expect(clippy::disallowed_methods, reason = "the one file that a worker reads of itself")]
    pub(crate) fn of_this_process(types: Types, arguments: &str) -> io::Result<Self> {
        let mut executable = File::open("/proc/self/exe")?;
        let (mut checksum, mut len) = (0, 0_u64);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = executable.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            checksum = crc32c::crc32c_append(checksum, &buffer[..read]);
            len += read as u64;
        }
        let mut build = [0; 12];
        build[..4].copy_from_slice(&checksum.to_le_bytes());
        build[4..].copy_from_slice(&len.to_le_bytes());
        Ok(Self { types, build, arguments: crc32c::crc32c(arguments.as_bytes()) })
    }

    pub(crate) fn types(&self) -> &Types {
        &self.types
    }

    /// What a worker says of itself.
    pub(crate) fn greeting(&self) -> Vec<u8> {
        [&self.build[..], &self.arguments.to_le_bytes(), &self.types.to_bytes()].concat()
    }

    /// What is answered to another worker's greeting: nothing if it may take part.
    pub(crate) fn answer(&self, greeting: &[u8]) -> Vec<u8> {
        self.check(greeting).map_or_else(|differ| differ.to_string().into_bytes(), |()| Vec::new())
    }

    fn check(&self, greeting: &[u8]) -> Result<(), ProgramsDiffer> {
        let (fixed, types) =
            greeting.split_first_chunk::<FIXED_BYTES>().ok_or(ProgramsDiffer::Malformed)?;
        // The types first: they say more than that something differs.
        self.types.check(types)?;
        if fixed[..12] != self.build {
            return Err(ProgramsDiffer::Build);
        }
        if fixed[12..] != self.arguments.to_le_bytes() {
            return Err(ProgramsDiffer::Arguments);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(types: Types, arguments: &str) -> Program {
        Program::of_this_process(types, arguments).expect("the executable can be read")
    }

    #[test]
    fn only_the_same_types_build_and_arguments_may_take_part() {
        let ours = program(Types::new().with::<u64>(), "pagerank");
        assert_eq!(ours.check(&ours.greeting()), Ok(()));
        assert!(ours.answer(&ours.greeting()).is_empty());
        let types = program(Types::new().with::<f64>(), "pagerank");
        assert!(matches!(ours.check(&types.greeting()), Err(ProgramsDiffer::Types(_))));
        let arguments = program(Types::new().with::<u64>(), "pagerank --damping 0.5");
        assert_eq!(ours.check(&arguments.greeting()), Err(ProgramsDiffer::Arguments));
        let mut build = ours.greeting();
        build[0] ^= 1;
        assert_eq!(ours.check(&build), Err(ProgramsDiffer::Build));
        assert_eq!(ours.check(&build[..15]), Err(ProgramsDiffer::Malformed));
        assert!(!ours.answer(&[]).is_empty());
    }
}
