//! Image references: a normal form that means itself, in Docker's alphabet.
#![no_main]

use kubepermit::plan::ImageReference;
use libfuzzer_sys::fuzz_target;

/// A name that kubelets and registries take: no empty, dotted or doubled component, nothing upper-case.
fn is_repository(text: &str) -> bool {
    text.split('/').all(|part| {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().all(|byte| word(byte) || b"._-".contains(&byte))
            && part.bytes().next().is_some_and(word)
            && part.bytes().next_back().is_some_and(word)
            && !part.contains("..")
    })
}

fuzz_target!(|text: &str| {
    let Ok(image) = text.parse::<ImageReference>() else {
        return;
    };
    assert!(is_repository(image.repository()), "{image:?}");
    assert!(image.registry().len() + image.repository().len() < 255, "{image:?}");
    assert!(
        image.registry().contains(['.', ':'])
            || image.registry() == "localhost"
            || image.registry().bytes().any(|byte| byte.is_ascii_uppercase()),
        "{image:?}"
    );
    assert!(image.tag().is_some() || image.digest().is_some(), "{image:?}");
    // The key is what was parsed, joined; and both ways to write it are the same image.
    let mut key = format!("{}/{}", image.registry(), image.repository());
    for (mark, part) in [(':', image.tag()), ('@', image.digest())] {
        if let Some(part) = part {
            key.push(mark);
            key.push_str(part);
        }
    }
    assert_eq!(image.key(), key);
    assert_eq!(key.parse().as_ref(), Ok(&image), "its normal form is another image");
    assert_eq!(image.familiar().parse().as_ref(), Ok(&image), "its short form is another image");
    assert!(
        text.is_ascii()
            && text
                .to_ascii_lowercase()
                .contains(&image.repository().trim_start_matches("library/").to_ascii_lowercase())
    );
});
