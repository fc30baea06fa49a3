//! A Docker daemon of our own, for as long as the value lives.
//!
//! It runs in namespaces of its own for the network, for mounts and for processes, and keeps all its files in folders that are
//! removed. So the machine's own Docker, network and rules for packets are left alone, and whatever is started ends with the
//! namespaces, also if this program is killed. Nothing in there reaches beyond the machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command;

/// For how long it may take until it answers, on a machine that others use too.
const START_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

/// Bounds each use of it, in seconds: the longest is the build, of half a minute.
const COMMAND_SECONDS_MAX: &str = "180";

pub(super) struct Daemon {
    /// `unshare`, with which all processes in the namespaces end.
    keeper: Child,
    /// Images, containers and volumes.
    data: PathBuf,
    /// Sockets, whose paths may not be long.
    run: PathBuf,
}

impl Daemon {
    /// Starts one whose files are in `folder`, and returns once it answers.
    pub(super) fn start(folder: &Path) -> Result<Daemon> {
        let data = folder.join("docker");
        let run = std::env::temp_dir().join(format!("weft-deploy-{}", std::process::id()));
        // What a run left that was killed.
        remove(&data);
        for folder in [&data, &run] {
            fs::create_dir_all(folder)
                .with_context(|| format!("failed to make {}", folder.display()))?;
        }
        let log = folder.join("dockerd.log");
        let output =
            File::create(&log).with_context(|| format!("failed to make {}", log.display()))?;
        let keeper = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .args(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "sh", "-c", "ip link set lo up && exec dockerd \"$@\"", "sh"])
            .arg("--data-root")
            .arg(&data)
            .arg("--exec-root")
            .arg(run.join("exec"))
            .arg("--pidfile")
            .arg(run.join("pid"))
            .arg("--host")
            .arg(format!("unix://{}", run.join("docker.sock").display()))
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("failed to run setpriv")?;
        let mut daemon = Daemon { keeper, data, run };
        daemon.wait(&log)?;
        Ok(daemon)
    }

    fn wait(&mut self, log: &Path) -> Result<()> {
        let started = Instant::now();
        while !command::succeeds(self.docker().arg("info")) {
            let ended = self.keeper.try_wait()?;
            if ended.is_some() || started.elapsed() > START_MAX {
                let text = fs::read_to_string(log).unwrap_or_default();
                let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or("nothing");
                let ended = ended
                    .map_or("does not answer".to_owned(), |status| format!("ended ({status})"));
                bail!("dockerd {ended}, and said last: {last}");
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// `docker`, for the caller to add what it is to do.
    pub(super) fn docker(&self) -> Command {
        self.client("docker")
    }

    /// `docker-compose`, likewise.
    pub(super) fn compose(&self) -> Command {
        self.client("docker-compose")
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args([COMMAND_SECONDS_MAX, program]);
        command.env("DOCKER_HOST", format!("unix://{}", self.run.join("docker.sock").display()));
        command
    }

    /// `program`, on the network of the host as the daemon sees it.
    pub(super) fn on_its_host(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string(), "--net"]).arg(program);
        command
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = self.keeper.kill().and_then(|()| self.keeper.wait()) {
            eprintln!("dockerd may be running: {error}");
        }
        remove(&self.data);
        remove(&self.run);
    }
}

/// Removes a folder that processes which are just ending may still be writing to.
fn remove(folder: &Path) {
    for _ in 0..25 {
        match fs::remove_dir_all(folder) {
            Err(_) if folder.exists() => sleep(PAUSE),
            _ => return,
        }
    }
    eprintln!("could not remove {}", folder.display());
}
