use super::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const EPOCH: Epoch = Epoch(7);
const NONE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(20);

fn run(number: u64) -> Subject {
    Subject::Run(RunId::from_random(number))
}

async fn after(changes: &Changes, cursor: Cursor) -> Told {
    changes.after(EPOCH, Some(&cursor.to_string()), NONE).await
}

#[tokio::test]
async fn a_subject_that_changes_often_is_told_once() {
    let changes = Changes::default();
    let begin = changes.now(EPOCH);
    for _ in 0..100 {
        changes.tell(run(1));
        changes.tell(run(2));
    }
    let told = after(&changes, begin).await;
    assert_eq!(told.from, Some(begin));
    assert_eq!(told.subjects, [run(1), run(2)]);
    assert!(after(&changes, told.to).await.subjects.is_empty());
}

#[tokio::test]
async fn what_is_no_cursor_of_this_engine_begins_anew() {
    let changes = Changes::default();
    changes.tell(run(1));
    let of_another = changes.now(Epoch(6)).to_string();
    let of_the_future = format!("{EPOCH}.99.0");
    for cursor in ["", "x", "7", "7.1", &of_another, &of_the_future] {
        let told = changes.after(EPOCH, Some(cursor), NONE).await;
        assert_eq!((told.from, told.subjects.len()), (None, 0), "{cursor}");
        assert_eq!(told.to.number, 1);
    }
    assert_eq!(changes.after(EPOCH, None, NONE).await.from, None);
}

#[tokio::test]
async fn a_reader_that_is_too_slow_begins_anew_and_costs_a_bounded_memory() {
    let changes = Changes::default();
    let begin = changes.now(EPOCH);
    for number in 0..3 * MOST as u64 {
        changes.tell(run(number));
    }
    let kept = {
        let known = changes.known();
        (known.in_order.len(), known.last_of.len())
    };
    assert_eq!(kept, (MOST, MOST));
    assert_eq!(after(&changes, begin).await.from, None);
}

#[tokio::test]
async fn pages_of_many_changes_follow_each_other_without_a_hole() {
    let changes = Changes::default();
    let mut cursor = changes.now(EPOCH);
    let all: Vec<Subject> = (0..1_300).map(run).collect();
    all.iter()
        .cloned()
        .for_each(|subject| changes.tell(subject));
    let mut seen = Vec::new();
    while seen.len() < all.len() {
        let told = after(&changes, cursor).await;
        assert_eq!(told.from, Some(cursor), "a hole");
        assert!(told.subjects.len() <= PAGE);
        seen.extend(told.subjects);
        cursor = told.to;
    }
    assert_eq!(seen, all);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_at_most_twenty_answers_a_second() {
    let changes = Arc::new(Changes::default());
    let telling = tokio::spawn({
        let changes = Arc::clone(&changes);
        async move {
            loop {
                changes.tell(run(1));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let (clock, mut cursor, mut answers) = (Instant::now(), changes.now(EPOCH), 0);
    while clock.elapsed() < Duration::from_secs(2) {
        let told = changes.after(EPOCH, Some(&cursor.to_string()), LONG).await;
        assert_eq!(told.subjects, [run(1)]);
        cursor = told.to;
        answers += 1;
    }
    assert!((30..=41).contains(&answers), "{answers} in two seconds");
    telling.abort();
}

/// The store of this test: a level per run, raised before the change is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_change_between_snapshot_and_subscription_is_lost() {
    const RUNS: usize = 24;
    const RAISES: u64 = 400;
    let changes = Arc::new(Changes::default());
    let levels: Arc<Vec<AtomicU64>> = Arc::new((0..RUNS).map(|_| AtomicU64::new(0)).collect());
    let writers: Vec<_> = (0..RUNS)
        .map(|number| {
            let (changes, levels) = (Arc::clone(&changes), Arc::clone(&levels));
            tokio::spawn(async move {
                for _ in 0..RAISES {
                    levels[number].fetch_add(1, Ordering::SeqCst);
                    changes.tell(run(number as u64));
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..6)
        .map(|reader| {
            let (changes, levels) = (Arc::clone(&changes), Arc::clone(&levels));
            tokio::spawn(async move {
                for _ in 0..reader * 50 {
                    tokio::task::yield_now().await;
                }
                let read = |number: usize| levels[number].load(Ordering::SeqCst);
                let mut cursor = changes.now(EPOCH);
                let mut known: HashMap<usize, u64> =
                    (0..RUNS).map(|number| (number, read(number))).collect();
                while known.values().any(|level| *level < RAISES) {
                    let told = changes.after(EPOCH, Some(&cursor.to_string()), LONG).await;
                    assert_eq!(told.from, Some(cursor));
                    assert!(!told.subjects.is_empty(), "stuck at {known:?}");
                    for number in 0..RUNS {
                        if told.subjects.contains(&run(number as u64)) {
                            let level = read(number);
                            assert!(level >= known[&number], "went back");
                            known.insert(number, level);
                        }
                    }
                    cursor = told.to;
                }
            })
        })
        .collect();
    for task in writers.into_iter().chain(readers) {
        tokio::time::timeout(LONG, task).await.unwrap().unwrap();
    }
}
