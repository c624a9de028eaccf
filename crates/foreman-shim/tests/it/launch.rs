use crate::stage::{Stage, shim};
use foreman_shim::launch::{StartError, start_shim};

#[test]
fn a_missing_or_damaged_spec_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let spec = dir.path().join("spec.json");
    let missing = start_shim(&shim(), &spec, &[]).unwrap_err();
    assert!(missing.to_string().contains("spec.json"), "{missing}");
    std::fs::write(&spec, "{\"v\":1").unwrap();
    assert!(matches!(
        start_shim(&shim(), &spec, &[]),
        Err(StartError::Spec { .. })
    ));
}

#[tokio::test]
async fn a_spec_without_a_secret_is_refused_and_the_last_log_line_says_so() {
    let mut stage = Stage::agent("true");
    stage.spec.nonce = "00".into();
    let spec = stage.worktree().join("spec.json");
    std::fs::write(&spec, serde_json::to_vec(&stage.spec).unwrap()).unwrap();
    let refused = tokio::task::spawn_blocking(move || start_shim(&shim(), &spec, &[]))
        .await
        .unwrap();
    let error = refused.unwrap_err();
    assert!(
        matches!(&error, StartError::Ended { last_line, .. } if last_line.contains("nonce")),
        "{error}"
    );
    assert!(!stage.spec.files.exit.exists());
}

#[tokio::test]
async fn the_shim_sees_nothing_of_its_callers_secrets_and_leads_a_session_of_its_own() {
    let running = Stage::agent("sleep 600").start().await;
    let pid = running.identity.pid;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let names: Vec<_> = environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.split(|byte| *byte == b'=').next())
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    // Cargo's own variables stand for any that are not on the list.
    assert!(std::env::vars_os().any(|(name, _)| name == "PATH"));
    assert!(
        names.iter().all(|name| {
            let listed = [
                "PATH",
                "HOME",
                "USER",
                "LOGNAME",
                "LANG",
                "LC_ALL",
                "TZ",
                "TMPDIR",
                "XDG_RUNTIME_DIR",
                "FOREMAN_LOG",
                "SSL_CERT_FILE",
                "SSL_CERT_DIR",
            ];
            listed.contains(&name.as_str())
        }),
        "{names:?}"
    );
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    assert_eq!(nix::unistd::getsid(Some(pid)).unwrap(), pid);
    let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(cwd, std::path::Path::new("/"));
    running.client.stop(0).await.unwrap();
    running.end().await;
}
