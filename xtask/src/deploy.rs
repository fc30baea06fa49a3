//! The image and the compose file, tried as users do: three nodes are brought up, one is killed and comes back,
//! another one is killed, and nothing that was written is missing.
//!
//! Images cannot be fetched everywhere. So the runtime stage is built on a Debian that is put together from its packages here, and
//! the programs come from the workspace: the Dockerfile takes both. What is not tried is that a public image has what this one has,
//! and the compilation inside of the build stage.

mod cluster;
mod daemon;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use self::cluster::Cluster;
use self::daemon::Daemon;
use crate::workspace::Workspace;
use crate::{command, setup};

/// Debian 12 and what the programs are linked with, those with the feature `verbs` included.
const SUITE: &str = "bookworm";
const LIBRARIES: &str = "librocksdb7.8,libibverbs1,ibverbs-providers";

const BASE: &str = "weft-base";
const IMAGE: &str = "weft:trial";

/// As root installs what is missing, builds and tries.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::for_deploy(workspace)?;
    let daemon = Daemon::start(&folder(workspace))?;
    let mut build = Command::new("cargo");
    command::run(build.args(["build", "--workspace", "--bin", "weft-server", "--bin", "kv"]))?;
    try_out(workspace, &daemon)
}

/// As [`run`], with programs that are there already, or else returns why not: because Docker does not run here. Nothing else is a reason.
pub(crate) fn run_where_it_can_be(workspace: &Workspace) -> Result<Option<String>> {
    let started = setup::for_deploy(workspace).and_then(|()| Daemon::start(&folder(workspace)));
    match started {
        Ok(daemon) => try_out(workspace, &daemon).map(|()| None),
        Err(error) => {
            let why = format!("Docker does not run here: {error:#}.");
            println!("{why}");
            Ok(Some(why))
        }
    }
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("xtask").join("deploy")
}

fn try_out(workspace: &Workspace, daemon: &Daemon) -> Result<()> {
    let folder = folder(workspace);
    let base = base(&folder)?;
    command::run(daemon.docker().arg("import").arg(base).arg(BASE))?;

    let context = context(workspace, &folder)?;
    command::run(
        daemon
            .docker()
            .args(["build", "--quiet", "--file", "deploy/docker/Dockerfile", "--tag", IMAGE])
            .args(["--build-arg", &format!("BUILD_IMAGE={BASE}")])
            .args(["--build-arg", &format!("RUNTIME_IMAGE={BASE}")])
            .arg(context)
            // The other builder is a program of its own, which distributions do not have.
            .env("DOCKER_BUILDKIT", "0"),
    )?;
    Cluster::new(daemon, IMAGE, workspace.debug_program("kv")).try_out()
}

/// A small Debian as an archive, made once.
fn base(folder: &Path) -> Result<PathBuf> {
    let archive = folder.join(format!("{SUITE}.tar"));
    if !archive.exists() {
        let unfinished = folder.join("unfinished.tar");
        command::run(
            Command::new("mmdebstrap")
                .args(["--quiet", "--variant=minbase", &format!("--include={LIBRARIES}"), SUITE])
                .arg(&unfinished),
        )?;
        fs::rename(unfinished, &archive)
            .with_context(|| format!("failed to make {}", archive.display()))?;
    }
    Ok(archive)
}

/// A context of ready programs.
fn context(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    let context = folder.join("context");
    let programs = context.join("programs");
    fs::create_dir_all(&programs)
        .with_context(|| format!("failed to make {}", programs.display()))?;
    for name in ["weft-server", "kv"] {
        let program = workspace.debug_program(name);
        fs::copy(&program, programs.join(name))
            .with_context(|| format!("failed to copy {}", program.display()))?;
    }
    Ok(context)
}
