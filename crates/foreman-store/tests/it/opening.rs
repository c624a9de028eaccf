use crate::scratch::{Scratch, output};
use foreman_domain::Epoch;
use foreman_store::{Store, StoreError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row};

#[tokio::test]
async fn each_owner_gets_the_next_epoch_and_the_older_one_can_write_no_more() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let newer = scratch.store.take_epoch().await.unwrap();
    assert_eq!(newer, scratch.epoch.next());

    let refused = scratch
        .store
        .ingest(scratch.fence(), &run, &[output(&run, 1)])
        .await;
    assert!(
        matches!(refused, Err(StoreError::StaleEpoch { mine, now }) if mine == scratch.epoch && now == newer),
        "{refused:?}"
    );
    assert_eq!(scratch.store.run(&run).await.unwrap().last_seq.0, 0);
    scratch
        .store
        .ingest(
            foreman_domain::Fence {
                engine: newer,
                ..scratch.fence()
            },
            &run,
            &[output(&run, 1)],
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn a_database_of_a_newer_binary_is_refused_in_words_and_left_alone() {
    let scratch = Scratch::new().await;
    let path = scratch.store.path().to_owned();
    scratch.store.close().await;
    let mut raw = SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9000, 'from the future', TRUE, x'00', 0)",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    raw.close().await.unwrap();

    let refused = Store::open(&path).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::NewerLayout { found: 9000, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("newer version"), "{refused}");
}

#[tokio::test]
async fn what_was_stored_is_there_after_closing_and_opening() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    scratch
        .ingest(&run, &[output(&run, 1), output(&run, 2)])
        .await;
    let path = scratch.store.path().to_owned();
    scratch.store.close().await;

    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.run(&run).await.unwrap().last_seq.0, 2);
    assert_eq!(store.take_epoch().await.unwrap(), Epoch(2));
}

#[tokio::test]
async fn the_file_is_written_with_full_synchronisation_and_a_write_ahead_log() {
    let scratch = Scratch::new().await;
    let mut raw = SqliteConnectOptions::new()
        .filename(scratch.store.path())
        .connect()
        .await
        .unwrap();
    let mode: String = sqlx::query("PRAGMA journal_mode")
        .fetch_one(&mut raw)
        .await
        .unwrap()
        .get(0);
    assert_eq!(mode, "wal");
    raw.close().await.unwrap();
}

#[tokio::test]
async fn trust_is_for_exactly_one_content() {
    let scratch = Scratch::new().await;
    let at = foreman_domain::At::from_millis(0);
    scratch
        .store
        .trust(scratch.epoch, "repo", "hash-1", at)
        .await
        .unwrap();
    scratch
        .store
        .trust(scratch.epoch, "repo", "hash-1", at)
        .await
        .unwrap();
    assert!(scratch.store.is_trusted("repo", "hash-1").await.unwrap());
    assert!(!scratch.store.is_trusted("repo", "hash-2").await.unwrap());
    assert!(!scratch.store.is_trusted("other", "hash-1").await.unwrap());
    assert!(scratch.store.was_ever_trusted("repo").await.unwrap());
}
