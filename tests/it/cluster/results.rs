//! Jobs that run: what they print, leave and return.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Site;
use super::site::{artifacts, end, shell};

#[test]
fn files_environment_limits_and_artifacts() {
    let site = Site::new("files");
    let mut session = site.session();
    let mut call = shell(
        "./run.sh; cat in/data.txt; echo $GREETING; id -u; pwd; mkdir -p out/deep; echo result > out/deep/r.txt; \
         echo more >> in/changed; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true",
    );
    call["files"] = json!([
        { "path": "run.sh", "content_b64": STANDARD.encode("#!/bin/sh\necho ran\n"), "mode": "0755" },
        { "path": "in/data.txt", "content_b64": STANDARD.encode("data\n") },
        { "path": "in/changed", "content_b64": STANDARD.encode("one\n") },
    ]);
    call["env"] = json!({ "GREETING": "hello $(GREETING) world" });
    call["limits"] = json!({ "cpu": "500m", "memory": "64Mi" });
    let result = session.run_job(call);
    assert_eq!(end(&result), ("succeeded", "", 0), "{result}");
    let output = result["stdout"].as_str().unwrap();
    let told = "ran\ndata\nhello $(GREETING) world\n65532\n/work\n";
    if site.is_real() {
        // The cgroup's own file says what the kernel enforces.
        assert_eq!(output, format!("{told}{}\n", 64 << 20));
    } else {
        assert_eq!(output, told);
    }
    assert_eq!(
        artifacts(&result),
        [
            ("in/changed".to_owned(), b"one\nmore\n".to_vec()),
            ("out/deep/r.txt".to_owned(), b"result\n".to_vec())
        ]
    );
    site.assert_clean();
}

#[test]
fn a_binary_file_of_megabytes_goes_in_and_out_unchanged() {
    let site = Site::new("binary");
    let mut session = site.session();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut call = shell("cat in.bin > out.bin; wc -c < in.bin");
    call["files"] = json!([{ "path": "in.bin", "content_b64": STANDARD.encode(&bytes) }]);
    let result = session.run_job(call);
    assert_eq!((end(&result), &result["stdout"]), (("succeeded", "", 0), &json!("3000000\n")));
    assert!(artifacts(&result) == [("out.bin".to_owned(), bytes)], "the file came back changed");
    site.assert_clean();
}

#[test]
fn an_exit_code_is_the_commands_own() {
    let site = Site::new("exit");
    let mut session = site.session();
    let result = session.run_job(shell("echo before; echo err >&2; echo left > left.txt; exit 42"));
    assert_eq!(end(&result), ("failed", "", 42), "{result}");
    // Two pipes of a container runtime: which is read first is not said.
    let mut lines: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["before", "err"]);
    assert_eq!(artifacts(&result), [("left.txt".to_owned(), b"left\n".to_vec())]);
    site.assert_clean();
}

#[test]
fn fifty_megabytes_of_output_keep_their_end() {
    let site = Site::new("output");
    let mut session = site.session();
    let mut call =
        shell("awk 'BEGIN { while (i++ < 1200000) printf \"line %08d of many, all of one length\\n\", i }'");
    call["timeout_s"] = json!(300);
    let result = session.run_job(call);
    assert_eq!(end(&result), ("succeeded", "", 0), "{}", result["message"]);
    let output = result["stdout"].as_str().unwrap();
    assert!(
        output.ends_with("line 01200000 of many, all of one length\n"),
        "{:?}",
        output.lines().next_back()
    );
    assert!((1_000_000..=1_048_576).contains(&output.len()), "{}", output.len());
    assert_eq!(result["truncated"]["stdout"], json!(true));
    let omitted = usize::try_from(result["omitted_bytes"].as_u64().unwrap()).unwrap();
    assert_eq!(omitted + output.len(), 1_200_000 * "line 01200000 of many, all of one length\n".len());
    // Nothing is missing between the first line that is there and the last.
    let lines: Vec<&str> = output.lines().skip(1).collect();
    let number = |line: &str| line.split(' ').nth(1).unwrap().parse::<u32>().unwrap();
    assert!(lines.windows(2).all(|pair| number(pair[1]) == number(pair[0]) + 1));
    site.assert_clean();
}

#[test]
fn a_hundred_pods_of_a_moment_lose_no_output() {
    let site = Site::new("moment");
    let mut session = site.session();
    let (rounds, at_once) = if site.is_real() { (25, 4) } else { (5, 4) };
    for round in 0..rounds {
        let number = |n: i64| round * at_once + n;
        for n in 0..at_once {
            let arguments =
                json!({ "image": "busybox:1.36", "command": ["echo", format!("output {}", number(n))] });
            session.send(&json!({
                "jsonrpc": "2.0", "id": number(n) + 1000, "method": "tools/call",
                "params": { "name": "run_job", "arguments": arguments },
            }));
        }
        for _ in 0..at_once {
            let answer: Value = session.receive();
            let n = answer["id"].as_i64().unwrap() - 1000;
            let result = &answer["result"]["structuredContent"];
            assert_eq!(end(result), ("succeeded", "", 0), "{result}");
            assert_eq!(result["stdout"], json!(format!("output {n}\n")), "{result}");
        }
    }
    site.assert_clean();
}
