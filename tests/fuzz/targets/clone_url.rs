//! Clone URLs and refs: what git is told is plain, and means the host that was judged.
#![no_main]

use kubepermit::plan::{GitRef, RepoUrl};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(url) = text.parse::<RepoUrl>() {
        let written = url.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&url), "its normal form is another URL");
        let host = url.host().name();
        assert!(written.starts_with(&format!("https://{host}")), "{written}");
        assert!(
            host.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b)),
            "{host:?}"
        );
        assert!(host.parse::<std::net::IpAddr>().is_err() && !host.ends_with('.'), "{host:?}");
        assert!(url.host().port() != 0);
        assert!(!written.contains(['@', '?', '#', '\\', ' ', '\n']), "{written:?}");
        assert!(url.path().starts_with('/'), "{written}");
        assert!(url.path().split('/').skip(1).all(|part| !matches!(part, "" | "." | "..")), "{written}");
    }
    if let Ok(reference) = text.parse::<GitRef>() {
        // git-check-ref-format(1), and nothing that could be an option.
        let name = reference.as_str();
        assert!(!name.is_empty() && !name.starts_with('-') && !name.contains(".."), "{name:?}");
        assert!(!name.bytes().any(|b| b <= b' ' || b"~^:?*[\\\x7f".contains(&b)), "{name:?}");
        assert!(!name.ends_with('.') && !name.ends_with(".lock") && !name.contains("@{"), "{name:?}");
        assert!(!reference.candidates().is_empty());
    }
});
