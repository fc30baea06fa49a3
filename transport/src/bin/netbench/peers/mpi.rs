//! MPI, by a loop of our own that is compiled where OpenMPI is installed: the OSU micro-benchmarks are
//! not packaged.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use tempfile::TempDir;

use super::Reached;
use super::plan::PeersPlan;
use super::program::{self, Missing};
use crate::affinity::Cpu;
use crate::links::LinkKind;

const SOURCE: &str = include_str!("mpi_loop.c");
const PACKAGES: &str = "openmpi-bin libopenmpi-dev";

pub(super) struct Mpi {
    link: LinkKind,
    version: String,
}

impl Mpi {
    pub(super) fn find(link: LinkKind) -> Result<Self, Missing> {
        program::find("mpicc", PACKAGES)?;
        program::find("mpirun", PACKAGES)?;
        Ok(Self { link, version: program::version("mpirun", "--version") })
    }

    pub(super) fn name(&self) -> String {
        format!("openmpi {} ({})", self.version, self.transport())
    }

    /// OpenMPI's own name of what moves bytes.
    fn transport(&self) -> &'static str {
        if self.link == LinkKind::Shm { "vader" } else { "tcp" }
    }

    pub(super) fn measure(&self, plan: &PeersPlan) -> anyhow::Result<Reached> {
        let folder = TempDir::with_prefix("netbench-mpi-").context("failed to make a folder")?;
        let program = compile(&folder)?;
        let mut mpirun = Command::new("mpirun");
        // Where there is no second user, as in a container, MPI has to run as root.
        mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        mpirun.args(["-np", "2", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"]);
        mpirun.args(["--mca", "btl", &format!("self,{}", self.transport())]);
        if self.link == LinkKind::Tcp {
            mpirun.args(["--mca", "btl_tcp_if_include", "lo"]);
        }
        // Told that there are fewer slots than ranks, it would yield at every look.
        mpirun.args(["--mca", "mpi_yield_when_idle", "0"]);
        mpirun.arg(program);
        let cpu = |cpu: Option<Cpu>| cpu.map_or("-1".to_owned(), |Cpu(number)| number.to_string());
        mpirun.args([plan.size.to_string(), plan.large_size.to_string()]);
        mpirun.arg(plan.window.as_secs_f64().to_string());
        mpirun.args([cpu(plan.placement.client()), cpu(plan.placement.server())]);
        parse(&program::run(&mut mpirun)?)
    }
}

fn compile(folder: &TempDir) -> anyhow::Result<PathBuf> {
    let (source, program) = (folder.path().join("mpi_loop.c"), folder.path().join("mpi_loop"));
    std::fs::write(&source, SOURCE).context("failed to write the loop's source")?;
    program::run(Command::new("mpicc").args(["-O2", "-o"]).arg(&program).arg(&source))?;
    Ok(program)
}

fn parse(printed: &str) -> anyhow::Result<Reached> {
    let line = printed.lines().last().unwrap_or_default();
    let values: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    match values.as_deref() {
        Ok(&[round_trip_us, messages_per_second, bytes_per_second]) => Ok(Reached {
            round_trip_us: Some(round_trip_us),
            messages_per_second: Some(messages_per_second),
            bytes_per_second: Some(bytes_per_second),
        }),
        _ => anyhow::bail!("the loop over MPI printed something else: {printed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_figures_are_read() {
        let reached = parse("a warning\n1.5 2000.0 3e9\n").unwrap();
        assert_eq!(reached.round_trip_us, Some(1.5));
        assert_eq!(reached.bytes_per_second, Some(3e9));
        assert!(parse("1.5 2000.0\n").is_err());
    }
}
