//! Whoever is lost of a cluster's workers, drivers and agents costs a job an attempt, and nothing else.

use rustix::process::Signal;
use serde_json::Value;

use crate::agents::{Agent, Cluster, words};
use crate::death::{kill, send, workers_with};
use crate::job::{WIKI_VOTE, wait_for};

#[test]
fn a_worker_that_is_killed_costs_an_attempt_that_goes_on_from_the_store() {
    let cluster = Cluster::start(&[2, 2]);
    let job = cluster.long_ranks("ranks");
    let id = cluster.submit(&[], &[&words(&job)[..], &["--report", "report"]].concat());
    for victim in [1, 2] {
        cluster.wait_for_rounds(id);
        let workers = cluster.workers(3);
        let victim = workers.iter().find(|worker| worker.index == victim).unwrap();
        kill(victim.id);
        wait_for("another attempt", || {
            let lost = cluster.show(id)["attempts_lost"].as_array().unwrap().clone();
            let named = format!("worker {}", victim.index);
            lost.last().is_some_and(|lost| lost.as_str().unwrap().contains(&named)).then_some(())
        });
        wait_for("the next attempt", || {
            (cluster.show(id)["progress"]["phase"] == "round").then_some(())
        });
    }
    let job = cluster.wait_for_state(id, "succeeded");
    let job_result = job["result"].clone();
    let agents = cluster.json(&["agents"]);
    for (at, loss) in job["losses"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&loss["attempt"], &loss["worker"]), (&(at + 1).into(), &(at + 1).into()));
        assert!(loss["process"].as_u64().is_some(), "{loss}");
        let is_there = |agent: &Value| {
            (&agent["agent"], &agent["address"]) == (&loss["agent"], &loss["address"])
        };
        assert!(agents.as_array().unwrap().iter().any(is_there), "{loss}");
    }
    assert_eq!(job["attempt"], 3);
    let first_round = job["result"]["first_round"].as_u64().unwrap();
    assert!(first_round >= 200 && first_round.is_multiple_of(100), "{job}");
    cluster.assert_ranks("ranks");
    cluster.assert_left(&["ranks", "report.html", "report.json"]);
    // The report has all attempts, whoever drove them.
    let report = std::fs::read(cluster.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let ends: Vec<_> =
        report["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["end"]).collect();
    assert_eq!(ends, ["lost", "lost", "done"]);
    let began = |at: usize| report["attempts"][at]["began"].as_f64().unwrap();
    assert!(0.0 < began(0) && began(0) < began(1) && began(1) < began(2), "{report}");
    assert_eq!(
        (&report["arguments"][0], &report["workers"][2]["has_told"]),
        (&"pagerank".into(), &true.into())
    );
    assert_eq!(report["result"], job_result);
}

#[test]
fn a_job_has_no_more_attempts_than_it_may() {
    let cluster = Cluster::start(&[3]);
    let job = cluster.long_ranks("ranks");
    let id = cluster.submit(&[], &[&words(&job)[..], &["--max-attempts", "1"]].concat());
    kill(cluster.workers(3)[0].id);
    let job = cluster.wait_for_state(id, "failed");
    assert!(job["error"].as_str().unwrap().ends_with(": the job stops"), "{job}");
    cluster.assert_left(&[]);
}

#[test]
fn when_the_eldest_agent_is_killed_another_goes_on_with_its_jobs() {
    let mut cluster = Cluster::start(&[1, 3]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    let waits = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "2"]);
    cluster.wait_for_rounds(id);
    assert_eq!(cluster.state(waits), "queued");
    drop(cluster.agents.remove(0));
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!(job["attempts_lost"].as_array().unwrap().len(), 1, "{job}");
    assert!(job["result"]["first_round"].as_u64().unwrap() >= 100, "{job}");
    cluster.wait_for_state(waits, "succeeded");
    cluster.assert_ranks("ranks");
    cluster.assert_left(&["ranks"]);
}

#[test]
fn an_agent_that_is_killed_costs_one_attempt_and_is_given_no_more() {
    let mut cluster = Cluster::start(&[2, 1, 1]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    cluster.wait_for_rounds(id);
    // It had a worker, and its place is taken by the third one at once, before the coordinators forget it.
    drop(cluster.agents.remove(1));
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!(job["attempts_lost"].as_array().unwrap().len(), 1, "{job}");
    assert!(job["result"]["first_round"].as_u64().unwrap() >= 100, "{job}");
    cluster.assert_ranks("ranks");
    cluster.assert_left(&["ranks"]);
}

#[test]
fn an_agent_that_stands_still_and_goes_on_later_harms_nothing() {
    let cluster = Cluster::start(&[1, 3]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    cluster.wait_for_rounds(id);
    let number = cluster.json(&["agents"])[0]["agent"].clone();
    // The agent, the driver that it started, and its worker.
    let agent = cluster.agents[0].child.id();
    let mut stopped = vec![agent];
    while let Some(child) = children_of(&stopped).into_iter().find(|child| !stopped.contains(child))
    {
        stopped.push(child);
    }
    assert!(stopped.len() >= 2, "a driver at least");
    stopped.iter().for_each(|process| send(*process, Signal::STOP));
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!(job["attempts_lost"].as_array().unwrap().len(), 1, "{job}");
    cluster.assert_ranks("ranks");
    let written = std::fs::read(cluster.path("ranks")).unwrap();
    stopped.iter().rev().for_each(|process| send(*process, Signal::CONT));
    wait_for("the agent's return", || {
        let agents = cluster.json(&["agents"]);
        (agents.as_array().unwrap().len() == 2).then_some(())
    });
    assert_eq!(cluster.json(&["agents"])[0]["agent"], number, "it is known by the same number");
    cluster.assert_left(&["ranks"]);
    assert!(std::fs::read(cluster.path("ranks")).unwrap() == written);
    assert_eq!(cluster.state(id), "succeeded");
    let next = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "4"]);
    cluster.wait_for_state(next, "succeeded");
}

#[test]
fn slots_of_an_attempt_whose_driver_stands_still_are_free_for_other_jobs() {
    let mut cluster = Cluster::start(&[2, 2]);
    let job = cluster.long_ranks("ranks");
    let job = words(&job).into_iter().map(|word| if word == "3" { "2" } else { word });
    let id = cluster.submit(&[], &job.collect::<Vec<_>>());
    cluster.wait_for_rounds(id);
    cluster.add_agent(6);
    let agent = cluster.agents[0].child.id();
    let mut stopped = vec![agent];
    stopped.extend(children_of(&[agent]));
    stopped.iter().for_each(|process| send(*process, Signal::STOP));
    wait_for("another attempt", || {
        (!cluster.show(id)["attempts_lost"].as_array().unwrap().is_empty()).then_some(())
    });
    // All slots but those of the agent that stands still: one of these was the attempt's.
    let next = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "8"]);
    cluster.wait_for_state(id, "succeeded");
    let next = cluster.wait_for_state(next, "succeeded");
    assert_eq!(next["attempts_lost"].as_array().unwrap().len(), 0, "{next}");
}

/// The driver that an agent has started.
fn driver_of(agent: &Agent) -> u32 {
    wait_for("a driver", || {
        children_of(&[agent.child.id()]).into_iter().find(|process| {
            let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"drive")
        })
    })
}

#[test]
fn a_driver_that_stands_still_or_is_killed_costs_an_attempt_and_the_last_one_is_tidied_up_behind() {
    let cluster = Cluster::start(&[3]);
    let job = cluster.long_ranks("ranks");
    // More rounds than workers come through while their driver stands still.
    let job = words(&job).into_iter().map(|word| if word == "4000" { "1000000" } else { word });
    let more = ["--report", "report", "--max-attempts", "2"];
    let id = cluster.submit(&[], &job.chain(more).collect::<Vec<_>>());
    for (signal, lost) in [(Signal::STOP, 1), (Signal::KILL, 2)] {
        cluster.wait_for_rounds(id);
        send(driver_of(&cluster.agents[0]), signal);
        wait_for("the loss of an attempt", || {
            (cluster.show(id)["attempts_lost"].as_array().unwrap().len() == lost).then_some(())
        });
    }
    let job = cluster.wait_for_state(id, "failed");
    let text = "the process that drove the job ended, in attempt 2 of 2: the job stops";
    assert_eq!(job["error"], text);
    wait_for("the report", || cluster.path("report.json").exists().then_some(()));
    cluster.assert_left(&["report.html", "report.json"]);
    let report = std::fs::read(cluster.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!((&report["error"], &report["attempts"][1]["end"]), (&text.into(), &"lost".into()));
    let agent = &cluster.json(&["agents"])[0]["agent"];
    let failure = &job["failure"];
    assert_eq!((&failure["attempt"], &failure["agent"]), (&2.into(), agent), "{failure}");
    assert_eq!((&failure["worker"], &job["losses"][1]), (&Value::Null, failure));
}

/// Processes that any of these have started.
fn children_of(parents: &[u32]) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: u32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        parents.contains(&parent).then_some(id)
    });
    processes.collect()
}

#[test]
fn an_agent_that_is_told_to_end_leaves_and_takes_its_workers_along() {
    let mut cluster = Cluster::start(&[3]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    cluster.workers(3);
    let agent = &mut cluster.agents[0];
    send(agent.child.id(), Signal::TERM);
    let status = wait_for("its end", || agent.child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    assert!(workers_with(cluster.folder.path()).is_empty(), "none is left when it has ended");
    assert_eq!(cluster.json(&["agents"]), Value::Array(Vec::new()));
    cluster.add_agent(3);
    cluster.wait_for_state(id, "succeeded");
    cluster.assert_ranks("ranks");
}
