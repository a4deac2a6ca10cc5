//! Quantities: cpu and memory agree about a number, and what is written out reads back the same.
#![no_main]

use kubepermit::plan::quantity::{QuantityError, cpu_millis, cpu_quantity, memory_bytes, memory_quantity};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (millis, bytes) = (cpu_millis(text), memory_bytes(text));
    if let Ok(millis) = millis {
        assert!(millis > 0 && millis <= i64::MAX as u64);
        assert_eq!(cpu_millis(&cpu_quantity(millis).0), Ok(millis));
    }
    if let Ok(bytes) = bytes {
        assert!(bytes > 0 && bytes <= i64::MAX as u64);
        assert_eq!(memory_bytes(&memory_quantity(bytes).0), Ok(bytes));
    }
    match (millis, bytes) {
        // Both round the same number up, one a thousand times finer: ceil(ceil(1000 v) / 1000) = ceil(v).
        (Ok(millis), Ok(bytes)) => assert_eq!(millis.div_ceil(1000), bytes, "{text}"),
        // Only the size of the unit can make a difference.
        (Err(QuantityError::TooLarge(_)), Ok(bytes)) => assert!(bytes > i64::MAX as u64 / 1000, "{text}"),
        (Ok(_), Err(error)) => panic!("{text} is cpu and no memory: {error}"),
        (Err(cpu), other) => assert_eq!(Err(cpu), other, "{text}"),
    }
    // An independent reading of plain whole numbers.
    if !text.is_empty() && text.len() < 15 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = text.parse().expect("fewer than 15 digits");
        assert_eq!(memory_bytes(text).ok(), (number > 0).then_some(number));
    }
});
