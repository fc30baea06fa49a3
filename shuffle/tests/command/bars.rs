//! Bars on a terminal, by `script`, which gives a program one, and Ctrl-C there.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::agents::{Cluster, words};
use crate::death::workers_with;
use crate::job::wait_for;

/// The command on a terminal; it ends with this value.
struct Terminal {
    script: Child,
    input: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(folder: &Path, arguments: &[&str]) -> Terminal {
        // A terminal of nobody's has no width.
        let (program, arguments) = (env!("CARGO_BIN_EXE_shuffle"), arguments.join(" "));
        let command = format!("stty cols 120 rows 30; exec {program} {arguments}");
        let mut script = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..len]);
            }
        });
        Terminal { script, input, shown }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until a line has all of this.
    fn shows(&mut self, parts: &[&str]) {
        wait_for(&format!("{parts:?} on the terminal"), || {
            let shown = self.shown();
            let is_line = |line: &str| parts.iter().all(|part| line.contains(part));
            let is_shown = shown.split(['\r', '\n']).any(is_line);
            let is_over = self.script.try_wait().unwrap().is_some();
            assert!(is_shown || !is_over, "{shown}");
            is_shown.then_some(())
        });
    }

    fn end(&mut self) -> Option<i32> {
        wait_for("the command's end", || self.script.try_wait().unwrap()).code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn rounds_that_nobody_can_count_are_seen_and_ctrl_c_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut path = String::new();
    // As many rounds as there are edges.
    (0..200_000).for_each(|at| writeln!(path, "{at} {}", at + 1).unwrap());
    std::fs::write(folder.path().join("graph"), path).unwrap();
    let output = folder.path().join("out");
    let arguments = ["components", "--input", "graph", "--output", output.to_str().unwrap()];
    let mut terminal = Terminal::start(folder.path(), &arguments);
    terminal.shows(&["round[", "records", "skew 1."]);
    terminal.input.write_all(b"\x03").unwrap();
    terminal.end();
    let shown = terminal.shown();
    assert!(shown.contains("shuffle: the job was ended by signal 2"), "{shown}");
    assert!(!shown.contains("attempt 2"), "{shown}");
    assert!(workers_with(folder.path()).is_empty(), "no worker is left");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the input alone: {left:?}");
}

#[test]
fn who_waits_for_a_job_sees_how_far_it_is() {
    let cluster = Cluster::start(&[3]);
    let job = cluster.long_ranks("ranks");
    let job = words(&job).into_iter().map(|word| if word == "4000" { "1000000" } else { word });
    let address = cluster.address();
    let arguments: Vec<_> =
        ["submit", "--wait", "--cluster", &address].into_iter().chain(job).collect();
    let mut terminal = Terminal::start(cluster.folder.path(), &arguments);
    terminal.shows(&["round[", "/1000000 ", "records", "skew "]);
    cluster.json(&["job", "cancel", "1"]);
    assert_eq!(terminal.end(), Some(1), "{}", terminal.shown());
    assert!(terminal.shown().contains("job 1 was cancelled"), "{}", terminal.shown());
    cluster.assert_left(&[]);
}
