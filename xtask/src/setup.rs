//! Installs what this machine lacks, and touches nothing that is there already.
//!
//! A tool is there if the search path has it, wherever it came from. System packages come by apt, as
//! root or through a sudo that asks no password; where neither can be had, the one line to run is
//! printed and the command fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{find, line, run as run_command, succeeds};
use crate::workspace::Workspace;

/// What a task needs on the machine, beside the Rust toolchain.
struct Tool {
    /// The program by which its presence is known.
    program: &'static str,
    purpose: &'static str,
    source: Source,
}

enum Source {
    Debian {
        package: &'static str,
    },
    /// A package without a program: what it is known by is its own name.
    DebianLibrary {
        package: &'static str,
    },
    Crate {
        name: &'static str,
        version: &'static str,
    },
    Wheel {
        name: &'static str,
        version: &'static str,
    },
}

const GIT: Tool = Tool {
    program: "git",
    purpose: "lists the files that the rules of the house apply to",
    source: Source::Debian { package: "git" },
};
const CC: Tool = Tool {
    program: "cc",
    purpose: "links what is built",
    source: Source::Debian { package: "gcc" },
};
const PROTOC: Tool = Tool {
    program: "protoc",
    purpose: "compiles the messages of raft, under weft-server",
    source: Source::Debian { package: "protobuf-compiler" },
};
const ROCKSDB: Tool = Tool {
    program: "librocksdb-dev",
    purpose: "keeps the coordinator's log, under weft-server",
    source: Source::DebianLibrary { package: "librocksdb-dev" },
};
const LIBCLANG: Tool = Tool {
    program: "libclang-dev",
    purpose: "reads the headers of RocksDB, under weft-server",
    source: Source::DebianLibrary { package: "libclang-dev" },
};
const CPP: Tool = Tool {
    program: "c++",
    purpose: "compiles libFuzzer, under the fuzz targets",
    source: Source::Debian { package: "g++" },
};
const PIP: Tool = Tool {
    program: "pip3",
    purpose: "installs typos",
    source: Source::Debian { package: "python3-pip" },
};
const TASKSET: Tool = Tool {
    program: "taskset",
    purpose: "gives server and client of a benchmark a core each",
    source: Source::Debian { package: "util-linux" },
};
const REDIS: Tool = Tool {
    program: "redis-server",
    purpose: "the peer that the demo and the benchmarks run beside",
    source: Source::Debian { package: "redis-server" },
};
const NEXTEST: Tool = Tool {
    program: "cargo-nextest",
    purpose: "runs the tests",
    source: Source::Crate { name: "cargo-nextest", version: "0.9.143" },
};
const DENY: Tool = Tool {
    program: "cargo-deny",
    purpose: "checks licenses, sources and duplicates of dependencies",
    source: Source::Crate { name: "cargo-deny", version: "0.20.2" },
};
const TYPOS: Tool = Tool {
    program: "typos",
    purpose: "checks spelling",
    source: Source::Wheel { name: "typos", version: "1.52.0" },
};

const DOCKERD: Tool = Tool {
    program: "dockerd",
    purpose: "runs containers",
    source: Source::Debian { package: "docker.io" },
};
const DOCKER: Tool = Tool {
    program: "docker",
    purpose: "tells it to",
    source: Source::Debian { package: "docker.io" },
};
const COMPOSE: Tool = Tool {
    program: "docker-compose",
    purpose: "runs several containers by a file",
    source: Source::Debian { package: "docker-compose" },
};
const MMDEBSTRAP: Tool = Tool {
    program: "mmdebstrap",
    purpose: "makes a small Debian, in half the time that debootstrap takes",
    source: Source::Debian { package: "mmdebstrap" },
};
const UNSHARE: Tool = Tool {
    program: "unshare",
    purpose: "gives dockerd a network and processes of its own",
    source: Source::Debian { package: "util-linux" },
};
const IP: Tool = Tool {
    program: "ip",
    purpose: "sets that network up",
    source: Source::Debian { package: "iproute2" },
};

const STRACE: Tool = Tool {
    program: "strace",
    purpose: "shows tests what the system is asked for, and when",
    source: Source::Debian { package: "strace" },
};

/// Libraries of Python that render the chart and know what Kubernetes takes, with their versions.
const CHART: &[(&str, &str)] = &[("helm-python-sdk", "0.2.2"), ("kubernetes-validate", "1.37.0")];

/// A peer of the shuffle.
const SPARK: &[(&str, &str)] = &[("pyspark", "4.3.0")];
const JAVA: Tool = Tool {
    program: "java",
    purpose: "runs Spark",
    source: Source::Debian { package: "default-jre-headless" },
};

/// What a build with the feature `verbs` needs, and the emulated machine that has a device: packages that
/// are not known by a program of theirs.
const SOFTROCE: &[&str] = &[
    "cmake",
    "clang",
    "libclang-dev",
    "pkg-config",
    "libibverbs-dev",
    "libnl-3-dev",
    "libnl-route-3-dev",
    "qemu-system-x86",
    "linux-image-amd64",
    "busybox-static",
    "cpio",
    "kmod",
    "iproute2",
    "rdma-core",
    "ibverbs-utils",
    "ibverbs-providers",
    "perftest",
    "redis-server",
];

const UCX: Tool = Tool {
    program: "ucx_perftest",
    purpose: "a peer of the transport",
    source: Source::Debian { package: "ucx-utils" },
};
const LIBFABRIC: Tool = Tool {
    program: "fi_pingpong",
    purpose: "a peer of the transport",
    source: Source::Debian { package: "libfabric-bin" },
};
const MPICC: Tool = Tool {
    program: "mpicc",
    purpose: "compiles the loop over MPI, a peer of the transport",
    source: Source::Debian { package: "libopenmpi-dev" },
};
const MPIRUN: Tool = Tool {
    program: "mpirun",
    purpose: "runs it",
    source: Source::Debian { package: "openmpi-bin" },
};

const EVERYTHING: &[&Tool] = &[
    &GIT, &CC, &PROTOC, &ROCKSDB, &LIBCLANG, &CPP, &PIP, &TASKSET, &REDIS, &STRACE, &NEXTEST,
    &DENY, &TYPOS,
];
const FOR_LINT: &[&Tool] = &[&GIT, &PROTOC, &ROCKSDB, &LIBCLANG, &CPP, &PIP, &DENY, &TYPOS];
const FOR_BENCH: &[&Tool] = &[&PROTOC, &ROCKSDB, &LIBCLANG, &TASKSET, &REDIS];
/// Peers of the transport, which nothing but its benchmark needs.
const BESIDE_TRANSPORT: &[&Tool] = &[&UCX, &LIBFABRIC, &MPICC, &MPIRUN];
/// Nothing but `cargo xtask deploy` needs them.
const FOR_DEPLOY: &[&Tool] = &[&DOCKERD, &DOCKER, &COMPOSE, &MMDEBSTRAP, &UNSHARE, &IP];
const FOR_DEMO: &[&Tool] = &[&CC, &PROTOC, &ROCKSDB, &LIBCLANG];
const BESIDE_DEMO: &[&Tool] = &[&REDIS];

/// Installs everything that any task of the workspace needs.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    install(EVERYTHING, workspace)?;
    // All else can be done without these.
    if let Err(error) = for_softroce() {
        println!("going on without the emulated machine that has an RDMA device: {error:#}");
    }
    for tool in EVERYTHING {
        println!("{:<14} {}", tool.program, tool.purpose);
    }
    Ok(())
}

/// Installs what `cargo xtask lint` needs.
pub(crate) fn for_lint(workspace: &Workspace) -> Result<()> {
    install(FOR_LINT, workspace)
}

/// Installs what `cargo xtask bench` needs.
pub(crate) fn for_bench(workspace: &Workspace) -> Result<()> {
    install(FOR_BENCH, workspace)
}

/// Installs the peers that `cargo xtask bench transport` runs beside. It can do without any of them, so
/// that failing to install them is only reported.
pub(crate) fn beside_transport(workspace: &Workspace) {
    if let Err(error) = install(BESIDE_TRANSPORT, workspace) {
        println!("going on without some of the transport's peers: {error:#}");
    }
}

/// Installs what `cargo xtask softroce` needs.
pub(crate) fn for_softroce() -> Result<()> {
    let missing = missing_for_softroce();
    if missing.is_empty() { Ok(()) } else { install_packages(&missing) }
}

/// What `cargo xtask softroce` needs and is not installed.
pub(crate) fn missing_for_softroce() -> Vec<&'static str> {
    SOFTROCE.iter().copied().filter(|package| !is_installed(package)).collect()
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

/// Installs what `cargo xtask deploy` needs, which only root may use.
pub(crate) fn for_deploy(workspace: &Workspace) -> Result<()> {
    if !matches!(Privilege::of_this_process(), Some(Privilege::Root)) {
        bail!("a network and mounts of its own take root");
    }
    install(FOR_DEPLOY, workspace)
}

/// Installs the libraries that `cargo xtask chart` needs, and returns the folder that has them. They have one of their own, since pip
/// replaces what it finds in a folder.
pub(crate) fn for_chart(workspace: &Workspace) -> Result<PathBuf> {
    install(&[&PIP], workspace)?;
    libraries(workspace, "chart", CHART)
}

/// Installs Spark, a peer of the shuffle, and returns the folder that has it.
pub(crate) fn for_spark(workspace: &Workspace) -> Result<PathBuf> {
    install(&[&PIP, &JAVA], workspace)?;
    libraries(workspace, "spark", SPARK)
}

/// Installs these in a folder of their own, and returns it.
fn libraries(workspace: &Workspace, name: &str, wanted: &[(&str, &str)]) -> Result<PathBuf> {
    let folder = workspace.target().join("xtask").join(name);
    let is_there = |(name, version): &(&str, &str)| {
        let record = format!("{}-{version}.dist-info", name.replace('-', "_"));
        folder.join(record).exists()
    };
    if !wanted.iter().all(is_there) {
        let libraries = wanted.iter().map(|(name, version)| format!("{name}=={version}"));
        let mut pip = pip_into(&folder);
        run_command(pip.args(libraries))?;
    }
    Ok(folder)
}

fn pip_into(folder: &Path) -> Command {
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--root-user-action=ignore", "--upgrade", "--target"]);
    pip.arg(folder);
    pip
}

/// Installs what `cargo xtask demo` needs to build and run, and the peer that it shows. It can do
/// without the peer, so that failing to install that is only reported.
pub(crate) fn for_demo(workspace: &Workspace) -> Result<()> {
    install(FOR_DEMO, workspace)?;
    if let Err(error) = install(BESIDE_DEMO, workspace) {
        println!("going on without redis: {error:#}");
    }
    Ok(())
}

/// The file of a wheel's program: from the search path, or where [`run`] puts wheels.
pub(crate) fn wheel_program(program: &str, workspace: &Workspace) -> Option<PathBuf> {
    let own = wheels(workspace).join("bin").join(program);
    find(program).or_else(|| own.exists().then_some(own))
}

fn install(tools: &[&Tool], workspace: &Workspace) -> Result<()> {
    let missing: Vec<&Tool> =
        tools.iter().copied().filter(|tool| !is_present(tool, workspace)).collect();
    let packages: Vec<&str> = missing.iter().filter_map(|tool| tool.source.debian()).collect();
    if !packages.is_empty() {
        install_packages(&packages)?;
    }
    for tool in missing {
        match tool.source {
            Source::Debian { .. } | Source::DebianLibrary { .. } => {}
            Source::Crate { name, version } => run_command(
                // Unoptimized: these run for seconds, and compiling them optimized takes minutes.
                Command::new("cargo")
                    .args(["install", "--locked", "--debug", name, "--version", version])
                    .env_remove("CARGO_TARGET_DIR"),
            )?,
            Source::Wheel { name, version } => {
                run_command(pip_into(&wheels(workspace)).arg(format!("{name}=={version}")))?
            }
        }
        if !is_present(tool, workspace) {
            bail!("`{}` is still not found after installing it", tool.program);
        }
    }
    Ok(())
}

fn is_present(tool: &Tool, workspace: &Workspace) -> bool {
    match tool.source {
        Source::Wheel { .. } => wheel_program(tool.program, workspace).is_some(),
        Source::DebianLibrary { package } => is_installed(package),
        Source::Debian { .. } | Source::Crate { .. } => find(tool.program).is_some(),
    }
}

/// Wheels go under the target folder: distributions forbid pip to write into their own Python.
fn wheels(workspace: &Workspace) -> PathBuf {
    workspace.target().join("xtask").join("wheels")
}

fn install_packages(packages: &[&str]) -> Result<()> {
    if find("apt-get").is_none() {
        bail!("this machine has no apt-get: install {} by its own means", packages.join(", "));
    }
    let Some(privilege) = Privilege::of_this_process() else {
        bail!(
            "system packages are missing; run this line, then try again:\n  {}",
            line_to_run(packages)
        );
    };
    run_command(&mut privilege.apt_get(&["update"]))?;
    let mut install = privilege.apt_get(&["install", "--yes", "--no-install-recommends"]);
    run_command(install.args(packages))?;
    if packages.iter().any(|package| REDIS.source.debian() == Some(package)) {
        stop_packaged_redis(&privilege)?;
    }
    Ok(())
}

fn line_to_run(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!("sudo apt-get update && sudo apt-get install --yes --no-install-recommends {packages}")
}

/// Debian starts a server when it installs one; ours are started by the tasks that use them.
fn stop_packaged_redis(privilege: &Privilege) -> Result<()> {
    if Path::new("/run/systemd/system").exists() {
        let mut disable = privilege.command("systemctl");
        return run_command(disable.args(["disable", "--now", "redis-server"]));
    }
    let mut stop = privilege.command("service");
    if !succeeds(stop.args(["redis-server", "stop"])) {
        println!("`{}` failed: a redis-server may be running on its default port", line(&stop));
    }
    Ok(())
}

enum Privilege {
    Root,
    Sudo,
}

impl Privilege {
    fn of_this_process() -> Option<Privilege> {
        use std::os::unix::fs::MetadataExt;
        let root = Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0);
        if root {
            return Some(Privilege::Root);
        }
        succeeds(Command::new("sudo").args(["-n", "true"])).then_some(Privilege::Sudo)
    }

    fn command(&self, program: &str) -> Command {
        match self {
            Privilege::Root => Command::new(program),
            Privilege::Sudo => {
                let mut command = Command::new("sudo");
                command.args(["-n", "--preserve-env=DEBIAN_FRONTEND", program]);
                command
            }
        }
    }

    fn apt_get(&self, args: &[&str]) -> Command {
        let mut command = self.command("apt-get");
        command.args(["--quiet", "--quiet"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }
}

impl Source {
    fn debian(&self) -> Option<&'static str> {
        match self {
            Source::Debian { package } | Source::DebianLibrary { package } => Some(package),
            Source::Crate { .. } | Source::Wheel { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BESIDE_DEMO, EVERYTHING, FOR_BENCH, FOR_DEMO, FOR_LINT, line_to_run};

    #[test]
    fn every_task_s_tools_are_part_of_setup() {
        for tool in [FOR_LINT, FOR_BENCH, FOR_DEMO, BESIDE_DEMO].concat() {
            assert!(EVERYTHING.iter().any(|known| known.program == tool.program));
        }
    }

    #[test]
    fn the_line_to_run_names_every_package() {
        let line = line_to_run(&["git", "redis-server"]);
        assert!(line.starts_with("sudo apt-get update && "), "{line}");
        assert!(line.ends_with(" git redis-server"), "{line}");
    }
}
