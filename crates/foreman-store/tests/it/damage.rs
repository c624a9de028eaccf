//! Files that cannot be used, disks that are full: a sentence, and nothing that was stored is lost.

use crate::scratch::{Scratch, event, output};
use foreman_domain::{EventKind, EventSeq, LogStream};
use foreman_store::{Store, StoreError};
use std::os::unix::fs::FileExt;

#[tokio::test]
async fn what_is_no_database_is_refused_in_words_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreman.db");
    let text = "These are somebody's notes, not a database.\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let refused = Store::open(&path).await.unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused:?}");
    assert!(refused.to_string().contains("is damaged"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_database_with_overwritten_pages_is_noticed_and_never_answered_from() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let events: Vec<_> = (1..=3_000).map(|seq| output(&run, seq)).collect();
    scratch.ingest(&run, &events).await;
    let path = scratch.store.path().to_owned();
    let copy = path.with_extension("kept");
    scratch.store.empty_log().await.unwrap();
    assert!(scratch.store.integrity().await.unwrap().is_empty());
    scratch.store.clone().close().await;
    std::fs::copy(&path, &copy).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in (1..size / 4096).rev().take(20) {
        file.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
    }
    match Store::open(&path).await {
        Err(refused) => assert!(matches!(refused, StoreError::Damaged { .. }), "{refused:?}"),
        Ok(store) => {
            let said = store.integrity().await;
            assert!(said.is_err() || !said.unwrap().is_empty());
            let mut after = EventSeq(0);
            // Whatever still reads is what was written.
            while let Ok(page) = store.events(&run, after, 512, &[]).await {
                for event in &page.events {
                    assert_eq!(event, &events[event.seq.0 as usize - 1]);
                }
                if page.cursor == after {
                    break;
                }
                after = page.cursor;
            }
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_no_file_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreman.db");
    std::fs::create_dir(&path).unwrap();
    let refused = Store::open(&path).await.unwrap_err();
    assert!(matches!(refused, StoreError::Open { .. }), "{refused:?}");
}

/// A small file system over a folder, as only root can mount one.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn over(folder: &std::path::Path) -> Option<Self> {
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m,mode=0700", "small"])
            .arg(folder)
            .output()
            .ok()?;
        mounted.status.success().then(|| Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.0)
            .status();
    }
}

#[tokio::test]
async fn on_a_full_disk_nothing_that_was_stored_is_lost_and_with_room_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::over(dir.path()) else {
        println!("skipped: only root can mount a small file system here");
        return;
    };
    let scratch = Scratch::in_folder(dir.path()).await;
    let run = scratch.run(1).await;
    let line = |seq| {
        let kind = EventKind::Output {
            stream: LogStream::Stdout,
            text: "x".repeat(1_000),
            raw: None,
            continued: false,
        };
        event(&run, seq, kind)
    };
    let ballast = dir.path().join("ballast");
    std::fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let mut stored = 0;
    let full = loop {
        let events: Vec<_> = (stored + 1..=stored + 50).map(line).collect();
        match scratch.store.ingest(scratch.fence(), &run, &events).await {
            Ok(_) => stored += 50,
            Err(error) => break error,
        }
        assert!(stored < 10_000);
    };
    assert!(matches!(full, StoreError::DiskFull { .. }), "{full:?}");
    assert_eq!(scratch.store.run(&run).await.unwrap().last_seq.0, stored);
    std::fs::remove_file(&ballast).unwrap();
    let again: Vec<_> = (stored + 1..=stored + 50).map(line).collect();
    scratch.ingest(&run, &again).await;
    let path = scratch.store.path().to_owned();
    scratch.store.clone().close().await;
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.run(&run).await.unwrap().last_seq.0, stored + 50);
    assert!(store.integrity().await.unwrap().is_empty());
    store.close().await;
    drop(disk);
}
