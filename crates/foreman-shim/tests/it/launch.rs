use crate::stage::shim;
use foreman_shim::launch::{StartError, start_shim};

#[test]
fn a_missing_or_damaged_spec_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let spec = dir.path().join("spec.json");
    let missing = start_shim(&shim(), &spec).unwrap_err();
    assert!(missing.to_string().contains("spec.json"), "{missing}");
    std::fs::write(&spec, "{\"v\":1").unwrap();
    assert!(matches!(
        start_shim(&shim(), &spec),
        Err(StartError::Spec { .. })
    ));
}
