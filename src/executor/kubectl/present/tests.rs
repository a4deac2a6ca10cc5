//! What is kept of each kind of output.

use proptest::prelude::{any, prop, proptest};
use proptest::{prop_assert, prop_assert_eq};

use super::present;
use crate::executor::kubectl::capture::Captured;
use crate::executor::kubectl::{ReadReason, ReadText};
use crate::output;
use crate::plan::Presentation;

fn shown(presentation: Presentation, text: &str, limit: usize) -> ReadText {
    let stdout = Captured { bytes: text.as_bytes().to_vec(), omitted: 0 };
    present(presentation, false, stdout, b"", limit).unwrap()
}

#[test]
fn what_is_no_list_is_shown_as_it_is() {
    for text in ["fake-kubectl get pods\n", "{\"kind\":\"List\"", "{\"kind\":\"Secret\",\"items\":[]}"] {
        assert_eq!(shown(Presentation::Pods, text, 1000).output, text);
        assert_eq!(shown(Presentation::Events, text, 1000).output, text);
    }
    let empty = "{\"kind\":\"List\",\"items\":[]}";
    assert_eq!(shown(Presentation::Pods, empty, 1000).output, "No pods found.\n");
}

#[test]
fn the_marker_counts_and_says_how_to_narrow() {
    let text = shown(Presentation::Pods, &"x".repeat(100), 40);
    assert_eq!(
        text.output,
        format!(
            "{}\n… truncated (60 more characters); narrow the query with a namespace or a selector",
            "x".repeat(40)
        )
    );
    assert_eq!(text.omitted_characters, 60);
}

#[test]
fn logs_keep_their_newest_lines() {
    let text = shown(Presentation::Logs, "old line\nnew line\nnewest\n", 17);
    assert!(text.output.starts_with("… truncated (9 more characters); "), "{}", text.output);
    assert!(text.output.ends_with("tail_lines or with since_seconds\nnew line\nnewest\n"), "{}", text.output);
    assert_eq!(shown(Presentation::Logs, "", 10).output, "No output.\n");
    let stdout = Captured { bytes: b"x\n".to_vec(), omitted: 0 };
    let noted = b"Defaulted container \"main\" out of: main, side\n";
    let text = present(Presentation::Logs, false, stdout, noted, 100).unwrap();
    assert_eq!(text.output, "[Defaulted container \"main\" out of: main, side]\nx\n");
}

#[test]
fn describe_keeps_its_events() {
    let head = "Name: a\n".repeat(50);
    let events = "Events:\n  Warning  BackOff  kubelet  back-off\n";
    let text = shown(Presentation::Describe, &format!("{head}{events}"), 200);
    assert!(text.output.starts_with("Name: a\n") && text.output.ends_with(events), "{}", text.output);
    assert!(text.output.contains("\n… truncated ("), "{}", text.output);
    let many = format!("Name: a\nEvents:\n{}", "  Normal  Pulled\n".repeat(100));
    let text = shown(Presentation::Describe, &many, 200);
    assert!(text.output.starts_with("Name: a\n… truncated"), "{}", text.output);
    assert!(text.output.ends_with("  Normal  Pulled\n"));
}

#[test]
fn a_list_that_was_not_read_to_its_end_is_an_error() {
    let stdout = Captured { bytes: b"{\"kind\":\"List\",\"items\":[".to_vec(), omitted: 9 };
    let failure = present(Presentation::Pods, false, stdout, b"", 100).unwrap_err();
    assert_eq!(failure.reason, ReadReason::TooLarge);
    let flood = Captured { bytes: b"yyyy".to_vec(), omitted: 96 };
    let text = present(Presentation::Pods, false, flood, b"", 100).unwrap();
    assert!(text.output.starts_with("yyyy\n… truncated (96 more"), "{}", text.output);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_cap_holds_and_the_text_is_clean(bytes in prop::collection::vec(any::<u8>(), 0..400), limit in 0_usize..300, which in 0_usize..4) {
        let presentation = [Presentation::Pods, Presentation::Events, Presentation::Logs, Presentation::Describe][which];
        let whole = output::clean_bytes(&bytes).text.chars().count();
        let text = present(presentation, false, Captured { bytes, omitted: 0 }, b"", limit).unwrap();
        let marker = if text.omitted_characters > 0 { 200 } else { 0 };
        prop_assert!(text.output.chars().count() <= limit + marker || whole == 0);
        prop_assert_eq!(text.omitted_characters > 0, text.output.contains("… truncated ("));
        prop_assert_eq!(output::clean(&text.output).replaced, 0);
    }
}
