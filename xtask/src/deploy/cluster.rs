//! The nodes of the compose file, and what is asked of them.

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::daemon::Daemon;
use crate::command;

const FILE: &str = "deploy/docker/compose.yaml";
const PROJECT: &str = "weft-trial";
const NODES: [&str; 3] = ["weft-1", "weft-2", "weft-3"];

/// The port of node 1 that the file publishes.
const ADDRESS: &str = "127.0.0.1:7400";

/// The nodes that are killed, one after the other: others than that whose port is published.
const VICTIMS: [&str; 2] = ["weft-2", "weft-3"];

/// Of a container: a node takes a half of it.
const MEMORY: &str = "512m";

/// For how long nodes may take until they are healthy, and an operation until it is answered, on a machine that others use too.
const HEALTHY_MAX: Duration = Duration::from_secs(90);
const ANSWER_MAX: &str = "30s";
const PAUSE: Duration = Duration::from_millis(200);

/// Enough that each partition has some.
const KEYS: usize = 256;

/// The project of the compose file; dropping it takes it down.
pub(super) struct Cluster<'d> {
    daemon: &'d Daemon,
    image: &'static str,
    kv: PathBuf,
}

impl<'d> Cluster<'d> {
    pub(super) fn new(daemon: &'d Daemon, image: &'static str, kv: PathBuf) -> Cluster<'d> {
        Cluster { daemon, image, kv }
    }

    /// Brings nodes up, and sees that nothing is lost while one is killed and comes back, and another one is killed.
    pub(super) fn try_out(&self) -> Result<()> {
        let result = self.live();
        if result.is_err() {
            // They say why, if anybody does.
            let _ = command::run(self.compose().args(["logs", "--no-color", "--tail", "40"]));
        }
        result?;
        self.take_down()
    }

    fn live(&self) -> Result<()> {
        self.see_one_wait()?;
        command::run(self.compose().args(["up", "--detach", "--no-build"]))?;
        self.wait_until_healthy(&NODES)?;
        command::run(self.kv().args(["put", "greeting", "hello"]))?;
        let greeting = command::output(self.kv().args(["get", "greeting"]))?;
        ensure!(greeting.trim_end() == "hello", "`kv get` said {greeting:?}");
        self.write(0..KEYS)?;

        self.kill(VICTIMS[0])?;
        self.read(0..KEYS)?;
        self.write(KEYS..2 * KEYS)?;

        command::run(self.compose().args(["start", VICTIMS[0]]))?;
        self.wait_until_healthy(&NODES)?;
        self.read(0..2 * KEYS)?;
        // Two copies have to take a write: the one that came back is one of them, once it has everything.
        self.wait_until_whole()?;
        self.kill(VICTIMS[1])?;
        self.read(0..2 * KEYS)?;
        self.write(0..KEYS)?;
        // By the image's own `kv`, and the node that was away.
        command::run(self.compose().args(["exec", "-T", VICTIMS[0], "kv", "get", "greeting"]))
    }

    fn kill(&self, node: &str) -> Result<()> {
        command::run(self.daemon.docker().args(["kill", &self.container(node)?]))
    }

    /// Until the coordinators say that all copies are there, as `kv` says inside of a container.
    fn wait_until_whole(&self) -> Result<()> {
        let started = Instant::now();
        let health = ["exec", "-T", NODES[0], "kv", "cluster", "health"];
        while !command::succeeds(self.compose().args(health)) {
            if started.elapsed() > HEALTHY_MAX {
                command::run(self.compose().args(health))?;
            }
            sleep(PAUSE);
        }
        println!("all copies are there after {:.1} s", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// A node that waits for others to found a cluster with is alive, and not ready.
    fn see_one_wait(&self) -> Result<()> {
        let node = NODES[0];
        command::run(self.compose().args(["up", "--detach", "--no-build", node]))?;
        let started = Instant::now();
        while self.status(node, "/health").ok().as_deref() != Some("200") {
            ensure!(started.elapsed() < HEALTHY_MAX, "{node} does not say that it is alive");
            sleep(PAUSE);
        }
        let status = self.status(node, "/ready")?;
        ensure!(status == "503", "{node} is ready ({status}) without the others");
        Ok(())
    }

    /// What the HTTP port of a node answers to `path`.
    fn status(&self, node: &str, path: &str) -> Result<String> {
        const ASK: &str = "exec 3<> /dev/tcp/127.0.0.1/7402 \
            && printf 'GET %s HTTP/1.0\\r\\n\\r\\n' \"$0\" >&3 && read -r _ status _ <&3 && echo \"$status\"";
        let answer =
            command::output(self.compose().args(["exec", "-T", node, "bash", "-c", ASK, path]))?;
        Ok(answer.trim_end().to_owned())
    }

    fn write(&self, keys: std::ops::Range<usize>) -> Result<()> {
        println!("writing keys {keys:?}");
        let pairs = keys.flat_map(|key| [format!("key-{key}"), value(key)]);
        command::output(self.kv().arg("mput").args(pairs)).map(drop)
    }

    fn read(&self, keys: std::ops::Range<usize>) -> Result<()> {
        println!("reading keys {keys:?}");
        let names = keys.clone().map(|key| format!("key-{key}"));
        let found = command::output(self.kv().arg("mget").args(names))?;
        let wanted: String = keys.map(|key| value(key) + "\n").collect();
        ensure!(found == wanted, "`kv mget` said other values: {found}");
        Ok(())
    }

    fn wait_until_healthy(&self, nodes: &[&str]) -> Result<()> {
        let started = Instant::now();
        for node in nodes {
            let container = self.container(node)?;
            loop {
                let status = command::output(
                    self.daemon
                        .docker()
                        .args(["inspect", "--format", "{{.State.Health.Status}}"])
                        .arg(&container),
                )?;
                match status.trim_end() {
                    "healthy" => break,
                    status if started.elapsed() > HEALTHY_MAX => bail!("{node} is {status}"),
                    _ => sleep(PAUSE),
                }
            }
        }
        println!("healthy after {:.1} s: {}", started.elapsed().as_secs_f64(), nodes.join(", "));
        Ok(())
    }

    /// The id of a service's container.
    fn container(&self, node: &str) -> Result<String> {
        let id = command::output(self.compose().args(["ps", "--quiet", node]))?;
        Ok(id.trim_end().to_owned())
    }

    /// Takes everything down, and sees that nothing is left.
    fn take_down(&self) -> Result<()> {
        command::run(self.compose().args(["down", "--volumes"]))?;
        for list in [["ps", "--all", "--quiet"], ["volume", "ls", "--quiet"]] {
            let left = command::output(self.daemon.docker().args(list))?;
            ensure!(left.is_empty(), "`docker-compose down` left {left}");
        }
        Ok(())
    }

    fn compose(&self) -> Command {
        let mut compose = self.daemon.compose();
        compose.args(["--file", FILE, "--project-name", PROJECT]);
        compose.env("WEFT_IMAGE", self.image).env("WEFT_CONTAINER_MEMORY", MEMORY);
        compose
    }

    /// `kv` as a user of the host has it.
    fn kv(&self) -> Command {
        let mut kv = self.daemon.on_its_host(&self.kv);
        kv.args(["--cluster", ADDRESS, "--timeout", ANSWER_MAX, "-o", "raw"]);
        kv
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        // Containers' groups of processes are the machine's, and would stay if only the daemon ended.
        command::succeeds(self.compose().args(["down", "--volumes", "--timeout", "1"]));
    }
}

fn value(key: usize) -> String {
    format!("value-{key}-{}", "x".repeat(key % 100))
}
