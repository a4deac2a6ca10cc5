//! Jobs that no call waits for, and what a server leaves behind.

use kube::ResourceExt as _;
use serde_json::json;

use super::Site;
use super::ends::runs;
use super::site::{artifacts, end, shell};

#[test]
fn a_job_in_the_background_is_fetched_as_often_as_wanted() {
    let site = Site::new("submit");
    let mut session = site.session();
    let token = session.submit_job(shell("echo begun; sleep 2; echo ended; echo data > out.txt; exit 3"));
    for _ in 0..2 {
        let fetched = session.fetch_job(&token, 120);
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
    let token = session.submit_job(shell("sleep 300"));
    site.pod("the command to run", runs);
    let ended = session.call("cancel_job", json!({ "job_token": token }))["structuredContent"].clone();
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("error"), &json!("cancelled")), "{ended}");
    assert_eq!(session.fetch_job(&token, 0)["reason"], json!("cancelled"));
    site.assert_clean();
}

#[test]
fn a_job_outlives_its_server_and_is_found_by_the_next() {
    let site = Site::new("restart");
    let mut session = site.session();
    let token = session.submit_job(shell("echo one; sleep 15; echo two"));
    let pod = site.pod("the command to run", runs).name_any();
    session.kill_9();
    let mut next = site.session();
    // The first server's Lease has to run out before another may take its job.
    let fetched = site.until("the job's end", || {
        let fetched = next.fetch_job(&token, 60);
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
    session.kill_9();
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
