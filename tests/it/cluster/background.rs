//! Jobs that no call waits for, and what a server leaves behind.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::Site;
use super::ends::runs;
use super::site::{artifacts, end, shell};
use crate::session::Session;

fn submit(session: &mut Session, call: Value) -> String {
    let result = session.call("submit_job", call);
    assert_eq!(result["structuredContent"]["status"], json!("submitted"), "{result}");
    result["structuredContent"]["job_token"].as_str().unwrap().to_owned()
}

fn fetch(session: &mut Session, token: &str, wait_s: u64) -> Value {
    let result = session.call("fetch_job", json!({ "job_token": token, "wait_s": wait_s }));
    assert_ne!(result["isError"], json!(true), "{result}");
    result["structuredContent"].clone()
}

#[test]
fn a_job_in_the_background_is_fetched_as_often_as_wanted() {
    let site = Site::new("submit");
    let mut session = site.session();
    let token = submit(&mut session, shell("echo begun; sleep 2; echo ended; echo data > out.txt; exit 3"));
    for _ in 0..2 {
        let fetched = fetch(&mut session, &token, 120);
        assert_eq!(fetched["status"], json!("done"), "{fetched}");
        assert_eq!(end(&fetched["result"]), ("failed", "", 3), "{fetched}");
        assert_eq!(fetched["result"]["stdout"], json!("begun\nended\n"));
        assert_eq!(artifacts(&fetched["result"]), [("out.txt".to_owned(), b"data\n".to_vec())]);
    }
    site.assert_clean();
}

#[test]
fn a_job_that_is_cancelled_says_so_and_is_gone() {
    let site = Site::new("cancel");
    let mut session = site.session();
    let token = submit(&mut session, shell("sleep 300"));
    site.pod("the command to run", runs);
    let ended = session.call("cancel_job", json!({ "job_token": token }))["structuredContent"].clone();
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("error"), &json!("cancelled")), "{ended}");
    assert_eq!(fetch(&mut session, &token, 0)["reason"], json!("cancelled"));
    site.assert_clean();
}

#[test]
fn a_job_outlives_its_server_and_is_found_by_the_next() {
    let site = Site::new("restart");
    let mut session = site.session();
    let token = submit(&mut session, shell("echo one; sleep 15; echo two"));
    let pod = site.pod("the command to run", runs).name_any();
    let killed = nix::unistd::Pid::from_raw(i32::try_from(session.pid()).unwrap());
    nix::sys::signal::kill(killed, nix::sys::signal::Signal::SIGKILL).unwrap();
    drop(session);
    let mut next = site.session();
    // The first server's Lease has to run out before another may take its job.
    let fetched = site.until("the job's end", || {
        let fetched = fetch(&mut next, &token, 60);
        (fetched["status"] != json!("running")).then_some(fetched)
    });
    assert_eq!(fetched["status"], json!("done"), "{fetched}");
    assert_eq!(end(&fetched["result"]), ("succeeded", "", 0), "{fetched}");
    assert_eq!(fetched["result"]["stdout"], json!("one\ntwo\n"), "of pod {pod}");
    site.assert_clean();
}

#[test]
fn what_a_killed_server_waited_for_is_removed_by_the_next() {
    let site = Site::new("orphan");
    let mut session = site.session();
    session.send(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "run_job", "arguments": shell("sleep 600") },
    }));
    site.pod("the command to run", runs);
    let killed = nix::unistd::Pid::from_raw(i32::try_from(session.pid()).unwrap());
    nix::sys::signal::kill(killed, nix::sys::signal::Signal::SIGKILL).unwrap();
    drop(session);
    let began = std::time::Instant::now();
    let _next = site.session();
    site.until("the orphan to be gone", || {
        let jobs = site.wait(site.jobs().list(&kube::api::ListParams::default())).unwrap();
        jobs.items.iter().all(|job| job.metadata.deletion_timestamp.is_some()).then_some(())
    });
    eprintln!("an orphan was gone {} s after the restart", began.elapsed().as_secs());
    assert!(began.elapsed().as_secs() <= 60, "{:?}", began.elapsed());
    site.assert_clean();
}

#[test]
fn a_clone_that_fails_says_why() {
    let site = Site::new("clone");
    if !site.is_real() {
        eprintln!("skipped: tests/it/clone.rs has clones on the embedded cluster");
        return;
    }
    let mut command = site.server("50m");
    command.args(["--clone-image", "git:1", "--clone-secret", "tokens", "--clone-hosts", "git.test"]);
    let mut session = site.session_of(command);
    let mut call = shell("true");
    call["clone"] = json!({ "repo_url": "https://git.test/owner/repo", "ref": "main" });
    let result = session.run_job(call);
    assert_eq!(end(&result), ("error", "clone_failed", -1), "{result}");
    assert!(result["message"].as_str().unwrap().contains("git.test"), "{result}");
    site.assert_clean();
}
