//! Who gets a place, in which order, and what is left when calls go away.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{JobSlot, JobSlots, Ticket};

const LONG: Duration = Duration::from_secs(600);

fn never() -> CancellationToken {
    CancellationToken::new()
}

async fn take(slots: &JobSlots, caller: &str) -> JobSlot {
    slots.enter(caller, None).unwrap().slot(&never()).await.unwrap()
}

/// Lets places go one by one, and tells whose tickets got them.
async fn served(mut held: Vec<JobSlot>, mut waiting: Vec<(&'static str, Ticket)>) -> Vec<&'static str> {
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(held.remove(0));
        let mut next = waiting.iter().enumerate().filter(|(_, (_, ticket))| !ticket.waits());
        let at = next.next().unwrap().0;
        assert_eq!(next.next().map(|(at, _)| at), None, "one place was freed");
        let (caller, ticket) = waiting.remove(at);
        order.push(caller);
        held.push(ticket.slot(&never()).await.unwrap());
    }
    order
}

#[tokio::test]
async fn callers_take_turns_and_each_is_served_in_its_own_order() {
    let slots = JobSlots::new(2, LONG);
    let held = vec![take(&slots, "greedy").await, take(&slots, "greedy").await];
    let mut waiting: Vec<_> = ["greedy 1", "greedy 2", "greedy 3", "greedy 4"]
        .map(|name| (name, slots.enter("greedy", None).unwrap()))
        .into();
    waiting.push(("modest 1", slots.enter("modest", None).unwrap()));
    waiting.push(("other 1", slots.enter("other", None).unwrap()));
    waiting.push(("modest 2", slots.enter("modest", None).unwrap()));
    assert_eq!(
        served(held, waiting).await,
        ["greedy 1", "modest 1", "other 1", "greedy 2", "modest 2", "greedy 3", "greedy 4"]
    );
    assert!(slots.shared.lock().lines.is_empty(), "nobody is remembered");
}

#[tokio::test]
async fn a_callers_own_limit_leaves_the_other_places_to_others() {
    let slots = JobSlots::new(3, LONG);
    let first = slots.enter("a", Some(1)).unwrap().slot(&never()).await.unwrap();
    let second = slots.enter("a", Some(1)).unwrap();
    assert!(second.waits(), "its one place is taken");
    let others = [take(&slots, "b").await, take(&slots, "b").await];
    assert!(slots.enter("c", None).unwrap().waits(), "all places are taken");
    // A place that comes free for others is not the caller's.
    drop(others);
    assert!(second.waits());
    drop(first);
    assert!(!second.waits());
}

#[tokio::test]
async fn a_call_that_goes_away_leaves_the_line_or_its_place() {
    let slots = JobSlots::new(1, LONG);
    let held = take(&slots, "a").await;
    let cancel = CancellationToken::new();
    let gives_up = slots.enter("a", None).unwrap();
    let stays = slots.enter("a", None).unwrap();
    cancel.cancel();
    let busy = gives_up.slot(&cancel).await.unwrap_err();
    assert_eq!((busy.code(), busy.hint().as_str()), ("limits.cancelled", ""));
    let dropped = slots.enter("b", None).unwrap();
    drop(held);
    assert!(!stays.waits() && dropped.waits());
    // Granted, and dropped before anybody took it.
    drop(stays);
    assert!(!dropped.waits());
    drop(dropped);
    let state = slots.shared.lock();
    assert_eq!((state.used, state.waiting, state.lines.len(), state.turn.len()), (0, 0, 0, 0));
}

#[tokio::test]
async fn the_line_is_bounded_for_each_caller_and_in_all() {
    let slots = JobSlots::new(1, LONG);
    let _held = take(&slots, "a").await;
    let waiting: Vec<_> = (0..8).map(|_| slots.enter("a", None).unwrap()).collect();
    let busy = slots.enter("a", None).unwrap_err();
    assert_eq!(busy.code(), "limits.busy");
    assert_eq!(
        busy.to_string(),
        "too many calls wait for a place for a job already: at most 1 exist at once, and 8 calls wait"
    );
    assert!(busy.hint().contains("30 s"), "{}", busy.hint());
    // A full line of one is not another's.
    let others: Vec<_> = (0..56).map(|n| slots.enter(&format!("caller {n}"), None).unwrap()).collect();
    assert!(slots.enter("one more", None).is_err(), "64 wait");
    drop((waiting, others));
    assert!(slots.enter("one more", None).is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_patience() {
    let slots = JobSlots::new(4, Duration::from_secs(120));
    let _held = [take(&slots, "a").await, take(&slots, "a").await];
    let began = tokio::time::Instant::now();
    let busy = slots.enter("a", Some(2)).unwrap().slot(&never()).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 120);
    assert_eq!(
        busy.to_string(),
        "no place for a job came free within 120 s: at most 4 exist at once, 2 of them for this caller, and 0 calls wait"
    );
    assert_eq!(slots.shared.lock().waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_the_cap_is_ever_held_and_all_are_served() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let slots = JobSlots::new(3, LONG);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let calls = (0..48).map(|n| {
        let (slots, now, most) = (slots.clone(), Arc::clone(&now), Arc::clone(&most));
        tokio::spawn(async move {
            let caller = if n % 2 == 0 { "even" } else { "odd" };
            let ticket = slots.enter(caller, None).unwrap();
            if n % 5 == 4 {
                // Some give up at a moment of their own.
                tokio::task::yield_now().await;
                return 0;
            }
            let slot = ticket.slot(&never()).await.unwrap();
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            drop(slot);
            1
        })
    });
    let done: usize = futures::future::join_all(calls).await.into_iter().map(|call| call.unwrap()).sum();
    assert_eq!((done, most.load(Ordering::SeqCst)), (39, 3));
}
